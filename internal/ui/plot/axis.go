package plot

import (
	"math"
	"strconv"
	"time"

	"github.com/beamscope/beamscope/internal/engine/figures"
)

// An Axis is a range of delays, From before To. On a logarithmic axis, From is above 0.
type Axis struct {
	From, To time.Duration
	Log      bool
}

// A Tick is a delay at which an axis is labelled.
type Tick struct {
	At    time.Duration
	Label string // with its unit
}

// Position returns the place of a delay on the axis: 0 at From and 1 at To. It is below 0 or above
// 1 for a delay outside the axis.
func (a Axis) Position(t time.Duration) float64 {
	if !a.Log {
		return float64(t-a.From) / float64(a.To-a.From)
	}
	if t <= 0 {
		return math.Inf(-1)
	}
	return math.Log(float64(t)/float64(a.From)) / math.Log(float64(a.To)/float64(a.From))
}

// Delay returns the delay at a position.
func (a Axis) Delay(x float64) time.Duration {
	if !a.Log {
		return a.From + time.Duration(math.Round(x*float64(a.To-a.From)))
	}
	return time.Duration(math.Round(float64(a.From) * math.Pow(float64(a.To)/float64(a.From), x)))
}

// Ticks returns at most n ticks at round delays, in their order.
func (a Axis) Ticks(n int) []Tick {
	if n <= 0 {
		return nil
	}
	if !a.Log {
		return a.even(n)
	}
	const few, far = 3, 20 // on a longer axis, multiples of one delay all lie near the end
	at := decades(a.From, a.To, n)
	if len(at) < few && float64(a.To)/float64(a.From) < far {
		return a.even(n)
	}
	var ticks []Tick
	for _, t := range at {
		unit, _ := figures.Unit(t)
		ticks = append(ticks, tick(t, unit, t))
	}
	return ticks
}

// even returns at most n ticks, at multiples of a round delay.
func (a Axis) even(n int) []Tick {
	unit, _ := figures.Unit(a.To)
	step := roundUp(float64(a.To-a.From) / float64(n))
	first := func() time.Duration { return (a.From + step - 1) / step }
	for a.To/step-first()+1 > time.Duration(n) {
		step = roundUp(1.5 * float64(step))
	}
	var ticks []Tick
	for k := first(); k <= a.To/step; k++ {
		ticks = append(ticks, tick(k*step, unit, step))
	}
	return ticks
}

// tick returns the tick at a delay, in a unit and with the decimals that multiples of a step need.
// The label of 0 has no unit.
func tick(t, unit, step time.Duration) Tick {
	if t == 0 {
		return Tick{Label: "0"}
	}
	decimals := 0
	for s := unit; s > 1 && step%s != 0; s /= 10 {
		decimals++
	}
	_, name := figures.Unit(unit)
	return Tick{At: t, Label: strconv.FormatFloat(float64(t)/float64(unit), 'f', decimals, 64) + name}
}

// roundUp returns the least of 1, 2 and 5 times a power of ten that is at least x,
// and at least 1 ns.
func roundUp(x float64) time.Duration {
	if x <= 1 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5, 10} {
		if m*power >= x {
			return time.Duration(math.Round(m * power))
		}
	}
	return time.Duration(math.Round(10 * power))
}

// decades returns at most n delays for ticks: the powers of ten between from and to and, if there
// is room, 2 and 5 times or 3 times these. If there are too many powers of ten, it skips some.
func decades(from, to time.Duration, n int) []time.Duration {
	for _, steps := range [][]float64{{1, 2, 5}, {1, 3}, {1}} {
		if at := inDecades(from, to, steps, 10); len(at) <= n {
			return at
		}
	}
	for ratio := 100.0; ; ratio *= 10 {
		if at := inDecades(from, to, []float64{1}, ratio); len(at) <= n {
			return at
		}
	}
}

// inDecades returns the delays between from and to that are one of the steps times a power of
// ratio.
func inDecades(from, to time.Duration, steps []float64, ratio float64) []time.Duration {
	var at []time.Duration
	for power := 1.0; power <= float64(to); power *= ratio {
		for _, m := range steps {
			if t := time.Duration(m * power); t >= from && t <= to {
				at = append(at, t)
			}
		}
	}
	return at
}
