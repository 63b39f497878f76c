package vm

import (
	"debug/elf"
	"fmt"
	"regexp"
	"strconv"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/usdt"
)

// functionSite returns where a probe is that a function stands in for.
func functionSite(f *usdt.File, p dtrace.Probe) (usdt.Site, error) {
	address, offset, err := f.Symbol(p.Function.Symbol)
	if err != nil {
		return usdt.Site{}, err
	}
	site := usdt.Site{Address: address, Offset: offset}
	for i, param := range p.Function.Params {
		args, err := usdt.ParseArgs(f.Machine(), paramSpec(f.Machine(), param, p.Args[i].Type))
		if err != nil {
			return usdt.Site{}, fmt.Errorf("argument %s: %w", p.Args[i].Name, err)
		}
		site.Args = append(site.Args, args...)
	}
	return site, nil
}

// paramSpec returns where a parameter is by the calling conventions, System V for x86-64
// and AAPCS64, as a note would say it. Integers are ints there, everything else words.
func paramSpec(machine elf.Machine, p dtrace.Param, t dtrace.Type) string {
	size := "8"
	if t == dtrace.Int {
		size = "-4"
	}
	if machine == elf.EM_AARCH64 {
		register := fmt.Sprintf("x%d", max(p.Number-1, 0))
		if p.Deref {
			return size + "@[" + register + "]"
		}
		return size + "@" + register
	}
	registers := [...]string{"rax", "rdi", "rsi", "rdx", "rcx", "r8", "r9"}
	if size == "-4" {
		registers = [...]string{"eax", "edi", "esi", "edx", "ecx", "r8d", "r9d"}
	}
	if p.Deref {
		return size + "@(%" + registers[p.Number] + ")"
	}
	return size + "@%" + registers[p.Number]
}

var ertsFolder = regexp.MustCompile(`/erts-(\d+)\.`)

// PIDBits returns how many bits of a local pid's data are its number, in the terms of
// the VM: 15 up to OTP 25 (erts 13), see erts/emulator/beam/erl_term.h, and 28 since,
// which was not tried. The folder of the executable tells; where it does not, OTP 25 is
// assumed.
func (v VM) PIDBits() uint8 {
	if major, known := v.erts(); known && major > erts25 {
		return 28
	}
	return 15
}

// StateBits reports whether the flags of the VM's processes mean what they do in OTP 25,
// see ERTS_PSFLG_BIT in erts/emulator/beam/erl_process.h. Other versions were not tried,
// and where the folder does not tell which it is, it may be one of them.
func (v VM) StateBits() bool {
	major, known := v.erts()
	return known && major == erts25
}

// erts25 is the major version of the runtime system of OTP 25.
const erts25 = 13

// erts returns the major version of the runtime system, by the folder of the executable;
// false where it does not tell.
func (v VM) erts() (major int, known bool) {
	m := ertsFolder.FindStringSubmatch(v.Exe.Name)
	if m == nil {
		return 0, false
	}
	major, err := strconv.Atoi(m[1])
	return major, err == nil
}
