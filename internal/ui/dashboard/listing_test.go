package dashboard

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/ui/tui"
)

// Fit returns text of exactly the requested width for any input.
func TestFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("ab_[]:-<>…ΔQ日"))).Draw(t, "text")
		width := rapid.IntRange(0, 20).Draw(t, "width")
		if got := tui.Columns(tui.Fit(text, width, rapid.Bool().Draw(t, "right"))); got != width {
			t.Errorf("%d columns", got)
		}
	})
}
