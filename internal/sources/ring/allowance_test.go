package ring

import (
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/host/processor"
)

// Many long searches together use no more than the allowed share of a processor, plus the permitted
// debt. Each user has a fair share, however many VMs the others have.
func TestSearchesAreBounded(t *testing.T) {
	const took, seconds = 700 * time.Millisecond, 600
	for _, users := range []int{1, 2, 10} {
		a := newAllowance()
		a.share(users, 0)
		used := make([]time.Duration, users)
		var all time.Duration
		for now := int64(0); now < seconds*1e9; now += 1e9 {
			for user := range users {
				for range 30 * (1 + user) {
					if a.allows(user, now) {
						a.charge(user, now, took)
						used[user] += took
						all += took
					}
				}
			}
		}
		bound := time.Duration(allowed*seconds*1e9) + maxSaved + maxOwed + took
		if all > bound {
			t.Errorf("%d users: %v in %d s, want at most %v", users, all, seconds, bound)
		}
		for user, u := range used {
			if fair := time.Duration(allowed * seconds * 1e9 / float64(users)); u < fair-maxOwed/time.Duration(users)-took || u > fair+maxSaved+took {
				t.Errorf("user %d of %d: %v, want about %v", user, users, u, fair)
			}
		}
	}
}

// A user who comes later and owes nothing may search at once.
func TestSearchesOfOtherUsers(t *testing.T) {
	a := newAllowance()
	a.charge(1, 0, 2*time.Second)
	a.share(2, 1e9)
	if a.allows(1, 1e9) || !a.allows(2, 1e9) {
		t.Error("a user does not get a share of its own")
	}
}

// The processor time of work is that of its thread, without sleeps.
func TestProcessorTime(t *testing.T) {
	n := 0
	if used := processorTime(func() {
		for end := processor.Thread() + 10*time.Millisecond; processor.Thread() < end; {
			n++
		}
	}); used < 10*time.Millisecond {
		t.Errorf("%v for 10ms of work", used)
	}
}
