package dq

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/dsp/fourier"
)

// A gonumConvolver convolves with gonum's real transforms, as a reference.
type gonumConvolver struct {
	fft     *fourier.FFT
	x, y    []float64
	fx, fy  []complex128
	product []float64
}

func newGonumConvolver(length int) *gonumConvolver {
	return &gonumConvolver{fft: fourier.NewFFT(length), x: make([]float64, length), y: make([]float64, length)}
}

func (g *gonumConvolver) convolve(x, y []float64) []float64 {
	clear(g.x)
	clear(g.y)
	copy(g.x, x)
	copy(g.y, y)
	g.fx, g.fy = g.fft.Coefficients(g.fx, g.x), g.fft.Coefficients(g.fy, g.y)
	for i := range g.fx {
		g.fx[i] *= g.fy[i]
	}
	g.product = g.fft.Sequence(g.product, g.fx)
	for i := range g.product {
		g.product[i] /= float64(len(g.product))
	}
	return g.product
}

// gonum's transforms give the same results.
func TestConvolveEqualsGonum(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{7, 200, 1000} {
		x, y := random(t, r, n), random(t, r, n)
		got, err := Sequential(x, y)
		if err != nil {
			t.Fatal(err)
		}
		density := newGonumConvolver(2*n).convolve(appendDensity(nil, x.hi), appendDensity(nil, y.hi))
		sum := 0.0
		for k := range 2*n - 1 {
			sum += density[k]
			if b := got.At(k); math.Abs(b.Hi-sum) > Tolerance {
				t.Fatalf("N = %d, edge %d: %v, gonum %v", n, k, b, sum)
			}
		}
	}
}
