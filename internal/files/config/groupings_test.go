package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A scope file accepts exactly the groupings that Groupings returns.
func TestGroupings(t *testing.T) {
	for text, want := range map[string][]string{
		"{span: a}":       {"pid", "mfa"},
		"{wrapper: a}":    {},
		"{vm: os-wait}":   {},
		"{vm: gc}":        {"pid", "mfa"},
		"{vm: hop}":       {"pid", "mfa", "receiver"},
		"{vm: lifetime}":  {"pid", "mfa"},
		"{vm: port-busy}": {"port"},
		"{vm: dist-busy}": {"pid", "mfa", "node", "port", "remote"},
		"{start: process-spawn or port-open, end: process-exit}": {"pid", "mfa", "port"},
	} {
		got := parse(t, "outcomes: {a: "+text+"}").Outcomes[0].Groupings()
		if diff := cmp.Diff(append([]string{}, want...), append([]string{}, got...)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", text, diff)
		}
		for _, by := range got {
			parse(t, "outcomes: {a: "+text[:len(text)-1]+", group: "+by+"}}")
		}
	}
}
