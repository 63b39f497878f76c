package config

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/beamscope/beamscope/dq"
)

var (
	numberForm   = regexp.MustCompile(`^([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$`)
	durationForm = regexp.MustCompile(`^([0-9]*\.?[0-9]+)(ns|us|µs|ms|s|m|h)$`)
	sizeForm     = regexp.MustCompile(`^([0-9]+)(KiB|MiB|GiB)$`)
	percentForm  = regexp.MustCompile(`^p([0-9]+(\.[0-9]+)?)$`)
)

// parseNumber parses a non-negative decimal number.
func parseNumber(text string) (float64, bool) {
	x, err := strconv.ParseFloat(text, 64)
	return x, err == nil && numberForm.MatchString(text)
}

func formatNumber(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

func parseDuration(text string) (time.Duration, bool) {
	d, err := dq.ParseDelay(text)
	return d, err == nil && durationForm.MatchString(text)
}

// FormatDuration formats a duration exactly, in the form of scope files. It uses the largest
// unit that is not longer than the duration. It uses minutes and hours only if the result is a
// whole number.
func FormatDuration(d time.Duration) string { return dq.FormatDelay(d) }

// Units of sizes in bytes.
const (
	kiB = 1 << 10
	miB = 1 << 20
	giB = 1 << 30
)

func parseSize(text string) (int64, bool) {
	m := sizeForm.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(m[1], 10, 32)
	return n * map[string]int64{"KiB": kiB, "MiB": miB, "GiB": giB}[m[2]], err == nil
}

func formatSize(n int64) string {
	switch {
	case n%giB == 0:
		return strconv.FormatInt(n/giB, 10) + "GiB"
	case n%miB == 0:
		return strconv.FormatInt(n/miB, 10) + "MiB"
	case n%kiB == 0:
		return strconv.FormatInt(n/kiB, 10) + "KiB"
	}
	return strconv.FormatInt(n, 10) + "B" // parseSize rejects this form
}

// parsePercent parses the name of a quantile, such as p99.9, to a probability
// above 0 and below 1.
func parsePercent(text string) (float64, bool) {
	m := percentForm.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	p, err := strconv.ParseFloat(m[1]+"e-2", 64) // exact, unlike a division
	return p, err == nil && p > 0 && p < 1
}

// FormatQuantile returns the name of the quantile of a probability above 0 and below 1, as in
// scope files: p99.9.
func FormatQuantile(p float64) string {
	digits := strconv.FormatFloat(p, 'f', -1, 64)[len("0."):] + "00"
	whole, rest := strings.TrimLeft(digits[:2], "0"), strings.TrimRight(digits[2:], "0")
	if whole == "" {
		whole = "0"
	}
	if rest != "" {
		rest = "." + rest
	}
	return "p" + whole + rest
}
