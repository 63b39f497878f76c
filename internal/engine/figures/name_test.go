package figures_test

import (
	"strings"
	"testing"

	"github.com/rivo/uniseg"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/engine/figures"
)

func TestMiddle(t *testing.T) {
	for _, test := range []struct {
		text    string
		columns int
		want    string
	}{
		{"checkout", 8, "checkout"},
		{"checkout", 7, "che…out"},
		{"checkout", 6, "che…ut"},
		{"checkout", 1, "…"},
		{"checkout", 0, ""},
		{"日本語", 6, "日本語"},
		{"日本語", 5, "日…語"},
		{"日本語", 4, "日…"},
		{"", 0, ""},
	} {
		if got := figures.Middle(test.text, test.columns); got != test.want {
			t.Errorf("%q in %d columns: %q, want %q", test.text, test.columns, got, test.want)
		}
	}
}

// Middle returns either the text itself, or its beginning and its end within the columns.
func TestMiddleFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("aé日🙂_\u0301")), 0, 300, -1).Draw(t, "text")
		columns := rapid.IntRange(0, 100).Draw(t, "columns")
		got := figures.Middle(text, columns)
		if got == text {
			return
		}
		if width := uniseg.StringWidth(got); width > columns {
			t.Fatalf("%q takes %d columns", got, width)
		}
		head, tail, _ := strings.Cut(got, "…")
		if !strings.HasPrefix(text, head) || !strings.HasSuffix(text, tail) {
			t.Fatalf("%q is not a shortened %q", got, text)
		}
	})
}
