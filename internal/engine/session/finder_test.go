package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// Spans count as seen as soon as they are discovered. Otherwise outcomes of the VM would be added
// and delay the outcomes of the spans.
func TestSpansAreSeenOnDiscovery(t *testing.T) {
	s := &Session{}
	s.finder = &finder{session: s, wake: make(chan struct{}, 1), found: make(map[origin]*found)}
	if s.SawSpans() {
		t.Error("spans were seen before any was discovered")
	}
	s.finder.add([]outcome.Discovery{{Name: "a"}})
	if !s.SawSpans() {
		t.Error("no spans were seen when one was discovered")
	}
}

// A notice about many spans without outcomes is short.
func TestNoticeOfSpansBeyondIsShort(t *testing.T) {
	s := &Session{}
	f := &finder{session: s, wake: make(chan struct{}, 1)}
	var beyond []outcome.Discovery
	for i := range 100 {
		beyond = append(beyond, outcome.Discovery{Name: fmt.Sprintf("name_%d", i)})
	}
	f.noteBeyond(beyond)
	want := `beamscope observes at most 200 names of spans of VMs of user 0, and 4 with one label; 100 are not observed: "name_0", "name_1", `
	if text := f.notices[0].Text; !strings.HasPrefix(text, want) || !strings.HasSuffix(text, `"name_9" and 90 more`) {
		t.Errorf("%q", text)
	}
	if len(f.beyond) != 100 {
		t.Errorf("%d names beyond", len(f.beyond))
	}
}

// If there is no room for all queued names at once, fewer and fewer are tried, in their order. If there is none for a
// single one, there is none for the others either, and all of them are given up together.
func TestNamesWithoutRoom(t *testing.T) {
	var names []outcome.Discovery
	for i := range 13 {
		names = append(names, outcome.Discovery{Name: fmt.Sprintf("n%d", i)})
	}
	const room = 5
	f := &finder{names: names}
	var observed, given []string
	for range 20 {
		e := &edit{names: f.next()}
		switch {
		case len(observed)+len(e.names) <= room:
			observed = append(observed, namesOf(e.names)...)
		case !f.fewer(e):
			given = append(given, namesOf(e.names)...)
		}
	}
	if want := namesOf(names); !slices.Equal(observed, want[:room]) || !slices.Equal(given, want[room:]) {
		t.Errorf("observed %q, given up %q", observed, given)
	}
}
