package dq

import "math"

// student returns the t for which |T| ≤ t has the given probability, for Student's distribution
// with df ≥ 1 degrees of freedom. The result has nine correct digits and is rounded up. student
// uses only operations that give the same result on all processors.
func student(confidence float64, df int) float64 {
	least, most := 0.0, 1.0
	for studentRest(most, df) > 1-confidence && most < 1e12 {
		least, most = most, most+most
	}
	for most-least > float64(1e-9*most) {
		middle := least + (most-least)/2
		if studentRest(middle, df) > 1-confidence {
			least = middle
		} else {
			most = middle
		}
	}
	return most
}

// studentRest returns P(|T| > t) = I_y(df/2, 1/2) with y = df/(df+t²), the regularised incomplete
// beta function. It sums the following series, whose argument must be below 1/2:
//
//	I_y(a, b) = yᵃ(1−y)ᵇ/(a·B(a,b)) · Σ (a+b)ₙ/(a+1)ₙ·yⁿ = 1 − I_{1−y}(b, a),
//
// All terms are positive (Abramowitz and Stegun, 26.5.4 and 26.7.1).
func studentRest(t float64, df int) float64 {
	n := float64(df)
	square := float64(t * t)
	y, x := n/(n+square), square/(n+square)
	// yᵃ(1−y)ᵇ for a = df/2 and b = 1/2, and B(a, b).
	factor := float64(halfPower(y, df)*math.Sqrt(x)) / beta(df)
	if y < 0.5 {
		return float64(factor / (n / 2) * series(n/2, 0.5, y))
	}
	return 1 - float64(factor/0.5*series(0.5, n/2, x))
}

// series returns Σ (a+b)ₙ/(a+1)ₙ·yⁿ for 0 ≤ y ≤ 1/2.
func series(a, b, y float64) float64 {
	sum, term := 1.0, 1.0
	for n := 0.0; term > float64(1e-17*sum); n++ {
		term = float64(term * ((a + b + n) / (a + 1 + n)))
		term = float64(term * y)
		sum += term
	}
	return sum
}

// halfPower returns y^(n/2).
func halfPower(y float64, n int) float64 {
	power, root := 1.0, math.Sqrt(y)
	for ; n > 0; n /= 2 {
		if n%2 == 1 {
			power = float64(power * root)
		}
		root = float64(root * root)
	}
	return power
}

// beta returns B(n/2, 1/2): π for n = 1, 2 for n = 2, and n/(n+1) times B(n/2, 1/2) for n + 2.
func beta(n int) float64 {
	b, from := math.Pi, 1
	if n%2 == 0 {
		b, from = 2, 2
	}
	for k := from; k < n; k += 2 {
		b = float64(b * (float64(k) / float64(k+1)))
	}
	return b
}
