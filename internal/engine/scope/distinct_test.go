package scope

import "testing"

// Two different numbers are formatted differently.
func TestDistinct(t *testing.T) {
	for _, test := range []struct {
		x, y float64
		a, b string
	}{
		{38.7123, 10, "38.7", "10"},
		{10.03, 10, "10.03", "10"},
		{10.000004, 10, "10.000004", "10"},
		{10, 10, "10", "10"},
		{1.00000000000001, 1, "1.00000000000001", "1"},
		{1.000000000000001, 1, "1", "1"},
	} {
		if a, b := distinct(test.x, test.y); a != test.a || b != test.b {
			t.Errorf("%v and %v: %q and %q, want %q and %q", test.x, test.y, a, b, test.a, test.b)
		}
	}
}
