package scope

import (
	"math"
	"testing"
	"time"
)

// The windows of these tests have 1000 ns of time, divided among the causes.
var one, two = Cause{Name: "one"}, Cause{Name: "two"}

func pastOf(end int64, quiet bool, ofOne, ofTwo time.Duration) pastWindow {
	w := pastWindow{time: time.Unix(end, 0), quiet: quiet, total: 1000}
	for c, d := range map[Cause]time.Duration{one: ofOne, two: ofTwo} {
		if d > 0 {
			w.times = append(w.times, causeTime{cause: c, time: d})
		}
	}
	return w
}

// explainingOf returns an explaining after some past windows. In the present window the two
// causes took these parts of 1000 ns.
func explainingOf(ofOne, ofTwo time.Duration, past ...pastWindow) *explaining {
	x := &explaining{past: past}
	x.now.Total = 1000
	x.now.Quiet = quiet(past)
	x.tally.index = map[Cause]int{}
	for i, c := range []Cause{one, two} {
		d := [...]time.Duration{ofOne, ofTwo}[i]
		if d == 0 {
			continue
		}
		x.tally.index[c] = len(x.tally.times)
		x.tally.times = append(x.tally.times, causeTime{cause: c, time: d, reason: c.Name})
		u, _ := usual(past, c)
		x.now.Shares = append(x.now.Shares, Share{Cause: c, Time: d, Of: float64(d) / 1000, Usual: u, Doubt: Doubt{Reason: c.Name}})
	}
	return x
}

// repeat returns n windows with these shares.
func repeat(n int, quiet bool, ofOne, ofTwo time.Duration) (all []pastWindow) {
	for i := range n {
		all = append(all, pastOf(int64(i), quiet, ofOne, ofTwo))
	}
	return all
}

func TestUsual(t *testing.T) {
	past := []pastWindow{pastOf(1, true, 100, 0), pastOf(2, false, 900, 100), pastOf(3, true, 300, 600), pastOf(4, true, 0, 0)}
	if n := quiet(past); n != 3 {
		t.Errorf("%d are quiet, want 3", n)
	}
	for c, want := range map[Cause]float64{one: 400. / 3000, two: 600. / 3000, {}: 0} {
		if got, windows := usual(past, c); math.Abs(got-want) > 1e-15 || windows != 3 {
			t.Errorf("%v: %v of %d windows, want %v of 3", c, got, windows, want)
		}
	}
	if got, windows := usual(past[1:2], one); got != 0 || windows != 0 {
		t.Errorf("without a quiet window: %v of %d", got, windows)
	}
	if got := past[2].share(two); got != 0.6 {
		t.Errorf("a share of %v, want 0.6", got)
	}
	if got := past[0].share(two); got != 0 {
		t.Errorf("a share of %v, want 0", got)
	}
}

// The last windows are the present one and the four before it.
func TestLately(t *testing.T) {
	x := explainingOf(500, 100, pastOf(1, true, 900, 0), pastOf(2, true, 300, 0), pastOf(3, false, 700, 0), pastOf(4, true, 100, 0), pastOf(5, true, 600, 0))
	if median, least := x.lately(one); median != 0.5 || least != 0.1 {
		t.Errorf("median %v, least %v, want 0.5 and 0.1", median, least)
	}
	if median, least := x.lately(two); median != 0 || least != 0 {
		t.Errorf("median %v, least %v, want 0", median, least)
	}
	x.past = x.past[4:]
	if median, least := x.lately(one); median != 0.6 || least != 0.5 {
		t.Errorf("of two windows: median %v, least %v, want 0.6 and 0.5", median, least)
	}
	if median, least := x.lately(Cause{}); median != 0 || least != 0 {
		t.Errorf("of an unknown cause: median %v, least %v", median, least)
	}
}

// One in twenty quiet windows may have a share as large.
func TestUnusual(t *testing.T) {
	for _, tt := range []struct {
		quiet, as int
		want      bool
	}{{20, 0, true}, {20, 1, true}, {20, 2, false}, {19, 1, false}, {40, 2, true}, {40, 3, false}, {1, 0, true}} {
		past := append(repeat(tt.quiet-tt.as, true, 499, 0), repeat(tt.as, true, 500, 0)...)
		past = append(past, repeat(5, false, 900, 0)...)
		if got := unusual(past, one, 0.5); got != tt.want {
			t.Errorf("%d of %d quiet windows: %v, want %v", tt.as, tt.quiet, got, tt.want)
		}
	}
}

