package dq

import (
	"errors"
	"testing"
	"time"
)

func TestParseDelay(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "1ns": 1, "1.5ms": 1500 * time.Microsecond, ".5us": 500, "5.s": 5 * time.Second, "1h30m": 90 * time.Minute,
		"-2ms": -2 * ms, "0.000000001s": 1, "1.5µs": 1500, "1.5μs": 1500, "+3ms": 3 * ms, "2562047h47m16.854775807s": 1<<63 - 1,
	} {
		if got, err := ParseDelay(text); got != want || err != nil {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "5", "ms", "1.5", "0.6ns", "1.0000001ms", "0.3333333333s", "1x", "1e3s", "3000000h", "1ms0.5ns", "NaNs", "--1s"} {
		if d, err := ParseDelay(text); !errors.Is(err, ErrDelay) {
			t.Errorf("%q: %v, %v, want ErrDelay", text, d, err)
		}
	}
}

// ParseDelay agrees with time.ParseDuration. If it reads the text of a delay, it returns exactly
// the same delay.
func FuzzParseDelay(f *testing.F) {
	for _, text := range []string{"1.5ms", "1h0.5m", "0.6ns", "-.5us", "0"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDelay(text)
		if err != nil {
			return
		}
		if want, err := time.ParseDuration(text); err != nil || d != want {
			t.Errorf("%q: %v, not %v, %v", text, d, want, err)
		}
		if again, err := ParseDelay(d.String()); err != nil || again != d {
			t.Errorf("%q: %v is read as %v, %v", text, d, again, err)
		}
	})
}
