package figures_test

import (
	"testing"

	"github.com/beamscope/beamscope/internal/engine/figures"
)

func TestPercent(t *testing.T) {
	for share, want := range map[float64]string{
		0: "0.00%", 0.00001: "<0.01%", 0.00005: "0.01%", 0.1234: "12.34%", 0.99994: "99.99%", 0.99996: "99.99%", 1: "100.00%",
	} {
		if got := figures.Percent(share); got != want {
			t.Errorf("%v is shown as %s, want %s", share, got, want)
		}
	}
}
