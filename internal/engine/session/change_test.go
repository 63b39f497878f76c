package session_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/session"
)

// guessScope is a scope file with a wrong guess: that a worker takes no more than 3 ms. It takes
// 2.5 ms on average, and more than 3 ms in 30 % of all cases.
const guessScope = `
window: 500ms
history: 200
diagram: |
  probe = worker_1 -> worker_2;
outcomes:
  worker_1: {dmax: 3ms, bins: 30}
  worker_2: {dmax: 1s, bins: 1000}
  probe: {dmax: 2s, bins: 2000}
`

// The frames show that dMax is too small, and it is corrected while everything runs (thesis,
// 6.1.2). Everything else continues undisturbed.
func TestDMaxSetRight(t *testing.T) {
	t.Parallel()
	r := start(t, []string{"mm1k", "rate=100", "loops=0", "delay=2", "k=200"}, guessScope, session.Options{})

	// The share of 400 instances has a standard deviation of 0.02. A busy machine makes the share
	// smaller.
	if s := r.next(8).success(t, "worker_1"); s > 0.85 {
		t.Errorf("with a dMax of 3 ms, %.3g of worker_1's instances succeed, want 0.7", s)
	}
	r.apply(strings.Replace(guessScope, "worker_1: {dmax: 3ms, bins: 30}", "worker_1: {dmax: 1s, bins: 1000}", 1))
	if s := r.next(8).success(t, "worker_1"); s < 0.99 {
		t.Errorf("with a dMax of 1 s, %.3g of worker_1's instances succeed, want all", s)
	}

	all := r.allFrames()
	changed := slices.IndexFunc(all, func(f *scope.Frame) bool {
		return slices.Contains(f.NoticeTexts(), "worker_1: 1000 bins of 1ms instead of 30 of 100µs: a new history begins")
	})
	if changed < 0 {
		t.Fatal("no frame reports that worker_1 has other bins")
	}
	histories(t, all, "worker_1", changed)
	histories(t, all, "worker_2", 0)
	histories(t, all, "probe", 0)
	for _, f := range all[changed:] {
		if p := outcomeOf(f, "probe"); p.CalculatedMean.Windows > int(f.Number)-changed+1 {
			t.Errorf("frame %d: %d calculated windows, with worker_1's bins from frame %d on", f.Number, p.CalculatedMean.Windows, changed)
		}
	}
}

// success returns the share of an outcome's instances that succeed.
func (r frameList) success(t *testing.T, name string) float64 {
	t.Helper()
	s, ok := r.pooled(t, name).Success()
	if !ok {
		t.Fatalf("%s has no instances", name)
	}
	return s
}

// histories checks that an outcome's mean covers all windows that had instances, and that its
// history begins anew with the given frame.
func histories(t *testing.T, frames frameList, name string, anew int) {
	t.Helper()
	windows := 0
	for i, f := range frames {
		if i == anew {
			windows = 0
		}
		p := outcomeOf(f, name)
		if p.Counts.Instances() > 0 {
			windows++
		}
		if p.Mean.Windows != windows {
			t.Errorf("frame %d: the mean of %s is one of %d windows, want %d", i, name, p.Mean.Windows, windows)
		}
	}
}

// tripleScope observes two workers, with one of two window lengths.
const tripleScope = `
window: 1s
outcomes:
  worker_1: {dmax: 1s, bins: 100}
  worker_2: {dmax: 1s, bins: 100}
  probe: {dmax: 1s, bins: 100}
`

// While the length of windows changes, no instance is lost and none is counted twice.
func TestWindowsChangeWithoutLoss(t *testing.T) {
	t.Parallel()
	r := start(t, []string{"ftf", "rate=0"}, tripleScope, session.Options{})
	r.next(1)
	r.set("rate", "300")
	r.next(1)
	r.apply(strings.Replace(tripleScope, "1s", "200ms", 1))
	r.next(6)
	r.apply(tripleScope)
	r.next(1)
	r.set("rate", "0")

	sent := r.sent()
	if sent == 0 {
		t.Fatal("no request was sent")
	}
	for _, name := range []string{"worker_1", "worker_2", "probe"} {
		r.await(t, "all "+name, func() bool { return r.allFrames().total(name).Instances() >= sent })
	}
	r.stop()
	all := r.allFrames()
	for _, name := range []string{"worker_1", "worker_2", "probe"} {
		n := all.total(name)
		if n.Instances() != sent || n.Starts != sent || n.Ends != sent || n.Loss.Total() != 0 {
			t.Errorf("%s: %d instances of %d starts and %d ends, and %+v, want all %d", name, n.Instances(), n.Starts, n.Ends, n.Loss, sent)
		}
	}
	follow(t, all, time.Second, 200*time.Millisecond, time.Second)
}

var sentCount = regexp.MustCompile(`\bsent => (\d+)`)

// sent returns the number of requests that the VM reports as sent.
func (r *rig) sent() uint64 {
	r.t.Helper()
	info, err := r.vm.Call(r.t.Context(), "workers", "info", "[]")
	if err != nil {
		r.t.Fatal(err)
	}
	found := sentCount.FindStringSubmatch(info)
	if found == nil {
		r.t.Fatalf("no count in %s", info)
	}
	n, err := strconv.ParseUint(found[1], 10, 64)
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// total returns the sum of an outcome's counts.
func (r frameList) total(name string) outcome.Counts {
	var sum outcome.Counts
	for _, f := range r {
		sum = sum.Add(outcomeOf(f, name).Counts)
	}
	return sum
}

// follow checks that windows follow each other without gaps, and have these lengths in this
// order.
func follow(t *testing.T, frames frameList, lengths ...time.Duration) {
	t.Helper()
	var seen []time.Duration
	for i, f := range frames {
		if i > 0 && f.Window.From != frames[i-1].Window.To {
			t.Errorf("frame %d begins %v after the end of the one before", i, time.Duration(f.Window.From-frames[i-1].Window.To))
		}
		if d := f.Window.Duration(); len(seen) == 0 || d != seen[len(seen)-1] {
			seen = append(seen, d)
		}
	}
	if !slices.Equal(seen, lengths) {
		t.Errorf("windows of %v, want %v", seen, lengths)
	}
}
