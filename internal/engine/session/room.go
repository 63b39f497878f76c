package session

import (
	"fmt"
	"maps"
	"slices"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// A room tracks how many outcomes there are for discovered spans. Each user of VMs has a limit,
// within a limit for all of them.
type room struct {
	all    int
	users  map[int]int    // outcomes by user
	labels map[[2]int]int // by user and label
}

// room returns the room that the existing outcomes take. The caller holds the lock of the
// session.
func (f *finder) room() room {
	r := room{users: make(map[int]int), labels: make(map[[2]int]int)}
	for at, found := range f.found {
		if at.span != "" {
			r.take(outcome.Discovery{Name: at.span, User: found.user})
		}
	}
	return r
}

func labelOf(d outcome.Discovery) [2]int { return [2]int{d.User, int(bpf.Label(d.Name))} }

func (r *room) has(d outcome.Discovery) bool {
	return r.all < MaxFoundOfAll && r.users[d.User] < MaxFound && r.labels[labelOf(d)] < foundOnLabel
}

func (r *room) take(d outcome.Discovery) {
	r.all++
	r.users[d.User]++
	r.labels[labelOf(d)]++
}

// noteBeyond records the spans without outcomes for lack of room, and gives a notice for each
// user.
func (f *finder) noteBeyond(beyond []outcome.Discovery) {
	users := make(map[int][]string)
	for _, d := range beyond {
		users[d.User] = append(users[d.User], d.Name)
		f.beyond = append(f.beyond, d.Name)
	}
	for _, user := range slices.Sorted(maps.Keys(users)) {
		names := users[user]
		who := fmt.Sprintf("user %d", user)
		if user < 0 {
			who = "unknown users"
		}
		f.say("beamscope observes at most %d names of spans of VMs of %s, and %d with one label; %d are not observed: %s", MaxFound, who, foundOnLabel, len(names), listed(names))
	}
}

func namesOf(all []outcome.Discovery) []string {
	names := make([]string, len(all))
	for i, d := range all {
		names[i] = d.Name
	}
	return names
}
