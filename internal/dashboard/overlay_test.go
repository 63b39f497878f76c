package dashboard

import (
	"strings"
	"testing"

	"github.com/gdamore/tcell/v2"
)

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
