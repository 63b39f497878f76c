package vm

import (
	"errors"
	"os"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/testing/otheruser"
	"github.com/beamscope/beamscope/usdt"
)

// The VMs of one user do not take the room of another user's VMs: each user has at least an equal
// share, or all of the VMs found.
func TestShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		users := rapid.SliceOfN(rapid.IntRange(0, 4), 0, 60).Draw(t, "users")
		most := rapid.IntRange(1, 40).Draw(t, "most")
		var all []VM
		had := make(map[int]int)
		for i, user := range users {
			all = append(all, VM{Process: usdt.Process{PID: i + 1}, Account: user})
			had[user]++
		}
		kept, beyond := share(all, most)
		if len(kept) != min(most, len(all)) || len(kept)+len(beyond) != len(all) {
			t.Fatalf("%d kept, %d beyond of %d, at most %d", len(kept), len(beyond), len(all), most)
		}
		got := make(map[int]int)
		last := 0
		for _, v := range kept {
			if v.PID() <= last {
				t.Fatalf("pid %d behind %d", v.PID(), last)
			}
			last = v.PID()
			got[v.Account]++
		}
		for user, n := range had {
			if got[user] < min(n, most/len(had)) {
				t.Errorf("user %d has %d of %d, with %d users and room for %d", user, got[user], n, len(had), most)
			}
		}
		for _, v := range beyond {
			for _, k := range kept {
				if v.Account == k.Account && v.PID() < k.PID() {
					t.Errorf("pid %d was left out for pid %d of the same user", v.PID(), k.PID())
				}
			}
		}
	})
}

// A target can select the VMs of one user.
func TestUserTarget(t *testing.T) {
	path, pid := startLike(t)
	id := strconv.Itoa(otheruser.User)
	for _, test := range []struct {
		user string
		want error
	}{{"", nil}, {id, nil}, {"0", ErrNone}, {"root", ErrNone}, {"nobody at all", ErrNoUser}} {
		found, _, err := Find(t.Context(), Target{Exe: path, User: test.user})
		if !errors.Is(err, test.want) {
			t.Errorf("user %q: error %v, want %v", test.user, err, test.want)
		}
		if test.want == nil && (len(found) != 1 || found[0].PID() != pid || found[0].User != otheruser.User) {
			t.Errorf("user %q: %+v, want pid %d of user %s", test.user, found, pid, id)
		}
	}
	if (Target{User: "root"}).Single() != true {
		t.Error("the VMs of a user would be observed with everybody's who run the executable")
	}
	if _, err := os.Stat("/proc/" + strconv.Itoa(pid)); err != nil {
		t.Error(err)
	}
}