// A share has grown in one window if it is larger by a tenth than in at least five quiet ones.
// The cause that has grown most counts, not the largest.
func TestGrown(t *testing.T) {
	now := time.Unix(100, 0)
	for _, tt := range []struct {
		name  string
		x     *explaining
		cause Cause
		from  float64
	}{
		{"growth by a tenth", explainingOf(250, 0, repeat(5, true, 125, 0)...), one, 0.125},
		{"less growth", explainingOf(224, 0, repeat(5, true, 125, 0)...), Cause{}, 0},
		{"after four windows", explainingOf(250, 0, repeat(4, true, 125, 0)...), Cause{}, 0},
		{"after four quiet windows", explainingOf(250, 0, append(repeat(4, true, 125, 0), repeat(4, false, 1, 0)...)...), Cause{}, 0},
		{"the smaller cause has grown more", explainingOf(600, 400, repeat(5, true, 550, 100)...), two, 0.1},
		{"a new cause", explainingOf(600, 400, repeat(5, true, 600, 0)...), two, 0},
	} {
		got := tt.x.grown(now)
		if (got == nil) != (tt.cause == Cause{}) {
			t.Errorf("%s: %v", tt.name, got)
		}
		if got != nil && (got.Cause != tt.cause || math.Abs(got.From-tt.from) > 1e-15 || got.To != tt.x.now.Shares[tt.x.tally.index[tt.cause]].Of || got.Since != now) {
			t.Errorf("%s: %+v, want %v from %v", tt.name, got, tt.cause, tt.from)
		}
	}
}

// A share has risen if it is larger in the last five windows than in nearly all of ten quiet ones
// before, and its median is larger by a tenth.
func TestRisen(t *testing.T) {
	before := repeat(10, true, 100, 100)
	then := func(all ...time.Duration) []pastWindow {
		past := before[:10:10]
		for i, d := range all {
			past = append(past, pastOf(int64(20+i), false, d, 100))
		}
		return past
	}
	for _, tt := range []struct {
		name string
		x    *explaining
		ok   bool
		to   float64
	}{
		{"five windows", explainingOf(300, 100, then(300, 300, 300, 300)...), true, 0.3},
		{"four windows", explainingOf(300, 100, then(100, 300, 300, 300)...), false, 0},
		{"the median is larger by a tenth", explainingOf(300, 100, then(190, 225, 225, 400)...), true, 0.225},
		{"the median is larger by less", explainingOf(300, 100, then(199, 199, 199, 400)...), false, 0},
		{"nine quiet windows", explainingOf(300, 100, then(300, 300, 300, 300)[1:]...), false, 0},
		{"one of ten quiet windows has as much", explainingOf(300, 100, append([]pastWindow{pastOf(0, true, 500, 0)}, then(300, 300, 300, 300)[1:]...)...), false, 0},
		{"one of the last windows has less", explainingOf(300, 100, then(0, 300, 300, 300)...), false, 0},
		{"too few windows", explainingOf(300, 100, then()[:3]...), false, 0},
	} {
		got, ok := tt.x.risen(time.Unix(100, 0))
		if ok != tt.ok || ok && (got.Cause != one || got.To != tt.to || math.Abs(got.From-0.1) > 1e-15 || got.Since != time.Unix(20, 0) || got.Reason != "one") {
			t.Errorf("%s: %+v, %v", tt.name, got, ok)
		}
	}
	// Of two causes that have risen, the one that rose more counts.
	past := repeat(10, true, 100, 100)
	past = append(past, repeat(4, false, 300, 400)...)
	if got, ok := explainingOf(300, 400, past...).risen(time.Unix(100, 0)); !ok || got.Cause != two {
		t.Errorf("%+v, %v, want two", got, ok)
	}
	past = append(repeat(10, true, 100, 100), repeat(4, false, 400, 300)...)
	if got, ok := explainingOf(400, 300, past...).risen(time.Unix(100, 0)); !ok || got.Cause != one {
		t.Errorf("%+v, %v, want one", got, ok)
	}
}

// A shift lasts as long as half of the least growth is left.
func TestLasting(t *testing.T) {
	before := Shift{Cause: one, From: 0.125, To: 0.3, Since: time.Unix(3, 0), Doubt: Doubt{Reason: "old"}}
	for _, tt := range []struct {
		now  time.Duration
		past []pastWindow
		ok   bool
		why  string
	}{
		{200, append(repeat(10, true, 125, 0), repeat(4, false, 200, 0)...), true, "one"},
		{170, append(repeat(10, true, 125, 0), repeat(4, false, 170, 0)...), false, ""},
		{0, append(repeat(10, true, 125, 0), repeat(4, false, 200, 0)...), true, "old"}, // of the median
	} {
		got, ok := explainingOf(tt.now, 0, tt.past...).lasting(before)
		if ok != tt.ok || ok && (got.To != 0.2 || got.From != 0.125 || got.Since != before.Since || got.Reason != tt.why) {
			t.Errorf("%v now: %+v, %v", tt.now, got, ok)
		}
	}
}

