package dashboard

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/files/config"
)

// testSnapshots are snapshots of the demonstration.
var testSnapshots = filepath.Join(program, "testdata/snapshots")

// withSnapshots makes a dashboard open the snapshots in a folder.
func withSnapshots(dir string) func(*Options) {
	return func(o *Options) { o.Snapshots = dir }
}

// copied returns a folder with copies of the test snapshots.
func copied(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(testSnapshots)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// shows fails for each text that is not on the screen.
func (h *harness) shows(want ...string) {
	h.t.Helper()
	text := h.text()
	for _, w := range want {
		if !strings.Contains(text, w) {
			h.t.Errorf("%q is not shown:\n%s", w, text)
		}
	}
}

// hides fails for each text that is on the screen.
func (h *harness) hides(unwanted ...string) {
	h.t.Helper()
	text := h.text()
	for _, u := range unwanted {
		if strings.Contains(text, u) {
			h.t.Errorf("%q is shown:\n%s", u, text)
		}
	}
}

// await waits until is returns true in the goroutine of the terminal.
func (h *harness) await(what string, is func() bool) {
	h.t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		there := false
		h.do(func() { there = is() })
		if there {
			return
		}
	}
	h.t.Fatalf("%s:\n%s", what, h.text())
}

// until waits until the screen shows a text that results from work in the background.
func (h *harness) until(want string) {
	h.t.Helper()
	h.await(fmt.Sprintf("%q is not shown", want), func() bool {
		h.d.refresh()                               // takes effect in the next drawing
		return strings.Contains(h.contents(), want) // the previous drawing
	})
}

// last returns the configuration that was applied last. It fails unless exactly others were
// applied before.
func (h *harness) last(others int) *config.Config {
	h.t.Helper()
	h.control.mu.Lock()
	defer h.control.mu.Unlock()
	if len(h.control.applied) != others+1 {
		h.t.Fatalf("%d configurations applied, want %d:\n%s", len(h.control.applied), others+1, h.text())
	}
	return &h.control.applied[others]
}

// selectRow selects the row of a listing with a key.
func (h *harness) selectRow(key string) {
	h.t.Helper()
	h.do(func() {
		l := listingOf(h.d.open)
		if l.choose(key); l.selected() != key {
			h.t.Errorf("there is no row %q", key)
		}
	})
}

// awaitRow selects a row of a listing once work in the background has added it.
func (h *harness) awaitRow(key string) {
	h.t.Helper()
	h.await(fmt.Sprintf("there is no row %q", key), func() bool {
		h.d.refresh()
		l := listingOf(h.d.open)
		l.choose(key)
		return l.selected() == key
	})
}

func listingOf(t tab) *listing {
	switch t := t.(type) {
	case *triggersTab:
		return t.listing
	case *plotsTab:
		return t.listing
	}
	return nil
}

// find returns the position of a text on the screen.
func (h *harness) find(text string) (x, y int) {
	h.t.Helper()
	for y, line := range strings.Split(h.text(), "\n") {
		if before, _, ok := strings.Cut(line, text); ok {
			return len([]rune(before)), y
		}
	}
	h.t.Fatalf("%q is not shown:\n%s", text, h.text())
	return 0, 0
}

// mouse sends mouse actions at the position of a text.
func (h *harness) mouse(text string, actions ...tview.MouseAction) {
	h.t.Helper()
	x, y := h.find(text)
	h.mouseAt(x, y, actions...)
}

func (h *harness) mouseAt(x, y int, actions ...tview.MouseAction) {
	for _, a := range actions {
		h.do(func() {
			e := tcell.NewEventMouse(x, y, tcell.Button1, tcell.ModNone)
			h.d.root.MouseHandler()(a, e, func(p tview.Primitive) { h.d.app.SetFocus(p) })
			h.d.refresh()
		})
		h.idle()
	}
}

// damaged returns a folder with a snapshot that has one wrong byte, and the snapshot's name.
func damaged(t *testing.T) (dir, name string) {
	t.Helper()
	dir, name = t.TempDir(), "20261121T044120.454Z-probe-failure.bsr"
	data, err := os.ReadFile(filepath.Join(testSnapshots, name))
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/3] ^= 0xff
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, name
}
