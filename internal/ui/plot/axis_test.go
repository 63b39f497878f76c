package plot_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/ui/plot"
)

const (
	us = time.Microsecond
	ms = time.Millisecond
)

func TestPosition(t *testing.T) {
	linear := plot.Axis{From: 10 * ms, To: 50 * ms}
	log := plot.Axis{From: 1 * ms, To: 100 * ms, Log: true}
	tests := []struct {
		axis plot.Axis
		at   time.Duration
		want float64
	}{
		{linear, 10 * ms, 0},
		{linear, 20 * ms, 0.25},
		{linear, 50 * ms, 1},
		{linear, 0, -0.25},
		{linear, 90 * ms, 2},
		{log, 1 * ms, 0},
		{log, 10 * ms, 0.5},
		{log, 100 * ms, 1},
		{log, 100 * us, -0.5},
		{log, 0, math.Inf(-1)},
	}
	for _, tt := range tests {
		if got := tt.axis.Position(tt.at); got != tt.want && !(math.Abs(got-tt.want) < 1e-12) {
			t.Errorf("%v: position of %v: %v, want %v", tt.axis, tt.at, got, tt.want)
		}
	}
	for x, want := range map[float64]time.Duration{0: 1 * ms, 0.5: 10 * ms, 1: 100 * ms} {
		if got := log.Delay(x); got != want {
			t.Errorf("delay at %v: %v, want %v", x, got, want)
		}
	}
}

func axes() *rapid.Generator[plot.Axis] {
	return rapid.Custom(func(t *rapid.T) plot.Axis {
		a := plot.Axis{Log: rapid.Bool().Draw(t, "log")}
		a.From = time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "from"))
		if !a.Log && rapid.Bool().Draw(t, "from 0") {
			a.From = 0
		}
		a.To = a.From + time.Duration(rapid.Int64Range(10, int64(time.Hour)).Draw(t, "length"))
		return a
	})
}

func TestDelayIsTheInverseOfPosition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := axes().Draw(t, "axis")
		at := time.Duration(rapid.Int64Range(int64(a.From), int64(a.To)).Draw(t, "at"))
		x := a.Position(at)
		if !(x >= 0 && x <= 1) {
			t.Fatalf("position %v", x)
		}
		if got := a.Delay(x); (got - at).Abs() > 1 {
			t.Fatalf("delay %v, want %v", got, at)
		}
	})
}

func TestTicks(t *testing.T) {
	tests := []struct {
		name string
		axis plot.Axis
		n    int
		want string
	}{
		{"from 0", plot.Axis{To: 50 * ms}, 6, "0 10ms 20ms 30ms 40ms 50ms"},
		{"even ticks, rather than more ticks without the last", plot.Axis{To: 50 * ms}, 5, "0 20ms 40ms"},
		{"slightly beyond the last tick", plot.Axis{To: 52 * ms}, 10, "0 10ms 20ms 30ms 40ms 50ms"},
		{"with decimals", plot.Axis{From: 1200 * us, To: 2700 * us}, 4, "1.5ms 2.0ms 2.5ms"},
		{"all in one unit", plot.Axis{To: 1500 * ms}, 4, "0 0.5s 1.0s 1.5s"},
		{"µs", plot.Axis{From: 100 * us, To: 400 * us}, 4, "100µs 200µs 300µs 400µs"},
		{"ns", plot.Axis{From: 0, To: 500}, 3, "0 0.2µs 0.4µs"},
		{"none", plot.Axis{To: 50 * ms}, 0, ""},
		{"one", plot.Axis{To: 50 * ms}, 1, "0"},
		{"log", plot.Axis{From: 100 * us, To: 20 * ms, Log: true}, 10, "100µs 200µs 500µs 1ms 2ms 5ms 10ms 20ms"},
		{"log, less room", plot.Axis{From: 100 * us, To: 20 * ms, Log: true}, 6, "100µs 300µs 1ms 3ms 10ms"},
		{"log, decades", plot.Axis{From: 100 * us, To: 20 * ms, Log: true}, 3, "100µs 1ms 10ms"},
		{"log, not all decades", plot.Axis{From: 1 * us, To: 10 * time.Second, Log: true}, 4, "10µs 1ms 100ms 10s"},
		{"log, below 1 µs", plot.Axis{From: 100, To: 10 * us, Log: true}, 4, "0.1µs 1µs 10µs"},
		{"log, less than two decades", plot.Axis{From: 5 * ms, To: 55 * ms, Log: true}, 8, "5ms 10ms 20ms 50ms"},
		{"log, short range, like linear", plot.Axis{From: 10 * ms, To: 30 * ms, Log: true}, 3, "10ms 20ms 30ms"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var labels []string
			for _, tick := range tt.axis.Ticks(tt.n) {
				labels = append(labels, tick.Label)
			}
			if got := strings.Join(labels, " "); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// Ticks lie on the axis in ascending order, are no more than requested, and have the right labels.
func TestTicksAreInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := axes().Draw(t, "axis")
		n := rapid.IntRange(0, 40).Draw(t, "n")
		ticks := a.Ticks(n)
		if len(ticks) > n {
			t.Fatalf("%d ticks", len(ticks))
		}
		before := a.From - 1
		for _, tick := range ticks {
			if tick.At <= before || tick.At > a.To {
				t.Fatalf("%+v after %v", tick, before)
			}
			before = tick.At
			if tick.At == 0 {
				continue
			}
			if said, err := time.ParseDuration(tick.Label); err != nil || said != tick.At {
				t.Fatalf("%+v has the label %v, %v", tick, said, err)
			}
		}
	})
}
