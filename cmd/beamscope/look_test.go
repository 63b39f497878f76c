package main

import (
	"strings"
	"testing"
)

// A share is a percentage, or a number up to 1. A larger number is refused: it lacks its %.
func TestShareFlag(t *testing.T) {
	for text, want := range map[string]float64{"10%": 0.1, " 0.5 %": 0.005, "0": 0, "0.1": 0.1, "1": 1, "150%": 1.5, "1000000%": 10_000} {
		var s shareFlag
		if err := s.Set(text); err != nil || float64(s) != want {
			t.Errorf("%q: %v, %v", text, float64(s), err)
		}
	}
	for text, want := range map[string]string{
		"10": "did you mean 10%?", "1.5": "did you mean 1.5%?", "1000000": "did you mean",
		"1000001%": "not a share", "-1%": "not a share", "NaN": "not a share", "Inf": "not a share", "x": "not a share", "": "not a share",
	} {
		var s shareFlag
		if err := s.Set(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