// A growth of exactly a tenth suffices for grown and risen, and exactly half of that for lasting.
func TestJustEnough(t *testing.T) {
	past := func(then time.Duration) []pastWindow {
		return append(repeat(10, true, 0, 0), repeat(4, false, then, 0)...)
	}
	if got := explainingOf(100, 0, past(0)...).grown(time.Unix(100, 0)); got == nil || got.Cause != one || got.To != 0.1 {
		t.Errorf("grown: %+v", got)
	}
	if got, ok := explainingOf(100, 0, past(100)...).risen(time.Unix(100, 0)); !ok || got.Cause != one || got.To != 0.1 {
		t.Errorf("risen: %+v, %v", got, ok)
	}
	if got, ok := explainingOf(50, 0, past(50)...).lasting(Shift{Cause: one, To: 0.3}); !ok || got.To != 0.05 {
		t.Errorf("lasting: %+v, %v", got, ok)
	}
}

// A shift begins with the first window in a row whose share is closer to the present one than to
// that of the quiet windows before.
func TestSince(t *testing.T) {
	now := Shift{Cause: one, From: 0.1, To: 0.5, Since: time.Unix(100, 0)}
	past := append(repeat(10, true, 100, 0), pastOf(20, false, 400, 0), pastOf(21, false, 301, 0), pastOf(22, false, 450, 0))
	if got := explainingOf(500, 0, past...).since(now); got.Since != time.Unix(20, 0) || math.Abs(got.From-0.1) > 1e-15 {
		t.Errorf("%+v", got)
	}
	// A share exactly between the two belongs to the earlier windows.
	past[11] = pastOf(21, false, 300, 0)
	if got := explainingOf(500, 0, past...).since(now); got.Since != time.Unix(22, 0) {
		t.Errorf("%+v", got)
	}
	past[12] = pastOf(22, false, 300, 0)
	if got := explainingOf(500, 0, past...).since(now); got != now {
		t.Errorf("%+v", got)
	}
	// Quiet windows that belong to the shift are no longer among the earlier ones.
	past = append(repeat(6, true, 100, 0), repeat(6, true, 460, 0)...)
	past[6].time = time.Unix(50, 0)
	if got := explainingOf(500, 0, past...).since(Shift{Cause: one, From: 0.28, To: 0.5}); got.Since != time.Unix(50, 0) || math.Abs(got.From-0.1) > 1e-15 {
		t.Errorf("%+v", got)
	}
	// If no quiet window is left, the earlier share stays.
	if got := explainingOf(500, 0, repeat(3, true, 460, 0)...).since(Shift{Cause: one, From: 0.2, To: 0.5}); got.Since != time.Unix(0, 0) || got.From != 0.2 {
		t.Errorf("%+v", got)
	}
}

// Up to sixty quiet windows and as many others are kept, each with its 64 largest causes. The
// oldest one of the same kind is dropped.
func TestKeep(t *testing.T) {
	x := explainingOf(500, 100)
	for i := range 100 {
		x.tally.times = append(x.tally.times, causeTime{cause: Cause{Process: 1000}, time: time.Duration(i)})
	}
	for i := range 65 {
		x.keep(time.Unix(int64(i), 0), true)
		if i < 62 {
			x.keep(time.Unix(int64(1000+i), 0), false)
		}
	}
	if n := quiet(x.past); n != 60 || len(x.past) != 120 {
		t.Errorf("%d are kept, %d of them quiet: want 120 and 60", len(x.past), n)
	}
	first := map[bool]int64{}
	for i := len(x.past) - 1; i >= 0; i-- {
		w := x.past[i]
		first[w.quiet] = w.time.Unix()
		if len(w.times) != 64 || w.total != 1000 || w.times[0].cause != one {
			t.Errorf("%d causes of %v", len(w.times), w.total)
		}
	}
	if first[true] != 5 || first[false] != 1002 {
		t.Errorf("the oldest ones are of %v", first)
	}
	x.tally.times[0].time = 7
	if x.past[0].times[0].time != 500 {
		t.Error("what is kept changes with the tally")
	}
}
