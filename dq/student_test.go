package dq

import (
	"math"
	"testing"
)

// The quantile has nine correct digits and is not below the true value. The true value is
// tan(πp/2) for one degree of freedom, p·√(2/(1−p²)) for two, and follows from the cosine of a
// third of an angle for four.
func TestStudentToNineDigits(t *testing.T) {
	for _, p := range []float64{0.01, 0.2, 0.5, 0.7, 0.9, 0.95, 0.99, 0.9999, 1 - 1e-7} {
		a := 1 - p*p // 4·q·(1−q) with q = (1+p)/2
		for df, want := range map[int]float64{
			1: math.Tan(math.Pi * p / 2),
			2: p * math.Sqrt(2/a),
			4: 2 * math.Sqrt(math.Cos(math.Acos(math.Sqrt(a))/3)/math.Sqrt(a)-1),
		} {
			rounding := 1e-13 + 1e-15/(1-p)
			if df == 4 {
				rounding += 1e-15 / (p * p)
			}
			if got := student(p, df); got < want*(1-rounding) || got > want*(1+1e-9+rounding) {
				t.Errorf("%v, %d degrees of freedom: %v, want %v", p, df, got, want)
			}
		}
	}
	if got := student(math.Nextafter(1, 0), 1); got < 1e12 || got > 2e12 {
		t.Errorf("next to 1: %v, want the upper end of the search", got)
	}
}
