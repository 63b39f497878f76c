package figures

import (
	"math"
	"strings"
)

// Sparkline draws values from 0 on, the largest as a full block. NaN is a gap.
func Sparkline(values []float64) string {
	levels := []rune("▁▂▃▄▅▆▇█")
	largest := 0.0
	for _, v := range values {
		if v > largest && !math.IsInf(v, 1) {
			largest = v
		}
	}
	var b strings.Builder
	for _, v := range values {
		switch {
		case math.IsNaN(v):
			b.WriteRune(' ')
		case math.IsInf(v, 1):
			b.WriteRune('∞')
		case largest == 0:
			b.WriteRune(levels[0])
		default:
			b.WriteRune(levels[min(int(v/largest*float64(len(levels))), len(levels)-1)])
		}
	}
	return b.String()
}
