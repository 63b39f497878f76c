package bpf

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
)

// Failures with the same reason are reported in one line.
func TestJoinFailures(t *testing.T) {
	refused := errors.New("refused")
	err := joinFailures("/beam", []failure{
		{what: `outcome "a"`, err: fs.ErrNotExist, unseen: []string{"a"}}, {what: `outcome "b"`, err: refused},
		{what: `outcome "c"`, err: fs.ErrNotExist, unseen: []string{"c"}}, {what: `outcome "d"`, err: fs.ErrNotExist},
	})
	const want = `attach to /beam: outcome "a" and 2 more: file does not exist
attach to /beam: outcome "b": refused`
	if err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, refused) {
		t.Error("it does not wrap its causes")
	}
	if unseen := (*UnseenError)(nil); !errors.As(err, &unseen) || strings.Join(unseen.Outcomes, " ") != "a c" {
		t.Errorf("outcomes that are not seen: %+v", unseen)
	}
	if err := joinFailures("/beam", nil); err != nil {
		t.Errorf("nothing fails: error %v", err)
	}
}
