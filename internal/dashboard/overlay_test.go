package dashboard

import (
	"strings"
	"testing"

	"github.com/gdamore/tcell/v2"
)

// The help begins with where one is, and in a demonstration its own keys come first of
// those that work everywhere. What is too long goes on below itself.
func TestHelpBeginsHere(t *testing.T) {
	h := start(t, "mm1k", 20, 60, 60, 256, func(o *Options) { o.Knobs = []Knob{{Key: 'b', Label: "overload"}} })
	first := func(want string) {
		t.Helper()
		h.keys("?")
		_, top := h.find("keys (Esc")
		if line := strings.Split(h.text(), "\n")[top+1]; !strings.Contains(line, want) {
			t.Errorf("it begins with %q, want %q", line, want)
		}
	}
	first("in the plots")
	_, at := h.find("everywhere")
	if line := strings.Split(h.text(), "\n")[at+1]; !strings.Contains(line, "overload") {
		t.Errorf("everywhere there is first %q", line)
	}
	for _, line := range strings.Split(h.text(), "\n") {
		if strings.HasPrefix(line, "  ║no more") {
			t.Errorf("%q begins at the edge", line)
		}
	}
	h.key(tcell.KeyEscape)
	h.keys("t")
	first("in the tab triggers")
}

// How to get help and out is always seen.
func TestHintsOnNarrowScreen(t *testing.T) {
	for _, keys := range []string{"", "o", "t", "m", "s"} {
		h := start(t, "mm1k", 20, 40, 12, 256)
		h.keys(keys)
		h.shows("? help  q quit")
	}
}

// What covers the rest is seen, until it is closed.
func TestOverlayIsOnTop(t *testing.T) {
	h := start(t, "mm1k", 20, 100, 30, 256)
	const words = "what the keys do"
	h.keys("?")
	if !strings.Contains(h.text(), words) {
		t.Errorf("the help is not seen:\n%s", h.text())
	}
	h.key(tcell.KeyEscape)
	if strings.Contains(h.text(), words) {
		t.Errorf("the help is still seen:\n%s", h.text())
	}
}
