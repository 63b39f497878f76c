package ring

import (
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// longAgo is a time long before all tests.
const longAgo = -1 << 50

// explain is the explain mask in the control word of a ring.
func (w *world) explain(ring int) uint16 {
	return uint16(w.words[wordControl(ring)] >> explainShift)
}

// Programs in the kernel count explained spans only if they see them in the way in which the
// application shows them.
func TestKernelSeesSpans(t *testing.T) {
	for _, test := range []struct {
		header header
		since  int64
		calls  bool
		want   int64
	}{
		{header{probes: true}, 5, false, 5},
		{header{probes: true}, 0, false, 0},
		{header{probes: true}, 5, true, 0},
		{header{calls: true}, 5, true, 5},
		{header{calls: true}, 5, false, 0},
		{header{}, 5, false, 0},
		{header{}, 5, true, 0},
	} {
		k := Kernel(func(vm.VM) (int64, bool) { return test.since, test.calls })
		if got := k.of(vm.VM{}, test.header); got != test.want {
			t.Errorf("%+v: since %d", test, got)
		}
	}
	if got := Kernel(nil).of(vm.VM{}, header{probes: true}); got != 0 {
		t.Errorf("without programs: since %d", got)
	}
}

// explained records an explained span.
func (w *world) explained(from, to int64) {
	w.endExplained(1, w.startExplained(0, 1, from*ms), 1, to*ms)
}

// newExplaining returns a world with a plan that requests explanations.
func newExplaining(t *testing.T, dMax time.Duration) *world {
	w := newWorld(t, spec("a", dMax))
	w.o.plan(w.s, control{sample: 0xffff, explain: 0xffff})
	return w
}

// Explained spans count here until programs in the kernel see the VM, and there afterwards.
func TestVMAttachedTo(t *testing.T) {
	w := newExplaining(t, 20*time.Millisecond)
	w.poll(1)
	if w.explain(0) != 0 {
		t.Errorf("explanations requested of a VM that is not attached to: %#x", w.explain(0))
	}
	w.explained(10, 12) // another collector has it explained
	across := w.startExplained(0, 1, 95*ms)
	w.poll(96)
	w.kernel = 97 * ms
	w.poll(98)
	if w.explain(0) != 0xffff || w.explain(1) != 0xffff {
		t.Errorf("no explanations requested of a VM that is attached to: %#x", w.explain(0))
	}
	w.endExplained(1, across, 1, 99*ms)
	w.explained(101, 102)
	w.want(outcome.Counts{Starts: 2, Ends: 2, Successes: 2})
	w.explained(210, 211)
	w.want(outcome.Counts{})
	w.want(outcome.Counts{})
}

// Spans that start while programs are being attached may count there or not. The windows in which they
// end are not observed.
func TestSpansDuringAttaching(t *testing.T) {
	for what, record := range map[string]func(*world){
		"read before":    func(w *world) { w.explained(33, 36); w.poll(39) },
		"read after":     func(w *world) { w.explained(33, 36) },
		"started before": func(w *world) { w.endExplained(1, w.startExplained(0, 1, 29*ms), 1, 36*ms) },
	} {
		t.Run(what, func(t *testing.T) {
			w := newExplaining(t, 80*time.Millisecond)
			w.poll(30)
			record(w)
			w.kernel = 32 * ms
			w.poll(40)
			for i, unobserved := range []bool{true, true, false} { // at 40 ms, after 80 ms, later
				if got := w.collect()[0]; got.Unobserved != unobserved {
					t.Errorf("window %d: not observed %v", i, got.Unobserved)
				}
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		w := newExplaining(t, 80*time.Millisecond)
		w.poll(30)
		w.end(1, w.start(0, 1, 33*ms), 1, 36*ms)
		w.kernel = 32 * ms
		w.poll(40)
		w.want(outcome.Counts{Starts: 1, Ends: 1, Successes: 1})
	})
}

// If a VM is left out, the counts in the kernel of the windows that were not collected are lost, and so
// are spans that are open then. Later spans count here.
func TestVMLeftOut(t *testing.T) {
	w := newExplaining(t, 120*time.Millisecond)
	w.countInKernel(true)
	w.poll(1)
	w.explained(10, 12)
	w.want(outcome.Counts{})
	open := w.startExplained(0, 1, 210*ms)
	w.poll(220)
	w.kernel = 0
	w.poll(230)
	if w.explain(0) != 0 {
		t.Errorf("explanations requested of a VM that is left out: %#x", w.explain(0))
	}
	w.endExplained(1, open, 1, 240*ms)
	w.explained(410, 412)
	for i, unobserved := range []bool{true, true, true} { // not collected, left out at 230 ms, until 350 ms
		if got := w.collect()[0]; got.Unobserved != unobserved {
			t.Errorf("window %d: not observed %v", i+1, got.Unobserved)
		}
	}
	w.want(outcome.Counts{Starts: 1, Ends: 1, Successes: 1})
}

// If the start of an explained span was lost, and may be from before programs in the kernel were
// attached, the span counts as loss.
func TestLostStartBeforeAttaching(t *testing.T) {
	for since, want := range map[int64]uint64{longAgo: 128, 1 * ms: 129} { // see TestLostStartOfExplainedSpan
		w := newWorld(t, spec("a", 10*time.Millisecond))
		w.kernel, w.o.kernel.since = since, since
		first := w.startExplained(0, 1, 5*ms)
		for i := range int64(1 << minLogSlots / 2) {
			w.end(0, w.start(0, 1, 10*ms+2*i), 1, 10*ms+2*i+1)
		}
		w.endExplained(1, first, 1, 8*ms)
		w.poll(20)
		var missed uint64
		for range 2 {
			missed += w.collect()[0].Loss.Missed
		}
		if missed != want {
			t.Errorf("attached at %d: %d missed, want %d", since, missed, want)
		}
	}
}
