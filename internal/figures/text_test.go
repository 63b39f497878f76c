package figures_test

import (
	"testing"

	"github.com/beamscope/beamscope/internal/figures"
)

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"queue_2 é <0.1.0> 本":    "queue_2 é <0.1.0> 本",
		"a\x1b[2Jb\n\x07\x9bc\t": "a�[2Jb���c�",
		"a\u202eb":               "a�b",
	} {
		if got := figures.Printable(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
