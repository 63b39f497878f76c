package session_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
	"github.com/beamscope/beamscope/internal/session"
	"github.com/beamscope/beamscope/internal/vm"
	"github.com/beamscope/beamscope/internal/vmtest"
)

// loadRing has the VM start and end spans called a, and waits until so many are counted in all.
func (r *rig) loadRing(spans string, n uint64) {
	r.t.Helper()
	vmtest.Call(r.t, r.vm, "span_load", "run", `[#{procs => 2, spans => `+spans+`, name => <<"a">>}]`)
	r.await(r.t, "the spans", func() bool { return r.reel().sum("a").Instances() >= n })
}

// Where the VM has no probes its spans are observed all the same, and it is said that nothing
// else is. Outcomes of the VM that nobody asked for are left out.
func TestSpansOfVMWithoutProbes(t *testing.T) {
	t.Parallel()
	beam := vmtest.StartOn(t, vmtest.WithoutProbes(t), erlang.Options{Ring: true})
	r := observe(t, beam, "window: 200ms\noutcomes: {gc: {vm: gc}}\n", session.Options{Discover: true, Spare: []string{"gc"}, Look: []string{"run"}})
	if r.Attached() {
		t.Error("it says that programs are attached")
	}
	r.load(1, "a")
	r.await(t, "its outcome", func() bool { return slices.Contains(r.spans(), "a") })
	r.next(1)
	before := r.reel().sum("a").Instances()
	r.loadRing("5000", before+5000)
	n := r.reel().sum("a")
	if n.Instances() != before+5000 || n.Successes != n.Instances() || n.Loss.Total() != 0 {
		t.Errorf("%d before, then %+v", before, n)
	}
	if !r.noticed("only spans of the application beamscope are observed") {
		t.Errorf("notices: %v", r.film)
	}
	if slices.ContainsFunc(r.reel(), func(f *scope.Frame) bool { return len(f.Probes) > 1 }) {
		t.Error("there is another outcome")
	}
	status := r.Status().VMs
	if len(status) != 1 || !status[0].Ring || status[0].VM.PID != beam.PID() {
		t.Errorf("status %+v", status)
	}
}

// What only probes can tell is refused, with the reason.
func TestVMOutcomesNeedProbes(t *testing.T) {
	t.Parallel()
	beam := vmtest.StartOn(t, vmtest.WithoutProbes(t), erlang.Options{Ring: true})
	c := parse(t, "target: {exe: '"+emulatorOf(t, beam)+"'}\noutcomes: {gc: {vm: gc}, a: {span: a, dmax: 1s, bins: 100}}\n")
	if s, err := session.Open(t.Context(), c, session.Options{}); !errors.Is(err, vm.ErrNoProbes) {
		t.Errorf("error %v, want %v", err, vm.ErrNoProbes)
		if err == nil {
			s.Close()
		}
	}
}

func emulatorOf(t *testing.T, beam *erlang.VM) string {
	t.Helper()
	vms, _, err := vm.Find(t.Context(), vm.Target{PID: beam.PID()})
	if err != nil {
		t.Fatal(err)
	}
	return vms[0].Exe.Name
}

// Beside a VM's probes, a ring counts each span once: those that are recorded and those that
// fire a probe. Explained spans fire the probes.
func TestRingBesideProbes(t *testing.T) {
	t.Parallel()
	vmtest.NeedEBPF(t)
	beam := vmtest.Start(t, erlang.Options{Ring: true})
	const file = "window: 200ms\noutcomes: {a: {span: a, dmax: 10s, bins: 1000}}\n"
	seen := &explained{film: newFilm()}
	r := observe(t, beam, file, session.Options{Observers: []scope.Observer{seen}})
	r.next(1)
	r.loadRing("3000", 3000)
	vmtest.Eval(t, beam, `Label = 1 + erlang:crc32(<<"a">>) rem 950,
		[begin dyntrace:pn(Label, I, 1, 1, 0, <<"a">>, <<>>), dyntrace:pn(Label, I, 2, 1, 0, <<"a">>, <<>>) end || I <- lists:seq(1, 100)], ok`)
	r.await(t, "those that fired the probe", func() bool { return r.reel().sum("a").Instances() >= 3100 })
	r.apply(strings.Replace(file, "outcomes", "explain: true\noutcomes", 1))
	r.next(1)
	r.loadRing("50", 3150)
	if n := r.reel().sum("a"); n.Instances() != 3150 || n.Successes != 3150 || n.Starts != 3150 || n.Loss.Total() != 0 {
		t.Errorf("%+v", n)
	}
	r.stop()
	if seen.traces == 0 {
		t.Error("no span was explained")
	}
}

// An explained counts instances that have a trace.
type explained struct {
	*film
	traces int
}

// Framed implements [scope.Observer].
func (e *explained) Framed(b *outcome.Batch, _ *scope.Frame) error {
	for _, i := range b.Instances {
		if i.Trace != nil {
			e.traces++
		}
	}
	return nil
}
