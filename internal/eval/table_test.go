package eval

import (
	"math"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/internal/figures"
)

func TestDelays(t *testing.T) {
	inf := math.Inf(1)
	for _, tt := range []struct {
		lo, hi float64
		want   string
	}{
		{0, 0, "0"},
		{0, 0.001, "0–1ms"},
		{0.00475, 0.00525, "4.75–5.25ms"},
		{0.0059999999999999, 0.0060000000000001, "6ms"},
		{0.123456, 0.123464, "123.4–123.5ms"},
		{0.9999999, 1.0000001, "0.999–1.001s"},
		{1.2e-6, 1.2e-6, "1.2µs"},
		{3e-9, 3e-9, "3ns"},
		{100, 3600, "100–3600s"},
		{0.25, inf, "250ms–∞"},
		{inf, inf, "∞"},
	} {
		if got := delays(figures.Number(tt.lo), figures.Number(tt.hi)); got != tt.want {
			t.Errorf("%v to %v: %s, want %s", tt.lo, tt.hi, got, tt.want)
		}
	}
}

func TestPercent(t *testing.T) {
	for _, tt := range []struct {
		lo, hi float64
		want   string
	}{
		{0, 0, "0%"},
		{1, 1, "100%"},
		{0, 1, "0–100%"},
		{0, 1.1e-16, "0%"},
		{1.0 / 3, 1.0 / 3, "33.33%"},
		{0.33331, 0.33339, "33.33–33.34%"},
		{0.1008999999999999, 0.1009000000000001, "10.09%"},
		{1.23e-6, 1.27e-6, "0.00012–0.00013%"},
		{0.9999987, 0.9999988, "99.99987–99.99988%"},
	} {
		if got := percent(&tt.lo, &tt.hi); got != tt.want {
			t.Errorf("%v to %v: %s, want %s", tt.lo, tt.hi, got, tt.want)
		}
	}
}

// A slack is rounded down, a hazard up.
func TestShare(t *testing.T) {
	if down, up := share(0.0985005, figures.Down), share(0.0985005, figures.Up); down != "9.85%" || up != "9.86%" {
		t.Errorf("%s and %s", down, up)
	}
	if exact := share(0.1-1e-16, figures.Down); exact != "10%" {
		t.Error(exact)
	}
}

func TestTableOfNever(t *testing.T) {
	q := ask(t, "p = a -> b;", map[string]string{"a": "never", "b": "wait(1ms)"})
	q.Quantiles = []float64{0.999}
	r, err := Answer(q)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := Table(&out, r); err != nil {
		t.Fatal(err)
	}
	if want := "   failure  mean  p99.9\np     100%     -      ∞\n"; out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
