package dashboard

import (
	"context"
	"strings"
	"testing"
)

// On 80 columns the hints always include the keys for help, for quitting, and for the knobs of a
// demonstration.
func TestImportantHints(t *testing.T) {
	h := start(t, "mm1k", 20, 80, 24, 256, func(o *Options) {
		o.Knobs = []Knob{{Key: 'b', Label: "overload", Turn: func(context.Context) (string, error) { return "", nil }}}
	})
	for _, keys := range []string{"", "o", "t", "ts", "sm"} {
		h.keys(keys)
		lines := strings.Split(strings.TrimRight(h.text(), "\n"), "\n")
		last := lines[len(lines)-1]
		for _, want := range []string{"b overload", "? help", "q quit"} {
			if !strings.Contains(last, want) {
				t.Errorf("after %q no %q among the hints: %s", keys, want, last)
			}
		}
	}
}
