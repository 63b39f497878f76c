package ring

import (
	"context"
	"errors"
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

// The debt of one user does not keep another one with a history from searching. One without a history
// waits.
func TestDebtOfOneUser(t *testing.T) {
	const known, now = 2, 100e9
	a := newAllowance()
	a.share(2, 0)
	a.allows(known, 0)
	a.charge(1, now, time.Minute)
	if !a.allows(known, now) {
		t.Error("a known user pays for another one")
	}
	if a.allows(3, now) {
		t.Error("a new user does not wait")
	}
}

// A long search goes on only as fast as credit is earned. What it uses meanwhile is charged, but not its
// waits.
func TestLongSearchIsPaced(t *testing.T) {
	const rounds, work = 60, 10 * time.Millisecond
	var now time.Duration
	a := newAllowance()
	a.share(2, 0)
	a.wait = func(_ context.Context, d time.Duration) error { now += d; return nil }
	a.spend(1, func() int64 { return int64(now) }, func(pace func(context.Context) error) {
		for range rounds {
			for end := processor.Thread() + work; processor.Thread() < end; {
			}
			if err := pace(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	// It shares the allowance with another user. Half of maxSaved was its own from the beginning.
	if least := time.Duration(float64(rounds*work-maxSaved/2) / allowed * 2); now < least {
		t.Errorf("it took %v, want at least %v", now, least)
	}
}

// A long search ends with its context.
func TestLongSearchIsStopped(t *testing.T) {
	a := newAllowance()
	a.charge(1, 0, time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a.spend(1, func() int64 { return 0 }, func(pace func(context.Context) error) {
		for end := processor.Thread() + 2*unpaced; processor.Thread() < end; {
		}
		if err := pace(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}
