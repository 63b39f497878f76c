package eval

import (
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/figures"
)

func TestDelays(t *testing.T) {
	for _, tt := range []struct{ lo, hi, want string }{
		{"0", "0", "0"},
		{"0", "1e6", "0–1ms"},
		{"4750000", "5250000", "4.75–5.25ms"},
		{"6e6", "6e6", "6ms"},
		{"5999999.9999999", "6000000.0000001", "≈6ms"},
		{"123456000", "123464000", "123.4–123.5ms"},
		{"999999900", "1000000100", "0.999–1.001s"},
		{"1200", "1200", "1.2µs"},
		{"3", "3", "3ns"},
		{"100e9", "3600e9", "100–3600s"},
		{"49161805.5", "9508331944889242000", "49.16ms–9508331945s"},
		{"12346980000", "12346990000", "12.34–12.35s"},
		{"0", "5e-324", "0–0.000000001ns"},
		{"250e6", "", "250ms–∞"},
		{"12346980000", "", "12.34s–∞"},
	} {
		lo, _ := new(big.Rat).SetString(tt.lo)
		var hi *big.Rat
		if tt.hi != "" {
			hi, _ = new(big.Rat).SetString(tt.hi)
		}
		if got := delays(lo, hi); got != tt.want {
			t.Errorf("%s to %s: %s, want %s", tt.lo, tt.hi, got, tt.want)
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
		{0, 1.1e-16, "0–0.000000000001%"},
		{1.0 / 3, 1.0 / 3, "33.33–33.34%"},
		{0.33331, 0.33339, "33.33–33.34%"},
		{0.1008999999999999, 0.1009000000000001, "≈10.09%"},
		{1.23e-6, 1.27e-6, "0.00012–0.00013%"},
		{0.9999987, 0.9999988, "99.99987–99.99988%"},
	} {
		if got := percent(dq.Bounds{Lo: tt.lo, Hi: tt.hi}); got != tt.want {
			t.Errorf("%v to %v: %s, want %s", tt.lo, tt.hi, got, tt.want)
		}
	}
}

// A slack is rounded down and a hazard up.
func TestShare(t *testing.T) {
	if down, up := share(0.0985005, figures.RoundDown), share(0.0985005, figures.RoundUp); down != "9.85%" || up != "9.86%" {
		t.Errorf("%s and %s", down, up)
	}
	if near := share(0.1-1e-16, figures.RoundDown); near != "≈10%" {
		t.Error(near)
	}
}

func table(t testing.TB, q Question) (*Report, string) {
	t.Helper()
	r, err := Answer(q)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := Table(&out, r); err != nil {
		t.Fatal(err)
	}
	return r, out.String()
}

func TestTables(t *testing.T) {
	for name, tt := range map[string]struct {
		source string
		models map[string]string
		base   time.Duration
		want   string
	}{
		"never": {"p = a -> b;", map[string]string{"a": "never", "b": "wait(1ms)"}, ms,
			"   failure  mean  p99.9\np     100%     -      ∞\n"},
		"a mean that may be long": {"s = a;", map[string]string{"a": "1e-9*exp(1s)"}, 10 * time.Microsecond,
			"            failure          mean  p99.9\ns  99.99999989–100%  0.049–9.604s      ∞\n"},
		"a rare branch that is long": {"s = p:s[0.999999,0.000001](a, b);", map[string]string{"a": "wait(1ms)", "b": "wait(1h)"}, 10 * time.Microsecond,
			"   failure          mean      p99.9\ns       0%  3.59–58.54ms  0–54.94ms\n\nThe bins are wider than --base 10µs: s (54.94ms).\n" +
				"A distribution has at most 65536 bins, and these delays may be too long for that. A smaller --base does not narrow them.\n"},
		"no delay at all": {"s = a;", map[string]string{"a": "wait(0s)"}, ms,
			"   failure  mean  p99.9\ns       0%     0      0\n"},
	} {
		q := ask(t, tt.source, tt.models)
		q.Quantiles = []float64{0.999}
		var err error
		if q.Grid, err = dq.NewGrid(tt.base, 10000); err != nil {
			t.Fatal(err)
		}
		if _, got := table(t, q); got != tt.want {
			t.Errorf("%s: got\n%swant\n%s", name, got, tt.want)
		}
	}
}

// Each cell of a table contains the bounds of the report.
func TestTablesContainTheirFigures(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		models := map[string]string{}
		for _, name := range []string{"a", "b"} {
			delay := rapid.Int64Range(0, 1e10).Draw(rt, "delay")
			p := rapid.Float64Range(0, 1).Draw(rt, "p")
			form := rapid.SampledFrom([]string{"%v*wait(%dns)", "%v*exp(%dns)", "%v*uniform(0s,%dns)"}).Draw(rt, "form")
			models[name] = fmt.Sprintf(form, p, delay+1)
		}
		q := ask(t, "s = p:c[0.9, 0.1](a, a -> b);", models)
		q.Quantiles, q.Within = []float64{0.1, 0.5}, []time.Duration{time.Second}
		r, text := table(t, q)
		lines := strings.Split(text, "\n")
		cells := strings.Fields(lines[1])
		p := r.Probes["s"]
		contain(rt, cells[1], "%", rational(p.Failure.Lo, 100), rational(p.Failure.Hi, 100))
		if p.Mean != nil {
			contain(rt, cells[2], "", rational(p.Mean.Lo, 1e9), rational(p.Mean.Hi, 1e9))
		}
		for i, quantile := range p.Quantiles {
			if quantile.Lo == nil {
				if cells[3+i] != "∞" {
					rt.Fatalf("no quantile is written %s", cells[3+i])
				}
				continue
			}
			contain(rt, cells[3+i], "", rational(quantile.Lo, 1e9), rational(quantile.Hi, 1e9))
		}
		contain(rt, cells[5], "%", rational(&p.Within[0].Lo, 100), rational(&p.Within[0].Hi, 100))
	})
}

