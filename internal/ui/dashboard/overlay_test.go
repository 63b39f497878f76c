package dashboard

import (
	"strings"
	"testing"

	"github.com/gdamore/tcell/v2"
)

// The help begins with the keys of the current place. In a demonstration its knobs come first
// among the keys that work everywhere. Long lines are indented where they continue.
func TestHelpBeginsHere(t *testing.T) {
	h := start(t, "mm1k", 20, 60, 60, 256, func(o *Options) { o.Knobs = []Knob{{Key: 'b', Label: "overload"}} })
	first := func(want string) {
		t.Helper()
		h.keys("?")
		_, top := h.find("keys (Esc")
		if line := strings.Split(h.text(), "\n")[top+1]; !strings.Contains(line, want) {
			t.Errorf("the help begins with %q, want %q", line, want)
		}
	}
	first("in the plots")
	_, at := h.find("everywhere")
	if line := strings.Split(h.text(), "\n")[at+1]; !strings.Contains(line, "overload") {
		t.Errorf("the first key that works everywhere is %q", line)
	}
	for _, line := range strings.Split(h.text(), "\n") {
		if strings.HasPrefix(line, "  ║no more") {
			t.Errorf("%q is not indented", line)
		}
	}
	h.key(tcell.KeyEscape)
	h.keys("t")
	first("in the tab triggers")
}

// The keys for help and for quitting are always visible.
func TestHintsOnNarrowScreen(t *testing.T) {
	for _, keys := range []string{"", "o", "t", "m", "s"} {
		h := start(t, "mm1k", 20, 40, 12, 256)
		h.keys(keys)
		h.shows("? help  q quit")
	}
}

// An overlay is visible until it is closed.
func TestOverlayIsOnTop(t *testing.T) {
	h := start(t, "mm1k", 20, 100, 30, 256)
	const words = "show all keys"
	h.keys("?")
	if !strings.Contains(h.text(), words) {
		t.Errorf("the help is not visible:\n%s", h.text())
	}
	h.key(tcell.KeyEscape)
	if strings.Contains(h.text(), words) {
		t.Errorf("the help is still visible:\n%s", h.text())
	}
}
