package vmsource

import (
	"errors"
	"testing"
)

// A notice has one line, without repetitions.
func TestNoteIsOneLine(t *testing.T) {
	a, b := errors.New("attach to a file: no such process"), errors.New("attach to a file: no such probe")
	for _, test := range []struct {
		err  error
		want string
	}{
		{a, "attach to a file: no such process"},
		{errors.Join(a, a), "attach to a file: no such process"},
		{errors.Join(a, b, a), "attach to a file: no such process (errors beside this one: 1)"},
	} {
		s := new(Source)
		s.note("%v", test.err)
		if len(s.notices) != 1 || s.notices[0].Text != test.want {
			t.Errorf("%+v, want %q", s.notices, test.want)
		}
	}
}
