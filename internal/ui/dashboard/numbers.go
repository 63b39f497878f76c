package dashboard

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var (
	percentage = regexp.MustCompile(`^([0-9.]+)\s*%$`)
	withComma  = regexp.MustCompile(`^[0-9]*,[0-9]+$`)
	beforeUnit = regexp.MustCompile(`([0-9.])\s+(ns|us|µs|μs|ms|s|m|h)\b`)
	aroundSign = regexp.MustCompile(`\s*=\s*`)
)

// shareOf converts a share as people write it to the stored form: "10 %" to 0.1. It leaves other
// text unchanged.
func shareOf(text string) (string, error) {
	text = strings.TrimSpace(text)
	if withComma.MatchString(text) {
		return "", fmt.Errorf("%q: did you mean %s?", text, strings.ReplaceAll(text, ",", "."))
	}
	if m := percentage.FindStringSubmatch(text); m != nil {
		if x, err := strconv.ParseFloat(m[1], 64); err == nil {
			return strconv.FormatFloat(x/100, 'g', 12, 64), nil
		}
	}
	return text, nil
}

// delayOf removes spaces between the numbers and units of a delay.
func delayOf(text string) string {
	return beforeUnit.ReplaceAllString(strings.TrimSpace(text), "$1$2")
}
