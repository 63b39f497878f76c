package outcome

import (
	"errors"
	"slices"
	"testing"
)

// texts are the notices that wait to be taken.
func texts(s *VMSource) []string {
	var all []string
	for _, n := range s.notices {
		all = append(all, n.Text)
	}
	return all
}

// What is only guessed of a VM is said once, when something is explained, as long as it
// runs; of one that has gone it is forgotten.
func TestNoteGuesses(t *testing.T) {
	o := new(observation)
	s := &VMSource{
		observations: []*observation{o},
		stages:       []stage{{observation: o, specs: []Spec{{Span: "a", BinWidth: 1, Bins: 1}}}},
		vms: map[int]*observedVM{
			7: {guessed: errors.New("it is odd")},
			5: {guessed: errors.New("it is old")},
			6: {},
			4: {guessed: errors.New("it was there"), died: 1},
		},
	}
	s.noteGuesses()
	if len(s.notices) > 0 {
		t.Errorf("where nothing is explained: %q", texts(s))
	}
	delete(s.vms, 7) // as when it is buried
	s.stages[0].specs[0].Explain = true
	s.noteGuesses()
	s.noteGuesses()
	want := []string{"pid 5: it is old: whether a process waits or was preempted is guessed by its reductions"}
	if got := texts(s); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A text that waits to be taken is not noted again: what is missing of a VM is the same
// for two collectors. Once it was taken, it is news again.
func TestNotedOnce(t *testing.T) {
	s := &VMSource{vms: make(map[int]*observedVM)}
	s.note("pid %d: no probe", 5)
	s.note("pid %d: no probe", 6)
	s.note("pid %d: no probe", 5)
	if got, want := texts(s), []string{"pid 5: no probe", "pid 6: no probe"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	s.notices = nil
	s.note("pid %d: no probe", 5)
	if got, want := texts(s), []string{"pid 5: no probe"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
