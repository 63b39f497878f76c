package dtrace

import (
	"strings"
	"testing"
	"time"
)

func TestBuiltins(t *testing.T) {
	seen := make(map[string]bool)
	for _, b := range Builtins() {
		if seen[b.Name] || b.Name == "" {
			t.Errorf("%q is listed twice", b.Name)
		}
		seen[b.Name] = true
		if err := b.Rule.Validate(); err != nil {
			t.Errorf("%s: %v", b.Name, err)
		}
		if b.Bins < 1 || b.Bins > 1000 || b.DMax < time.Millisecond || b.DMax%time.Duration(b.Bins) != 0 || b.DMax/time.Duration(b.Bins) < time.Microsecond {
			t.Errorf("%s: dMax %v in %d bins", b.Name, b.DMax, b.Bins)
		}
		for _, text := range []string{b.Starts, b.Ends, b.Blind, b.Cost} {
			if !strings.HasSuffix(text, ".") || strings.Contains(text, "  ") {
				t.Errorf("%s: %q is not a sentence", b.Name, text)
			}
		}
		if got, ok := LookupBuiltin(b.Name); !ok || got.Name != b.Name {
			t.Errorf("%s is not found", b.Name)
		}
	}
	if _, ok := LookupBuiltin("gcc"); ok {
		t.Error("gcc is found")
	}
}
