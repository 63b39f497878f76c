package dq

import (
	"math/rand/v2"
	"testing"
)

// The common width is the smallest multiple of the operands' width at which they have at most the
// given total number of bins.
func TestWidthForSumIsTheLeast(t *testing.T) {
	r := rand.New(rand.NewPCG(27, 28))
	for range 500 {
		xs := make([]*DeltaQ, 1+r.IntN(4))
		for i := range xs {
			xs[i] = &DeltaQ{width: ms, lo: make([]float64, 1+r.IntN(40)), hi: []float64{1}}
		}
		most := len(xs) + r.IntN(30)
		want := ms
		for binsTogether(xs, want) > most {
			want += ms
		}
		if got, err := widthForSum(xs, ms, most); err != nil || got != want {
			t.Fatalf("%d bins at most: %v, %v, want %v", most, got, err, want)
		}
	}
	long := &DeltaQ{width: MaxWidth, lo: make([]float64, 3), hi: []float64{1}}
	if got, err := widthForSum([]*DeltaQ{long}, MaxWidth, 2); err != nil || got != MaxWidth {
		t.Errorf("the widest bins: %v, %v", got, err)
	}
	if got, err := widthForSum([]*DeltaQ{long}, MaxWidth/2, 5); err != nil || got != MaxWidth/2 {
		t.Errorf("half as wide: %v, %v", got, err)
	}
}
