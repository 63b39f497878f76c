package session

import (
	"errors"
	"testing"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/seen"
	"github.com/beamscope/beamscope/internal/sources/ring"
)

// Each outcome says of each VM how its events are seen, in words that are the same everywhere.
func TestSights(t *testing.T) {
	vm := func(pid int) outcome.VM { return outcome.VM{PID: pid} }
	buy := outcome.Spec{Name: "buy", Span: "purchase"}
	gc := outcome.Spec{Name: "gc", VM: outcome.Events{Builtin: "gc"}}
	run := outcome.Spec{Name: "run", VM: outcome.Events{Builtin: "run"}}
	wait := outcome.Spec{Name: "wait", VM: outcome.Events{Builtin: "os-wait"}}
	mail := outcome.Spec{Name: "mail", Wrapper: "mail"}
	attached := func(name string, by seen.Way, outcomes ...string) outcome.ProbeStatus {
		return outcome.ProbeStatus{Name: name, Seen: by, Outcomes: outcomes}
	}
	observed := Sights{
		attached: true,
		vms: []outcome.VMStatus{
			{VM: vm(1), Probes: []outcome.ProbeStatus{ // with probes
				attached("user_trace-n17", seen.Probe, "buy"), attached("gc_minor-start", seen.Probe, "gc"),
				attached("process-out", seen.StandIn, "run", "buy"), attached("message-send", seen.Probe, "buy"),
			}},
			{VM: vm(2), Probes: []outcome.ProbeStatus{ // of a known build
				attached("user_trace-n", seen.StandIn, "buy"), attached("gc_minor-start", seen.StandIn, "gc"), attached("process-out", seen.StandIn, "run"),
			}},
			{VM: vm(3), Refused: "no probes"},
			{VM: vm(4), Ended: true},
		},
		rings: []ring.Status{{VM: vm(1), Found: true}, {VM: vm(2), Found: true}, {VM: vm(3), Found: true}, {VM: vm(4), Found: true, Ended: true}, {VM: vm(5)},
			{VM: vm(6), Found: true, Refused: "it broke"}, {VM: vm(7), Refused: "another layout"}},
	}
	if got, want := observed.Unread(), "the spans of pid 6 are not read: it broke"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	lacking := Sights{lacking: errors.New("no eBPF here"), rings: []ring.Status{{VM: vm(5), Found: true}}}
	for _, test := range []struct {
		sights Sights
		spec   outcome.Spec
		vm     outcome.VM
		want   string
	}{
		{observed, buy, vm(1), "probe, ring"}, // others only explain it
		{observed, gc, vm(1), "probe"},
		{observed, run, vm(1), "stand-in"},
		{observed, wait, vm(1), "kernel"},
		{observed, buy, vm(2), "stand-in, ring"},
		{observed, gc, vm(2), "stand-in"},
		{observed, buy, vm(3), "ring"},
		{observed, gc, vm(3), "not at all: no probes"},
		{observed, wait, vm(3), "not at all: no probes"},
		{observed, buy, vm(4), "not at all: the VM has ended"},
		{observed, buy, vm(5), "not at all: no span was recorded yet, and the VM has no probes"},
		{observed, buy, vm(6), "not at all: it broke"},
		{observed, buy, vm(7), "not at all: another layout"},
		{observed, gc, vm(7), "not at all: nothing is attached to in this VM for it"},
		{observed, buy, vm(0), "probe, stand-in, ring"},
		{observed, gc, vm(0), "probe, stand-in"},
		{observed, mail, vm(0), "tcp"},
		{Sights{attached: true}, gc, vm(0), "not at all: no VM is observed"},
		{Sights{scripted: true}, gc, vm(1), "script"},
		{lacking, buy, vm(5), "ring"},
		{lacking, gc, vm(0), "not at all: no eBPF here"},
	} {
		if got := test.sights.Of(test.spec, test.vm).String(); got != test.want {
			t.Errorf("%s in VM %d: %q, want %q", test.spec.Name, test.vm.PID, got, test.want)
		}
	}
}
