package export

import (
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
)

// Long names in the table are shortened so that they differ.
func TestLongNamesInText(t *testing.T) {
	grid, err := dq.NewGrid(time.Millisecond, 10)
	if err != nil {
		t.Fatal(err)
	}
	f := &scope.Frame{Window: outcome.Window{To: 1e9}}
	for _, middle := range []string{"visa", "amex"} {
		p := scope.Outcome{Name: strings.Repeat("x", 60) + middle + strings.Repeat("y", 60), Window: f.Window}
		p.Spec = outcome.Spec{Name: p.Name, Span: p.Name, BinWidth: grid.Width(), Bins: grid.Bins()}
		if p.Observed, err = dq.NewObserved(grid); err != nil {
			t.Fatal(err)
		}
		f.Outcomes = append(f.Outcomes, p)
	}
	var out strings.Builder
	if err := NewText(&out).Frame(f); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "x…visa…y") || !strings.Contains(got, "x…amex…y") {
		t.Error(got)
	}
}
