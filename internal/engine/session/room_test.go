package session

import (
	"fmt"
	"testing"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/files/config"
)

// Whatever names the spans of one user's VMs have, there is room for those of another user.
func TestRoomOfUsers(t *testing.T) {
	const victim = "victim"
	var flood []outcome.Discovery
	for i := 0; len(flood) < 12; i++ { // names with the same label first
		if name := fmt.Sprint("zz", i); bpf.Label(name) == bpf.Label(victim) {
			flood = append(flood, outcome.Discovery{Name: name, User: 1001})
		}
	}
	for i := range 700 {
		flood = append(flood, outcome.Discovery{Name: fmt.Sprint("yy", i), User: 1001})
	}
	f := newFinder(&Session{}, config.Config{})
	f.add(flood)
	e := f.edit(config.Default())
	if len(e.names) != MaxFound {
		t.Errorf("%d outcomes of the first user, want %d", len(e.names), MaxFound)
	}
	f.settle(e)
	f.add([]outcome.Discovery{{Name: victim, User: 0}})
	if e := f.edit(e.config); len(e.names) != 1 || e.names[0].Name != victim {
		t.Errorf("%v, want the span of the other user: %+v", e.names, f.notices)
	}
	// The total is limited nevertheless.
	for user := range 10 {
		var more []outcome.Discovery
		for i := range 300 {
			more = append(more, outcome.Discovery{Name: fmt.Sprint("u", user, "x", i), User: 2000 + user})
		}
		f.add(more)
		f.settle(f.edit(config.Default()))
	}
	if len(f.found) != MaxFoundOfAll {
		t.Errorf("%d outcomes, want %d", len(f.found), MaxFoundOfAll)
	}
}
