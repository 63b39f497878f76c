package figures_test

import (
	"testing"

	"github.com/beamscope/beamscope/internal/engine/figures"
)

func TestNumbers(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 0.01: "<0.1", 0.3: "0.3", 9.94: "9.9", 9.96: "10", 999: "999", 999.6: "1.00k", 3420: "3.42k", 9996: "10.0k", 99960: "100k", 120e6: "120M",
		999.6e9: "1.00T", 1e16: ">999T",
	} {
		if got := figures.Count(x); got != want {
			t.Errorf("%v is %s, want %s", x, got, want)
		}
	}
	for x, want := range map[float64]string{0: "0", 0.0004: "<0.1", 0.123: "12.3", 0.9994: "99.9", 1.54: "154"} {
		if got := figures.Share(x); got != want {
			t.Errorf("%v is %s, want %s", x, got, want)
		}
	}
}
