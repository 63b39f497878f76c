package figures_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rivo/uniseg"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/engine/figures"
)

// Names that differ only in the middle keep the part that differs.
func TestShortened(t *testing.T) {
	long := strings.Repeat("x", 40)
	for _, test := range []struct {
		names   []string
		columns int
		want    []string
	}{
		{[]string{"basket", "checkout"}, 6, []string{"basket", "che…ut"}},
		{[]string{"payment_of_visa_with_card", "payment_of_amex_with_card"}, 16, []string{"payme…visa…_card", "payme…amex…_card"}},
		{[]string{"checkout", "checkout"}, 6, []string{"che…ut", "che…ut"}},
		{[]string{long, long + "x", long + "xx"}, 8, []string{"xxx…", "xx…x", "xx…xx"}},
		{[]string{"che…ut", "checkout"}, 6, []string{"che…ut", "…cko…t"}},
		{nil, 6, []string{}},
	} {
		if got := figures.Shortened(test.names, test.columns); !slices.Equal(got, test.want) {
			t.Errorf("%q in %d columns: %q, want %q", test.names, test.columns, got, test.want)
		}
	}
}

// Different names never look the same, each fits, and the short form of a name does not depend on
// the order of the names.
func TestShortenedAreDistinct(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.StringOfN(rapid.RuneFrom([]rune("ab日…~2🙂\u0301")), 0, 12, -1)
		name := rapid.Custom(func(t *rapid.T) string {
			return rapid.SampledFrom([]string{"", "order_", "a_long_beginning_"}).Draw(t, "head") + part.Draw(t, "part") +
				rapid.SampledFrom([]string{"", "_of_the_shop_abroad"}).Draw(t, "tail")
		})
		names := rapid.SliceOfN(name, 0, 30).Draw(t, "names")
		columns := rapid.IntRange(8, 40).Draw(t, "columns")
		got := figures.Shortened(names, columns)
		of := make(map[string]string)
		for i, text := range got {
			if width := uniseg.StringWidth(text); width > columns {
				t.Fatalf("%q takes %d columns of %d", text, width, columns)
			}
			if other, ok := of[text]; ok && other != names[i] {
				t.Fatalf("%q and %q are both %q", other, names[i], text)
			}
			of[text] = names[i]
		}
		slices.Reverse(names)
		slices.Reverse(got)
		if again := figures.Shortened(names, columns); !slices.Equal(got, again) {
			t.Fatalf("%q in another order: %q", got, again)
		}
	})
}
