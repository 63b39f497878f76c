package figures

import (
	"math"
	"strconv"
)

// Count shows a number from 0 on in at most five characters: 0.3, 12, 3.42k, 120M.
func Count(x float64) string {
	switch {
	case math.IsNaN(x):
		return "-"
	case x == 0:
		return "0"
	case x < 0.05:
		return "<0.1"
	case x < 9.95:
		return strconv.FormatFloat(x, 'f', 1, 64)
	case x < 999.5:
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	for _, unit := range []string{"k", "M", "G", "T"} {
		x /= 1000
		switch {
		case x < 9.995:
			return strconv.FormatFloat(x, 'f', 2, 64) + unit
		case x < 99.95:
			return strconv.FormatFloat(x, 'f', 1, 64) + unit
		case x < 999.5:
			return strconv.FormatFloat(x, 'f', 0, 64) + unit
		}
	}
	return ">999T"
}

// Share shows a share in percent in at most five characters, without the sign: 0.3, 12.3, 154.
func Share(share float64) string {
	x := share * 100
	switch {
	case math.IsNaN(x):
		return "-"
	case x == 0:
		return "0"
	case x < 0.05:
		return "<0.1"
	case x < 99.95:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return strconv.FormatFloat(x, 'f', 0, 64)
}

// ShareDown and ShareUp show a share like [Share], as a lower and an upper bound.
func ShareDown(share float64) string { return Down(share*100, shareDecimals(share)) }

// ShareUp is described at [ShareDown].
func ShareUp(share float64) string { return Up(share*100, shareDecimals(share)) }

func shareDecimals(share float64) int {
	if share == 0 || share >= 0.9995 {
		return 0
	}
	return 1
}
