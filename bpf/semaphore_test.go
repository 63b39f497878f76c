package bpf_test

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
	"github.com/beamscope/beamscope/usdt"
)

// withoutSemaphores returns the sites of a probe without their semaphores.
func withoutSemaphores(sites []usdt.Site) []usdt.Site {
	var bare []usdt.Site
	for _, s := range sites {
		s.Semaphore = 0
		bare = append(bare, s)
	}
	return bare
}

// Spans are seen because their semaphore is raised: without that, the same probes stay silent
// although programs are attached.
func TestNoSpansWithoutSemaphore(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{load(endless)}})
	target := vmtest.Target(t, vm)
	bare := target
	bare.Probes = nil
	for _, p := range target.Probes {
		p.Sites = withoutSemaphores(p.Sites)
		bare.Probes = append(bare.Probes, p)
	}

	a, err := c.Attach(t.Context(), bare)
	if err != nil {
		t.Fatal(err)
	}
	c.Call(vm, "span_load", "run", spans(2, 1000))
	checkTotal(t, c, 0, vm.PID(), vmtest.Total{})

	if err := a.Detach(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Attach(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	c.Call(vm, "span_load", "run", spans(2, 1000))
	checkTotal(t, c, 0, vm.PID(), succeeded(1000))
}

// If a probe fires without its semaphore, as message__send does, its strings are empty, because the
// VM formats them only with the semaphore. With the semaphore, the sender is there.
func TestNoStringsWithoutSemaphore(t *testing.T) {
	vmtest.NeedEBPF(t)
	const sends = 500
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	path, probes := vmtest.Probes(t, vm.PID())
	exe, err := link.OpenExecutable(path)
	if err != nil {
		t.Fatal(err)
	}
	var sites []usdt.Site
	for _, p := range probes {
		if p.Name == "message__send" {
			sites = p.Sites
		}
	}
	if len(sites) == 0 {
		t.Fatal("no site of message__send")
	}
	send := func() {
		vmtest.Eval(t, vm, fmt.Sprintf("[self() ! x || _ <- lists:seq(1, %d)], ok", sends))
	}

	bare := watchSenders(t, exe, vm.PID(), withoutSemaphores(sites))
	send()
	bare.detach()
	if bare.empty() < sends || bare.named() > 0 {
		t.Errorf("without the semaphore: %d senders empty, %d not; want all empty", bare.empty(), bare.named())
	}

	full := watchSenders(t, exe, vm.PID(), sites)
	send()
	full.detach()
	if full.named() < sends || full.empty() > 0 {
		t.Errorf("with the semaphore: %d senders empty, %d not; want none empty", full.empty(), full.named())
	}
	if pid := regexp.MustCompile(`^<0\.\d+\.\d+>$`); !pid.MatchString(full.last()) {
		t.Errorf("the sender is %q, want <0.N.M>", full.last())
	}
}

// Senders contains the first arguments of message__send.
type senders struct {
	t       *testing.T
	results *ebpf.Map
	links   []link.Link
}

// The layout of the value in senders.results.
const (
	textBytes   = 40 // the last string
	emptyOffset = textBytes
	namedOffset = textBytes + 8
)

// watchSenders attaches a program for each site that reads its first argument as
// a string, keeps it, and counts whether it was empty.
func watchSenders(t *testing.T, exe *link.Executable, pid int, sites []usdt.Site) *senders {
	t.Helper()
	results, err := ebpf.NewMap(&ebpf.MapSpec{
		Type: ebpf.Array, KeySize: 4, ValueSize: namedOffset + 8, MaxEntries: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &senders{t: t, results: results}
	t.Cleanup(func() {
		s.detach()
		results.Close()
	})
	for _, site := range sites {
		program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Type:         ebpf.Kprobe,
			AttachType:   ebpf.AttachTraceUprobeMulti,
			Instructions: readSender(results, site.Args[0]),
			License:      "GPL",
		})
		if err != nil {
			t.Fatal(err)
		}
		defer program.Close() // the link keeps the program alive
		opts := &link.UprobeMultiOptions{Addresses: []uint64{site.Offset}, PID: uint32(pid)}
		if site.Semaphore != 0 {
			opts.RefCtrOffsets = []uint64{site.Semaphore}
		}
		l, err := exe.UprobeMulti(nil, program, opts)
		if err != nil {
			t.Fatal(err)
		}
		s.links = append(s.links, l)
	}
	return s
}

// readSender is the program for one site, whose argument is in a register.
func readSender(results *ebpf.Map, arg usdt.Arg) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R6, asm.R1, int16(arg.Base)*8, asm.DWord),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, results.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "exit"),
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.Mov.Reg(asm.R1, asm.R7),
		asm.Mov.Imm(asm.R2, textBytes),
		asm.Mov.Reg(asm.R3, asm.R6),
		asm.FnProbeReadUserStr.Call(),
		asm.Mov.Imm(asm.R1, 1),
		asm.JSGT.Imm(asm.R0, 1, "named"), // its NUL counts
		asm.AddAtomic.Mem(asm.R7, asm.R1, asm.DWord, emptyOffset),
		asm.Ja.Label("exit"),
		asm.AddAtomic.Mem(asm.R7, asm.R1, asm.DWord, namedOffset).WithSymbol("named"),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("exit"),
		asm.Return(),
	}
}

// detach removes the programs, so that the results no longer change.
func (s *senders) detach() {
	for _, l := range s.links {
		if err := l.Close(); err != nil {
			s.t.Error(err)
		}
	}
	s.links = nil
}

func (s *senders) empty() uint64 { return binary.NativeEndian.Uint64(s.value()[emptyOffset:]) }
func (s *senders) named() uint64 { return binary.NativeEndian.Uint64(s.value()[namedOffset:]) }
func (s *senders) last() string  { return unix.ByteSliceToString(s.value()[:textBytes]) }

func (s *senders) value() []byte {
	s.t.Helper()
	value, err := s.results.LookupBytes(uint32(0))
	if err != nil {
		s.t.Fatal(err)
	}
	return value
}
