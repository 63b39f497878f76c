package outcome

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
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
			7: {guessed: guesses{states: errors.New("it is odd")}},
			5: {guessed: guesses{states: errors.New("it is old")}},
			6: {},
			4: {guessed: guesses{states: errors.New("it was there")}, died: 1},
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
	want := []string{"pid 5: it is old: whether a process waits or was preempted is inferred from its reductions"}
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

// Where the instances of an outcome end when processes take messages, it is told once of
// which VMs it is not known which message that is.
func TestGuessedMessages(t *testing.T) {
	mailbox := Spec{Name: "waits", VM: Events{Builtin: "mailbox"}}
	for _, test := range []struct {
		name string
		spec Spec
		want []string
	}{
		{"mailbox", mailbox, []string{"pid 7: it is stripped: messages in mailboxes are paired in their order. Where a mailbox is not empty for longer than dMax, that order is not trusted: messages then count as unpaired"}},
		{"message", Spec{Name: "all", VM: Events{Builtin: "message"}}, []string{"pid 7: it is stripped: messages in mailboxes are paired in their order. Where a mailbox is not empty for longer than dMax, that order is not trusted: messages then count as unpaired"}},
		{"hop", Spec{Name: "hop", VM: Events{Builtin: "hop"}}, nil},
		{"gc", Spec{Name: "gc", VM: Events{Builtin: "gc"}}, nil},
		{"spans", Spec{Name: "span", Span: "span"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := VMSource{
				vms: map[int]*observedVM{
					7: {id: VM{PID: 7}, guessed: guesses{messages: errors.New("it is stripped")}},
					8: {id: VM{PID: 8}},
					9: {id: VM{PID: 9}, guessed: guesses{messages: errors.New("it was there")}, died: 1},
				},
				stages: []stage{{specs: []Spec{test.spec}}},
			}
			s.noteGuesses()
			s.noteGuesses()
			if diff := cmp.Diff(test.want, s.takeNotices()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
