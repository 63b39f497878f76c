package vmsource

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// tenants returns VMs of a user, with a place or without.
func tenants(user, from, n int, placed bool) []tenant {
	var all []tenant
	for i := range n {
		all = append(all, tenant{pid: from + i, user: user, since: int64(from + i), observed: true, placed: placed})
	}
	return all
}

// A VM of a user with fewer places gets the place of the newest VM of the user with most.
func TestExchanges(t *testing.T) {
	stranger := tenant{pid: 900, user: 1001, placed: true}
	for name, test := range map[string]struct {
		all    []tenant
		want   map[int]int // the pid that gets a place, by the pid that had it
		beyond []int
	}{
		"one of 64": {
			slices.Concat(tenants(1001, 100, 64, true), tenants(1001, 200, 6, false), tenants(1002, 300, 1, false)),
			map[int]int{163: 300}, []int{200, 201, 202, 203, 204, 205},
		},
		"a process that is no VM first": {
			slices.Concat(tenants(1001, 100, 7, true), []tenant{stranger}, tenants(1002, 300, 1, false)), map[int]int{900: 300}, nil,
		},
		"the only user":     {slices.Concat(tenants(0, 100, 8, true), tenants(0, 200, 2, false)), nil, []int{200, 201}},
		"equal shares":      {slices.Concat(tenants(0, 100, 4, true), tenants(1001, 200, 4, true), tenants(1001, 300, 2, false)), nil, []int{300, 301}},
		"one more is equal": {slices.Concat(tenants(0, 100, 4, true), tenants(1001, 200, 3, true), tenants(1001, 300, 2, false)), nil, []int{300, 301}},
		"the poorest first": {
			slices.Concat(tenants(1001, 100, 4, true), tenants(1002, 200, 2, true), tenants(1002, 300, 1, false), tenants(1003, 400, 2, false)),
			map[int]int{103: 400, 102: 401}, []int{300},
		},
	} {
		t.Run(name, func(t *testing.T) {
			moves, beyond := exchanges(test.all)
			got := make(map[int]int)
			for _, m := range moves {
				got[m.old.pid] = m.heir.pid
			}
			var left []int
			for _, b := range beyond {
				left = append(left, b.pid)
			}
			if diff := cmp.Diff(test.want, got); diff != "" && len(test.want)+len(got) > 0 {
				t.Errorf("exchanges -want +got:\n%s", diff)
			}
			if !slices.Equal(left, test.beyond) {
				t.Errorf("%v have no place, want %v", left, test.beyond)
			}
		})
	}
}

// However many VMs other users have, each user has an equal share of the places. No user loses a
// place to a user who then has more. The exchange ends: without new VMs nothing changes any more.
func TestShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		places := rapid.IntRange(1, 64).Draw(t, "places")
		var all []tenant
		vms := make(map[int]int)
		order := rapid.Permutation(slices.Repeat([]int{1, 2, 3, 4}, 20)).Draw(t, "users")
		for i, user := range order[:rapid.IntRange(0, len(order)).Draw(t, "VMs")] {
			vms[user]++
			all = append(all, tenant{pid: i + 1, user: user, since: int64(i), observed: true, placed: i < places})
		}
		moves, beyond := exchanges(all)
		for _, m := range moves {
			all[m.old.pid-1].placed, all[m.heir.pid-1].placed = false, true
		}
		held := make(map[int]int)
		for _, a := range all {
			if a.placed {
				held[a.user]++
			}
		}
		for user, n := range vms {
			if share := places / max(len(vms), 1); held[user] < min(n, share) {
				t.Fatalf("user %d has %d places for %d VMs, with a share of %d: %v", user, held[user], n, share, held)
			}
		}
		if most := slices.Max(append(slices.Collect(maps.Values(held)), 0)); most > 1 {
			for _, b := range beyond {
				if held[b.user] < most-1 {
					t.Fatalf("a VM of user %d has no place, held %v", b.user, held)
				}
			}
		}
		if again, _ := exchanges(all); len(again) > 0 {
			t.Fatalf("places still change: %v", again)
		}
	})
}
