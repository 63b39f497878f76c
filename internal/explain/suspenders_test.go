package explain

import (
	"debug/elf"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// Every function of the VM that suspends the running process is known on each release, except those
// of debuggers, the one for the VM's end, and those that suspend for a port.
func TestSuspendersOfEachRelease(t *testing.T) {
	others := strings.Fields("erts_debug_breakpoint_2 erl_debugger_breakpoint_3 halt_2 do_send erts_internal_port_command_3")
	vmtest.OnEach(t, func(t *testing.T, otp erlang.OTP) {
		found := callersOf(t, otp.Emulator(), "erts_suspend")
		if len(found) < 15 {
			t.Errorf("it has %d: %q", len(found), found)
		}
		for _, name := range found {
			name, _, _ = strings.Cut(name, ".")
			if _, known := suspenders[name]; !known && !slices.Contains(others, name) {
				t.Errorf("%s is not known", name)
			}
		}
	})
}

// callersOf returns the names of the functions of an executable that call one of its functions.
func callersOf(t *testing.T, path, callee string) (names []string) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Machine != elf.EM_X86_64 {
		t.Skipf("how %v calls functions is not read", f.Machine)
	}
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	text := f.Section(".text")
	code, err := text.Data()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == callee && elf.ST_TYPE(s.Info) == elf.STT_FUNC })
	if at < 0 {
		t.Fatalf("%s has no function %s", path, callee)
	}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC || s.Value < text.Addr || s.Value+s.Size > text.Addr+text.Size {
			continue
		}
		body := code[s.Value-text.Addr:][:s.Size]
		const call, size = 0xe8, 5
		for i := 0; i+size <= len(body); i++ {
			next := s.Value + uint64(i) + size
			if body[i] == call && next+uint64(int64(int32(binary.LittleEndian.Uint32(body[i+1:])))) == symbols[at].Value {
				names = append(names, s.Name)
				break
			}
		}
	}
	return names
}
