package outcome

import "testing"

// Each run of windows with loss is told when it begins, and when it is over how much was
// lost in all, unless that was told.
func TestLossRun(t *testing.T) {
	var r lossRun
	for n, step := range []struct {
		lost uint64
		want string
	}{
		{0, ""},
		{7, "events that would explain slow instances were lost (7): where they are missing, time is unexplained"},
		{0, ""},
		{0, ""},
		{1, "events that would explain slow instances were lost (1): where they are missing, time is unexplained"},
		{20, ""},
		{300, ""},
		{0, "events that would explain slow instances were lost (321, in 3 windows); none any more"},
		{0, ""},
	} {
		if got := r.next(step.lost); got != step.want {
			t.Errorf("window %d: %q, want %q", n, got, step.want)
		}
	}
}
