package vmsource

import (
	"errors"
	"slices"
	"testing"

	"github.com/beamscope/beamscope/internal/engine/outcome"

	"github.com/google/go-cmp/cmp"
)

// texts returns the texts of the waiting notices.
func texts(s *Source) []string {
	var all []string
	for _, n := range s.notices {
		all = append(all, n.Text)
	}
	return all
}

// While something is explained, one notice for each running VM reports what is inferred about it.
// The record of that is dropped when the VM has gone.
func TestNoteGuesses(t *testing.T) {
	o := new(observation)
	s := &Source{
		observations: []*observation{o},
		stages:       []stage{{observation: o, specs: []outcome.Spec{{Span: "a", BinWidth: 1, Bins: 1}}}},
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
	delete(s.vms, 7) // as bury does
	s.stages[0].specs[0].Explain = true
	s.noteGuesses()
	s.noteGuesses()
	want := []string{"pid 5: it is old: whether a process waits or was preempted is inferred from its reductions"}
	if got := texts(s); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A text that waits in a notice is not added again: two collectors may miss the same in a VM.
// After the notice has been taken, the same text is news again.
func TestNotedOnce(t *testing.T) {
	s := &Source{vms: make(map[int]*observedVM)}
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

// If instances of an outcome end when processes take messages, one notice names the VMs in which
// it is unknown which message is taken.
func TestGuessedMessages(t *testing.T) {
	mailbox := outcome.Spec{Name: "waits", VM: outcome.Events{Builtin: "mailbox"}}
	for _, test := range []struct {
		name string
		spec outcome.Spec
		want []string
	}{
		{"mailbox", mailbox, []string{"pid 7: it is stripped: messages in mailboxes are paired in their order. Where a mailbox is not empty for longer than dMax, that order is not trusted: messages then count as unpaired"}},
		{"message", outcome.Spec{Name: "all", VM: outcome.Events{Builtin: "message"}}, []string{"pid 7: it is stripped: messages in mailboxes are paired in their order. Where a mailbox is not empty for longer than dMax, that order is not trusted: messages then count as unpaired"}},
		{"hop", outcome.Spec{Name: "hop", VM: outcome.Events{Builtin: "hop"}}, nil},
		{"gc", outcome.Spec{Name: "gc", VM: outcome.Events{Builtin: "gc"}}, nil},
		{"spans", outcome.Spec{Name: "span", Span: "span"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := Source{
				vms: map[int]*observedVM{
					7: {id: outcome.VM{PID: 7}, guessed: guesses{messages: errors.New("it is stripped")}},
					8: {id: outcome.VM{PID: 8}},
					9: {id: outcome.VM{PID: 9}, guessed: guesses{messages: errors.New("it was there")}, died: 1},
				},
				stages: []stage{{specs: []outcome.Spec{test.spec}}},
			}
			s.noteGuesses()
			s.noteGuesses()
			if diff := cmp.Diff(test.want, s.takeNotices()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