// rational returns x·scale, or nil for an infinite x. The decimals of a delay in the report have
// up to 16 digits.
func rational(x *float64, scale float64) *big.Rat {
	if x == nil {
		return nil
	}
	y := new(big.Rat).SetFloat64(*x)
	return y.Mul(y, new(big.Rat).SetFloat64(scale))
}

// contain fails unless a cell contains the interval from lo to hi. Delays are in nanoseconds, or
// in the given unit.
func contain(rt *rapid.T, cell, unit string, lo, hi *big.Rat) {
	rt.Helper()
	from, to, two := strings.Cut(strings.TrimPrefix(cell, "≈"), "–")
	if !two {
		to = from
	}
	near := new(big.Rat).SetFloat64(1e-15)
	if strings.HasPrefix(cell, "≈") {
		near.SetFloat64(figures.Near)
	}
	last := unitIn(to)
	if first := unitIn(from); first == "" {
		from += last
	}
	a, b := number(rt, from), number(rt, to)
	if a != nil && a.Sub(a, new(big.Rat).Mul(a, near)).Cmp(lo) > 0 {
		rt.Fatalf("%s does not contain %v", cell, lo.FloatString(20))
	}
	if b != nil && hi != nil && b.Add(b, new(big.Rat).Mul(b, near)).Cmp(hi) < 0 || b != nil && hi == nil {
		rt.Fatalf("%s does not contain %v", cell, hi)
	}
}

func unitIn(text string) string { return strings.TrimLeft(text, "0123456789.") }

// number parses a delay to nanoseconds, or a percentage. It returns nil for ∞.
func number(rt *rapid.T, text string) *big.Rat {
	if text == "∞" {
		return nil
	}
	unit := unitIn(text)
	scale, ok := map[string]int64{"s": 1e9, "ms": 1e6, "µs": 1e3, "ns": 1, "%": 1, "": 1, "∞": 1e9}[unit]
	x, ok2 := new(big.Rat).SetString(strings.TrimSuffix(text, unit))
	if !ok || !ok2 {
		rt.Fatalf("%q is no figure", text)
	}
	return x.Mul(x, big.NewRat(scale, 1))
}

// A smaller base is recommended only if it is possible.
func TestVerdictSaysWhatNarrows(t *testing.T) {
	for _, tt := range []struct {
		model string
		base  time.Duration
		want  string
	}{
		{"wait(1500us)", ms, "a smaller --base narrows them"},
		{"wait(1500ns)", time.Microsecond, "no --base is smaller than 1µs"},
		{"0.5*wait(1500us)", ms, "a smaller --base narrows them"},
		{"steps(1500us:0.5, 1h:1)", ms, "a smaller --base does not narrow them, as a distribution has at most 65536 bins"},
		{"steps(1500us:0.5, 50s:1)", ms, "a smaller --base does not narrow them, as a distribution has at most 65536 bins"},
	} {
		q := ask(t, "s = a;", map[string]string{"a": tt.model})
		at, err := ParseQTA("0.5@1500us")
		if strings.HasSuffix(tt.model, "(1500ns)") {
			at, err = ParseQTA("0.5@1500ns")
		}
		if err != nil {
			t.Fatal(err)
		}
		q.QTA = &at
		if q.Grid, err = dq.NewGrid(tt.base, 10000); err != nil {
			t.Fatal(err)
		}
		if _, text := table(t, q); !strings.Contains(text, "these bounds cannot tell: "+tt.want+".") {
			t.Errorf("%s: got\n%s", tt.model, text)
		}
	}
}
