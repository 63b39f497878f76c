package intake

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// A cell keeps the worst instances, the worst first.
func TestWorst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		status := rapid.IntRange(0, 2)
		all := rapid.SliceOf(rapid.Custom(func(t *rapid.T) Ended {
			return Ended{End: rapid.Int64Range(0, 100).Draw(t, "delay"), Status: outcome.Status(status.Draw(t, "status"))}
		})).Draw(t, "all")
		var c Cell
		for _, i := range all {
			c.keepWorst(i)
		}
		slices.SortFunc(all, Ended.compare)
		if want := all[:min(len(all), outcome.MaxWorst)]; !slices.Equal(want, c.Kept) {
			t.Fatalf("kept %v, want %v", c.Kept, want)
		}
	})
}
