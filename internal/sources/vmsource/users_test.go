package vmsource_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/testing/otheruser"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// If VMs of two users have the same node name, a notice names both, and a target can select the
// VM of one user.
func TestNodeOfAnotherUser(t *testing.T) {
	own := vmtest.StartOn(t, vmtest.Private(t), node("shop@localhost", 43711))
	other := vmtest.StartOn(t, vmtest.OfOtherUser(t), node("shop@localhost", 43712))
	both := newSource(t, vm.Target{Node: "shop@localhost"})
	names := []string{fmt.Sprintf("pid %d of user 0", own.PID()), fmt.Sprintf("pid %d of user %d", other.PID(), otheruser.User)}
	both.watch()
	if !slices.ContainsFunc(both.notices(), func(text string) bool { return containsAll(text, names) }) {
		t.Errorf("no notice names %q: %q", names, both.notices())
	}

	for user, v := range map[string]outcome.VM{
		"root":                       {PID: own.PID(), Node: "shop@localhost"},
		strconv.Itoa(otheruser.User): {PID: other.PID(), Node: "shop@localhost"},
	} {
		s := newSource(t, vm.Target{Node: "shop@localhost", User: user})
		run(t, own, 30)
		run(t, other, 30)
		s.collectNow()
		if diff := cmp.Diff(map[outcome.VM]outcome.Counts{v: succeeded(v, 30)}, s.totals()); diff != "" {
			t.Errorf("user %s: -want +got:\n%s", user, diff)
		}
	}
}

func containsAll(text string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}
