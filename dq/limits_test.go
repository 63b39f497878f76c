package dq

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// All functions that take several ΔQs reject an operand without data. If the error names an
// operand, it is the right one.
func TestNoDataOfAnyOperand(t *testing.T) {
	x, none := Immediate(), new(DeltaQ)
	for name, f := range map[string]func(a, b *DeltaQ) error{
		"Sequential":    func(a, b *DeltaQ) error { return second(Sequential(a, b)) },
		"FirstToFinish": func(a, b *DeltaQ) error { return second(FirstToFinish(a, b)) },
		"AllToFinish":   func(a, b *DeltaQ) error { return second(AllToFinish(a, b)) },
		"Choice":        func(a, b *DeltaQ) error { return second(Choice([]float64{0.5, 0.5}, a, b)) },
		"Deconvolve":    func(a, b *DeltaQ) error { return second(Deconvolve(a, b)) },
		"Diverge":       func(a, b *DeltaQ) error { return second(Diverge(a, b)) },
		"Comparison": func(a, b *DeltaQ) error {
			return mustComparison(t, mustGrid(t, ms, 1), 1).Insert(a, 1, b, Sampling{})
		},
		"AtMost": func(a, b *DeltaQ) error {
			if AtMost(a, b) == CannotTell && Compare(a, b) == Unordered {
				return ErrNoData
			}
			return nil
		},
	} {
		if err := f(x, x); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for i, pair := range [][2]*DeltaQ{{none, x}, {x, none}} {
			err := f(pair[0], pair[1])
			if !errors.Is(err, ErrNoData) {
				t.Errorf("%s without operand %d: %v", name, i+1, err)
			}
			want := "operand " + string(rune('1'+i))
			if named := strings.Contains(err.Error(), "operand"); named && !strings.Contains(err.Error(), want) {
				t.Errorf("%s without operand %d: %v", name, i+1, err)
			}
		}
	}
	for name, f := range map[string]func() error{
		"Scale":        func() error { return second(Scale(none, 1)) },
		"Rebin":        func() error { return second(Rebin(none, ms)) },
		"Timeout":      func() error { return second(Timeout(none, ms)) },
		"Retry":        func() error { return second(Retry(none, ms, 1)) },
		"RetryOverlap": func() error { return second(RetryOverlap(none, ms, 1)) },
		"BudgetFor":    func() error { return second(BudgetFor(QTA{}, none)) },
		"Comparison of no instance": func() error {
			return mustComparison(t, mustGrid(t, ms, 1), 1).Insert(x, 0, x, Sampling{})
		},
	} {
		if err := f(); !errors.Is(err, ErrNoData) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Arguments exactly at a limit are accepted, and the next values beyond it are rejected.
func TestLimitsAreWithin(t *testing.T) {
	g := mustGrid(t, ms, 1)
	x := must(t)(Steps(g, []Step{{ms, 0.25}, {3 * ms, 0.75}}))
	step := func(s ...Step) func() error { return func() error { return second(Steps(g, s)) } }
	for name, tt := range map[string]struct {
		within []func() error
		beyond []func() error
		want   error
	}{
		"timeout": {
			[]func() error{func() error { return second(Timeout(x, 0)) }, func() error { return second(Timeout(x, 1)) }},
			[]func() error{func() error { return second(Timeout(x, -1)) }}, ErrDelay,
		},
		"attempts": {
			[]func() error{
				func() error { return second(Retry(x, ms, 1)) }, func() error { return second(Retry(x, ms, MaxAttempts)) },
				func() error { return second(RetryOverlap(x, ms, 1)) }, func() error { return second(RetryOverlap(x, ms, MaxAttempts)) },
			},
			[]func() error{
				func() error { return second(Retry(x, ms, 0)) }, func() error { return second(Retry(x, ms, MaxAttempts+1)) },
				func() error { return second(RetryOverlap(x, ms, 0)) }, func() error { return second(RetryOverlap(x, ms, MaxAttempts+1)) },
			}, ErrOperands,
		},
		"retry after": {
			[]func() error{func() error { return second(Retry(x, 1, 2)) }, func() error { return second(Retry(x, MaxModelDelay, 2)) }},
			[]func() error{func() error { return second(Retry(x, 0, 2)) }, func() error { return second(Retry(x, MaxModelDelay+1, 2)) }}, ErrDelay,
		},
		"mean": {
			[]func() error{func() error { return second(Exponential(g, 1)) }, func() error { return second(Exponential(g, MaxModelDelay)) }},
			[]func() error{func() error { return second(Exponential(g, 0)) }, func() error { return second(Exponential(g, MaxModelDelay+1)) }}, ErrDelay,
		},
		"mean of a normal delay": {
			[]func() error{func() error { return second(Normal(g, 0, ms)) }, func() error { return second(Normal(g, MaxModelDelay, ms)) }},
			[]func() error{
				func() error { return second(Normal(g, -1, ms)) }, func() error { return second(Normal(g, MaxModelDelay+1, ms)) },
				func() error { return second(Normal(g, ms, 0)) },
			}, ErrDelay,
		},
		"shape": {
			[]func() error{
				func() error { return second(Gamma(g, ms, 0.01)) }, func() error { return second(Gamma(g, ms, 10000)) },
				func() error { return second(Weibull(g, ms, 0.05)) }, func() error { return second(Weibull(g, ms, 1000)) },
				func() error { return second(Pareto(g, ms, 0.05)) }, func() error { return second(Pareto(g, ms, 1000)) },
				func() error { return second(LogNormal(g, ms, 0.001)) }, func() error { return second(LogNormal(g, ms, 10)) },
			},
			[]func() error{
				func() error { return second(Gamma(g, ms, 0.00999)) }, func() error { return second(Gamma(g, ms, 10000.1)) },
				func() error { return second(Weibull(g, ms, 0.0499)) }, func() error { return second(Weibull(g, ms, 1000.1)) },
				func() error { return second(Pareto(g, ms, 0.0499)) }, func() error { return second(Pareto(g, ms, 1000.1)) },
				func() error { return second(LogNormal(g, ms, 0.00099)) }, func() error { return second(LogNormal(g, ms, 10.1)) },
			}, ErrShape,
		},
		"delays of steps": {
			[]func() error{step(Step{0, 0.5}), step(Step{MaxModelDelay, 0.5}), step(Step{1, 0.5}, Step{2, 0.5})},
			[]func() error{step(Step{-1, 0.5}), step(Step{MaxModelDelay + 1, 0.5}), step(Step{1, 0.5}, Step{1, 0.6}), step(Step{2, 0.5}, Step{1, 0.6})}, ErrDelay,
		},
		"steps that fall": {
			[]func() error{step(Step{1, 0.5}, Step{2, 0.5})},
			[]func() error{step(Step{1, 0.5}, Step{2, math.Nextafter(0.5, 0)})}, ErrProbability,
		},
		"steps": {[]func() error{step(Step{})}, []func() error{step()}, ErrOperands},
		"uniform": {
			[]func() error{func() error { return second(Uniform(g, 2, 2)) }, func() error { return second(Uniform(g, 0, 2)) }},
			[]func() error{func() error { return second(Uniform(g, 3, 2)) }, func() error { return second(Uniform(g, -1, 2)) }}, ErrDelay,
		},
		"width": {
			[]func() error{func() error { return second(NewGrid(MinWidth, 1)) }, func() error { return second(NewGrid(MaxWidth, MaxBins)) }, func() error { return second(Rebin(x, ms)) }},
			[]func() error{
				func() error { return second(NewGrid(MinWidth-1, 1)) }, func() error { return second(NewGrid(MaxWidth+1, 1)) },
				func() error { return second(NewGrid(ms, 0)) }, func() error { return second(NewGrid(ms, MaxBins+1)) },
				func() error { return second(Rebin(x, ms-1)) }, func() error { return second(Rebin(x, MaxWidth+1)) },
			}, ErrGrid,
		},
		"the zero grid": {
			nil, []func() error{
				func() error { return second(Uniform(Grid{}, 0, ms)) }, func() error { return second(Exponential(Grid{}, ms)) },
				func() error { return second(NewWindow(Grid{}, 1)) }, func() error { return second(NewObserved(Grid{})) },
			}, ErrGrid,
		},
		"capacity": {
			[]func() error{
				func() error { return second(NewWindow(g, 1)) }, func() error { return second(NewWindow(g, MaxWindow)) },
				func() error { return second(NewComparison(g, ms, 1)) }, func() error { return second(NewComparison(g, ms, MaxWindow)) },
			},
			[]func() error{
				func() error { return second(NewWindow(g, 0)) }, func() error { return second(NewWindow(g, MaxWindow+1)) },
				func() error { return second(NewComparison(g, ms, 0)) }, func() error { return second(NewComparison(g, ms, MaxWindow+1)) },
			}, ErrOperands,
		},
		"dMax in the last bin": {
			[]func() error{func() error { return second(NewComparison(g, 1, 1)) }, func() error { return second(NewComparison(g, ms, 1)) }},
			[]func() error{func() error { return second(NewComparison(g, 0, 1)) }, func() error { return second(NewComparison(g, ms+1, 1)) }}, ErrGrid,
		},
		"weights": {
			[]func() error{func() error { return second(Choice([]float64{0.5, 0.5 + 0.9e-9}, x, x)) }, func() error { return second(Choice([]float64{0.5, 0.5 - 0.9e-9}, x, x)) }},
			[]func() error{func() error { return second(Choice([]float64{0.5, 0.5 + 1.1e-9}, x, x)) }, func() error { return second(Choice([]float64{0.5, 0.5 - 1.1e-9}, x, x)) }}, ErrProbability,
		},
		"α": {
			[]func() error{func() error { return second(Epsilon(1, 1e-300)) }, func() error { return second(Epsilon(1, 1-0x1p-53)) }},
			[]func() error{func() error { return second(Epsilon(1, 0)) }, func() error { return second(Epsilon(1, 1)) }, func() error { return second(Epsilon(1, math.NaN())) }}, ErrProbability,
		},
		"instances": {
			[]func() error{func() error { return second(Samples(g, []time.Duration{1}, MaxInstances-1)) }, func() error { return second(FromCounts(g, []uint64{1}, MaxInstances-1, 0)) }},
			[]func() error{func() error { return second(Samples(g, []time.Duration{1}, MaxInstances)) }, func() error { return second(FromCounts(g, []uint64{1}, MaxInstances, 0)) }, func() error { return second(Samples(g, nil, math.MaxUint64)) }}, ErrCounts,
		},
	} {
		for i, f := range tt.within {
			if err := f(); err != nil {
				t.Errorf("%s, %d within: %v", name, i, err)
			}
		}
		for i, f := range tt.beyond {
			if err := f(); !errors.Is(err, tt.want) {
				t.Errorf("%s, %d beyond: %v, want %v", name, i, err, tt.want)
			}
		}
	}
}

// Errors include the number of the invalid element, counted from 1.
func TestErrorsIncludeTheNumber(t *testing.T) {
	g := mustGrid(t, ms, 1)
	for want, err := range map[string]error{
		"step 2":   second(Steps(g, []Step{{1, 0}, {2, 2}})),
		"step 3":   second(Steps(g, []Step{{1, 0}, {2, 0.5}, {2, 0.6}})),
		"step 4":   second(Steps(g, []Step{{1, 0}, {2, 0.5}, {3, 0.6}, {4, 0.5}})),
		"weight 2": second(Choice([]float64{1, -1}, Never(), Never())),
		"point 2":  second(Envelope(g, []BoundedStep{{1, 0, 1}, {2, 1, 0}})),
		"delay 1":  second(FromDelays(g, []time.Duration{1, -1}, 0, 0)),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A result uses the narrowest bins that MaxBins allows.
func TestWidthsAtMaxBins(t *testing.T) {
	m := must(t)
	g := mustGrid(t, ms, 1)
	for bins, want := range map[time.Duration]time.Duration{MaxBins: ms, MaxBins + 1: 2 * ms, 2 * MaxBins: 2 * ms, 2*MaxBins + 1: 3 * ms} {
		if got := m(Wait(g, bins*ms)).Width(); got != want {
			t.Errorf("a wait of %d bins has bins of %v, want %v", bins, got, want)
		}
	}
	for bins, want := range map[time.Duration]time.Duration{MaxBins / 2: ms, MaxBins/2 + 1: 2 * ms} {
		if got := m(Sequential(m(Wait(g, bins*ms)), m(Wait(g, MaxBins/2*ms)))).Width(); got != want {
			t.Errorf("a sequence of %d bins has bins of %v, want %v", bins+MaxBins/2, got, want)
		}
		// With three attempts, the last one may take as long as a single attempt.
		x := m(Wait(g, 2*ms))
		if got := m(RetryOverlap(x, (bins-1)*ms, 2)).Width(); got != want {
			t.Errorf("retries of %d bins have bins of %v, want %v", 2*bins, got, want)
		}
	}
	wide := m(Wait(mustGrid(t, 30*time.Hour, 1), 30*time.Hour))
	if _, err := RetryOverlap(wide, 8_900_000*time.Second, 1000); !errors.Is(err, ErrGrid) {
		t.Errorf("bins of 60 h: %v", err)
	}
	if d, err := RetryOverlap(wide, 8_900_000*time.Second, 2); err != nil || d.Width() != 30*time.Hour {
		t.Errorf("bins of 30 h: %v, %v", d, err)
	}
	far := m(Wait(mustGrid(t, MaxWidth, 1), MaxModelDelay))
	many := make([]*DeltaQ, 1025)
	for i := range many {
		many[i] = far
	}
	if _, err := Sequential(many...); !errors.Is(err, ErrGrid) {
		t.Errorf("a sequence of more than the widest bins: %v", err)
	}
}

// FormatDelay uses the largest unit that fits into the delay, and minutes and hours only where
// they are whole. ParseDelay reads the same delay back.
func TestFormatDelay(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1: "1ns", 999: "999ns", 1000: "1us", 1001: "1.001us", 1500: "1.5us", 999999: "999.999us", ms: "1ms", ms + 1: "1.000001ms",
		time.Second - 1: "999.999999ms", time.Second: "1s", 59 * time.Second: "59s", time.Minute: "1m", 61 * time.Second: "61s", 90 * time.Second: "90s",
		59 * time.Minute: "59m", time.Hour: "1h", 61 * time.Minute: "61m", 25 * time.Hour: "25h", time.Hour + 1: "3600.000000001s", time.Minute + ms: "60.001s",
		math.MaxInt64: "9223372036.854775807s",
	} {
		if got := FormatDelay(d); got != want {
			t.Errorf("%d ns: %s, want %s", d, got, want)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		unit := rapid.SampledFrom([]time.Duration{1, 1000, ms, time.Second, time.Minute, time.Hour}).Draw(rt, "unit")
		d := unit * time.Duration(rapid.Int64Range(0, math.MaxInt64/int64(unit)).Draw(rt, "d"))
		if got, err := ParseDelay(FormatDelay(d)); err != nil || got != d {
			rt.Fatalf("%d ns is %s, which is %d, %v", d, FormatDelay(d), got, err)
		}
	})
}

// In a window, a calculated delay that lies exactly on an edge is exact at that edge.
func TestWindowOfADelayOnAnEdge(t *testing.T) {
	w, err := NewWindow(mustGrid(t, ms, 5), 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.InsertCalculated(must(t)(Wait(mustGrid(t, ms, 1), 3*ms)), 10); err != nil {
		t.Fatal(err)
	}
	var b Band
	if err := w.WriteStandardErrors(&b, Z95); err != nil {
		t.Fatal(err)
	}
	for k := range b.Mean {
		want := 0.0
		if k >= 3 {
			want = 1
		}
		if b.Mean[k] != want || b.Lo[k] != want || b.Hi[k] != want {
			t.Errorf("edge %d: %v, %v to %v, want %v", k, b.Mean[k], b.Lo[k], b.Hi[k], want)
		}
	}
}
