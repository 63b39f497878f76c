package plot

import "testing"

// HowFailed names each way in which instances did not succeed.
func TestHowFailed(t *testing.T) {
	for want, s := range map[string]Series{
		"timeout":         {Failed: 0.1, TimedOut: 0.1},
		"failure":         {Failed: 0.1},
		"failure+timeout": {Failed: 0.1, TimedOut: 0.05},
		"slower":          {Fitted: true, Failed: 0.1, TimedOut: 0.1},
		"failure+slower":  {Fitted: true, Failed: 0.1, TimedOut: 0.05},
	} {
		if got := s.HowFailed(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
