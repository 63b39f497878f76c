package vmsource_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/sources/vmsource"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// Malicious debug information may stall or crash its reader. A VM with such debug information is
// observed like a VM without any.
func TestCraftedDebugInfo(t *testing.T) {
	vmtest.NeedNames(t)
	otp := vmtest.Private(t)
	// One unit with nested entries, as deep as its size allows.
	entries := append([]byte{1}, bytes.Repeat([]byte{2}, 30<<20)...)
	header := binary.LittleEndian.AppendUint32(nil, uint32(7+len(entries)))
	replaceSections(t, otp.Emulator(), map[string][]byte{
		".debug_info":   append(append(header, 4, 0, 0, 0, 0, 0, 8), entries...),
		".debug_abbrev": {1, 0x11, 1, 0, 0, 2, 0x0b, 1, 0, 0, 0},
	})
	beam := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes})
	s := newSourceOf(t, vmsource.Config{Target: vm.Target{PID: beam.PID()}, Plan: outcome.Plan{Window: 200 * time.Millisecond, Specs: []outcome.Spec{{
		Name: "outcome", Span: "load", BinWidth: 10 * time.Millisecond, Bins: 50, Detail: outcome.Worst, Explain: true,
	}}}})
	begin := monotonic.Now()
	vmtest.Call(t, beam, "span_load", "run", `[#{procs => 1, spans => 10, name => <<"load">>}]`)
	s.collectUntil("the spans", func() bool {
		spans := uint64(0)
		for _, b := range s.batches {
			for _, c := range b.Counts {
				spans += c.Ends
			}
		}
		return spans == 10 && s.batches[len(s.batches)-1].Window.To > begin
	})
	if !slices.ContainsFunc(s.seen, func(text string) bool { return strings.Contains(text, "too much debugging information") }) {
		t.Errorf("no notice explains why the processes are unknown: %q", s.seen)
	}
}

// replaceSections replaces the contents of some sections of an executable.
func replaceSections(t *testing.T, path string, contents map[string][]byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	table := binary.LittleEndian.Uint64(data[40:])
	for i, s := range file.Sections {
		with, ok := contents[s.Name]
		if !ok {
			continue
		}
		header := data[table+uint64(i)*64:]
		binary.LittleEndian.PutUint64(header[8:], 0) // flags: not compressed
		binary.LittleEndian.PutUint64(header[24:], uint64(len(data)))
		binary.LittleEndian.PutUint64(header[32:], uint64(len(with)))
		data = append(data, with...)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	// Another process writes the file, because a file that this process has open for writing
	// cannot be executed.
	whole := path + ".whole"
	if err := os.WriteFile(whole, data, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", whole, path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
