package session

import (
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
)

// more adds a window with more starts than ends.
func (r *ranging) more(starts int, delays ...time.Duration) {
	r.t.Helper()
	r.extra = starts - len(delays)
	r.window(delays...)
	r.extra = 0
}

// A scale is not narrowed while open instances are older than the narrower dMax. They may be the
// first slow ones of an incident, while only fast ones have ended so far.
func TestNotNarrowedWhileOldInstancesAreOpen(t *testing.T) {
	const normal = 8 * time.Millisecond
	r := newRanging(t)
	start := r.fit()
	r.window(times(50, normal)...)
	r.more(50, times(10, normal)...)
	if got := r.fit(); got != start {
		t.Fatalf("dMax %v with 40 instances open", got)
	}
	r.more(50, times(90, normal)...) // the open instances have ended
	r.window(times(50, normal)...)
	if got := r.fit(); got >= start {
		t.Errorf("dMax %v after all had ended", got)
	}
}

// Open instances prevent a scale from shrinking only while their VM runs and all windows since
// then were observed.
func TestOpenInstancesAreDropped(t *testing.T) {
	one, two := outcome.VM{PID: 1}, outcome.VM{PID: 2}
	f := &found{open: make(map[outcome.VM]opened)}
	see := func(window int64, vm outcome.VM, starts, ended uint64) {
		p := scope.Outcome{VM: vm, Window: outcome.Window{From: window * 1e9, To: (window + 1) * 1e9}, Counts: outcome.Counts{Starts: starts, Successes: ended}}
		f.to = p.Window.To
		f.follow(&p)
	}
	check := func(what string, open uint64, starts float64) {
		t.Helper()
		if n, rate := f.opened(); n != open || rate != starts {
			t.Errorf("%s: %d open, %v/s, want %d, %v/s", what, n, rate, open, starts)
		}
	}
	see(0, one, 10, 4)
	see(0, two, 20, 0)
	check("two VMs", 26, 30)
	see(1, two, 5, 1)
	check("one of them has ended", 24, 5)
	see(1, one, 3, 3)
	check("it has come back", 24, 8)

	frame := scope.Frame{Outcomes: []scope.Outcome{{VM: two, Spec: outcome.Spec{Span: "a"}, Counts: outcome.Counts{Unobserved: true}}}}
	finder := &finder{session: &Session{}, found: map[origin]*found{{span: "a"}: f}}
	if err := finder.Framed(nil, &frame); err != nil {
		t.Fatal(err)
	}
	check("a window that was not observed", 0, 3)
}

// Some time after an incident the scale becomes fine again. The time grows with each incident, so
// that the scale does not change forever.
func TestFineAgainAfterIncidents(t *testing.T) {
	const normal = 8 * time.Millisecond
	r := newRanging(t)
	r.window(times(50, normal)...)
	r.window(times(50, normal)...)
	fine := r.fit()
	last := 0
	for incident := range 5 {
		for range 8 {
			r.window(times(50, 1500*time.Millisecond)...)
			r.fit()
		}
		wide := r.fit()
		if wide < 3*time.Second {
			t.Fatalf("dMax %v in incident %d", wide, incident)
		}
		after := 0
		for r.fit() == wide {
			r.window(times(50, normal)...)
			if after++; after > 4000 {
				t.Fatalf("dMax still %v after incident %d", wide, incident)
			}
		}
		if got := r.fit(); got > fine*4 {
			t.Errorf("dMax %v after incident %d, %v before", got, incident, fine)
		}
		if after < 60 || after < last {
			t.Errorf("%d s after incident %d, after %d s the last time", after, incident, last)
		}
		last = after
	}
	if last < 8*60 {
		t.Errorf("%d s after the last of many incidents", last)
	}
}

// A single slow instance that ended while the scale was narrowed does not make it as wide as at
// the beginning. The notice mentions no other instances.
func TestSlowInstanceAmongFastOnes(t *testing.T) {
	const normal = 12 * time.Microsecond
	r := newRanging(t)
	r.window(times(50, normal)...)
	r.window(times(50, normal)...)
	fit, ok := r.finder.fitOf(r.config, &r.config.Outcomes[0])
	if !ok {
		t.Fatal("the scale is not fitted")
	}
	fit.settle()
	r.window(append(times(100, normal), 20*time.Millisecond)...) // before the change is in force
	r.config.Outcomes[0].Scale = fit.fitting.Scale
	r.window(times(83, normal)...)
	fit, ok = r.finder.fitOf(r.config, &r.config.Outcomes[0])
	if !ok {
		t.Fatal("not widened")
	}
	if got := fit.after.DMax(); got < 40*time.Millisecond || got > 160*time.Millisecond {
		t.Errorf("dMax %v for a delay of 20ms", got)
	}
	if text := fit.String(); strings.Contains(text, "0 of") || !strings.HasSuffix(text, ": the slowest so far took more than 20ms") {
		t.Errorf("%q", text)
	}
}

// Lost instances are not open.
func TestLostInstancesAreNotOpen(t *testing.T) {
	f := &found{open: make(map[outcome.VM]opened)}
	f.follow(&scope.Outcome{Window: outcome.Window{To: 1e9}, Counts: outcome.Counts{Starts: 10, Successes: 4, Loss: outcome.Loss{Cut: 3}}})
	if n, _ := f.opened(); n != 3 {
		t.Errorf("%d open, want 3", n)
	}
}
