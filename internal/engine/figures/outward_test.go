package figures_test

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/engine/figures"
)

// denoted returns the interval that a text of Outward represents.
func denoted(t *rapid.T, text string) (lo, hi *big.Rat) {
	about := strings.HasPrefix(text, "≈")
	from, to, two := strings.Cut(strings.TrimPrefix(text, "≈"), "–")
	if !two {
		to = from
	}
	lo, ok := new(big.Rat).SetString(from)
	hi, ok2 := new(big.Rat).SetString(to)
	if !ok || !ok2 {
		t.Fatalf("%q is not an interval", text)
	}
	if about {
		near := new(big.Rat).SetFloat64(figures.Near)
		lo.Sub(lo, new(big.Rat).Mul(lo, near))
		hi.Add(hi, new(big.Rat).Mul(hi, near))
	}
	return lo, hi
}

// The text of Outward represents an interval that contains the given one, and that is at each end
// at most one unit of the last digit wider.
func TestOutwardContains(t *testing.T) {
	number := rapid.OneOf(
		rapid.Float64Range(0, 1),
		rapid.Float64Range(0, 1e10),
		rapid.SampledFrom([]float64{0, 5e-324, 1e-300, 0.07, 0.29, 1 - 0x1p-53, 1, 100, 9508331944.889242, 1e15}),
		rapid.Map(rapid.Uint64Range(0, 1e6), func(n uint64) float64 { return float64(n) / 1000 }),
	)
	rapid.Check(t, func(t *rapid.T) {
		a, b := number.Draw(t, "a"), number.Draw(t, "b")
		if rapid.Bool().Draw(t, "close") {
			b = a * (1 + rapid.SampledFrom([]float64{0, 0x1p-52, 1e-12, 1e-9, 1e-6}).Draw(t, "apart"))
		}
		decimals := rapid.IntRange(0, 14).Draw(t, "decimals")
		lo, hi := new(big.Rat).SetFloat64(min(a, b)), new(big.Rat).SetFloat64(max(a, b))
		text := figures.Outward(lo, hi, decimals)
		from, to := denoted(t, text)
		if from.Cmp(lo) > 0 || to.Cmp(hi) < 0 {
			t.Fatalf("%v to %v is written %s", min(a, b), max(a, b), text)
		}
		unit := new(big.Rat).SetFrac(big.NewInt(1), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(decimals)), nil))
		if !strings.HasPrefix(text, "≈") && (new(big.Rat).Sub(lo, from).Cmp(unit) >= 0 || new(big.Rat).Sub(to, hi).Cmp(unit) >= 0) {
			t.Fatalf("%v to %v is written %s: wider than one digit", min(a, b), max(a, b), text)
		}
		if max(a, b) <= 100 {
			text = figures.OutwardPercent(lo, hi, decimals)
			if from, to := denoted(t, text); from.Cmp(lo) > 0 || to.Cmp(hi) < 0 {
				t.Fatalf("%v%% to %v%% are written %s", min(a, b), max(a, b), text)
			}
		}
	})
}

func TestOutward(t *testing.T) {
	for _, tt := range []struct {
		lo, hi   string
		decimals int
		want     string
	}{
		{"4", "4", 3, "4"},
		{"0", "0", 3, "0"},
		{"3.9999999999", "4.0000000001", 3, "≈4"},
		{"3.9999", "4.0001", 3, "3.999–4.001"},
		{"1/3", "1/3", 2, "0.33–0.34"},
		{"0", "1/100000", 2, "0–0.01"},
		{"9508331944.889", "9508331944.889", 0, "≈9508331945"},
		{"1/20", "9508331944.9", 0, "0–9508331945"},
		{"12.34698", "12.34698", 2, "12.34–12.35"},
	} {
		lo, _ := new(big.Rat).SetString(tt.lo)
		hi, _ := new(big.Rat).SetString(tt.hi)
		if got := figures.Outward(lo, hi, tt.decimals); got != tt.want {
			t.Errorf("%s to %s: %s, want %s", tt.lo, tt.hi, got, tt.want)
		}
	}
}

// A value within a billionth of 99.9999999 % is not always within a billionth of the difference
// from 100 %.
func TestOutwardPercent(t *testing.T) {
	lo, hi := new(big.Rat).SetFloat64(99.9999998999), new(big.Rat).SetFloat64(99.9999999904)
	if got, want := figures.OutwardPercent(lo, hi, 7), "99.9999998–100"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := figures.Outward(lo, hi, 7), "≈99.9999999"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A share above 0 is never shown as at most 0 %, and a share below 1 never as at least 100 %.
func TestPercentRoundsOutwards(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{figures.PercentUp(1e-13), "0.01%"},
		{figures.PercentUp(1e-300), "0.01%"},
		{figures.PercentDown(1 - 1e-10), "99.99%"},
		{figures.PercentDown(0.29), "29.00%"},
		{figures.PercentUp(1 - 0.9), "10.00%"},
		{figures.PercentDown(1 - 0.9), "10.00%"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s, want %s", tt.got, tt.want)
		}
	}
}

// Except for binary rounding, Down returns a number that is no larger, and Up one that is no
// smaller. The two differ by at most one unit of the last decimal.
func TestDownAndUpContain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.OneOf(rapid.Float64Range(0, 1), rapid.Float64Range(0, 1e6),
			rapid.Map(rapid.IntRange(0, 1e6), func(n int) float64 { return float64(n) / 1000 })).Draw(t, "x")
		decimals := rapid.IntRange(0, 6).Draw(t, "decimals")
		lo, hi := number(t, figures.Down(x, decimals)), number(t, figures.Up(x, decimals))
		unit := math.Pow10(-decimals)
		if allowed := 1e-11 * x; lo > x+allowed || hi < x-allowed || hi-lo > unit*1.001+allowed {
			t.Fatalf("%v: Down gives %v and Up gives %v", x, lo, hi)
		}
	})
}

func number(t *rapid.T, text string) float64 {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}
