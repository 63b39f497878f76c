package dashboard

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"
)

// second is the test snapshot with preceding windows.
const second = "20261121T044120.454Z-probe-failure.bsr"

// open opens a snapshot from the tab of triggers.
func (h *harness) open(dir, name string) {
	h.t.Helper()
	h.keys("t")
	h.awaitRow(filepath.Join(dir, name))
	h.key(tcell.KeyEnter)
}

// A snapshot begins with the window that fired, and extends to both sides as far as it was kept.
// Its prelude is not shown. Leaving it shows the live view again.
func TestOpenSnapshot(t *testing.T) {
	h := start(t, "mm1k", 20, 120, 40, 256, withSnapshots(testSnapshots))
	h.open(testSnapshots, second)
	h.shows("❚❚ snapshot 04:41:20 failure of probe │ fired │ 04:41:20.4",
		"▶ failure of probe of pid 1801", "58.3 % failed", "worst instances, fired")
	for _, step := range []struct{ keys, want string }{
		{",", "1 before │ 04:41:19.4"},
		{"..", "1 after │ 04:41:21.4"},
		{">", "5 after │ 04:41:25.4"},
		{"<", "5 before │ 04:41:15.4"},
		{"<", "15 before │ 04:41:05.4"},
		{",", "15 before │ 04:41:05.4"},
		{"f", "15 before │ 04:41:05.4"},
	} {
		h.keys(step.keys)
		h.shows(step.want)
	}
	h.key(tcell.KeyEscape)
	h.shows("15 before")
	h.key(tcell.KeyEscape)
	h.shows("❚❚ mm1k window 20 of 0…39", "back to what is mm1k")
}

// The worst instances of the shown window are the same as in the output of beamscope snapshots
// show.
func TestWorstInstances(t *testing.T) {
	h := start(t, "mm1k", 20, 80, 40, 256, withSnapshots(testSnapshots))
	h.open(testSnapshots, second)
	h.shows("how it ended       after        start     id parent process",
		"timeout             50ms 04:41:19.448 142723      0 <0.85.0>",
		"failure dropped 38.531ms 04:41:19.460 142899      0 <0.85.0>",
		"failure dropped 14.214ms 04:41:20.390 187523      0 <0.85.0>")
	h.mouse("38.531ms", tview.MouseLeftClick)
	h.shows("probe: failure dropped after 38.531ms", "started 04:41:19.460 by <0.85.0>", "span 142899")
}

// A double click opens a snapshot too.
func TestDoubleClick(t *testing.T) {
	h := start(t, "mm1k", 20, 120, 40, 256, withSnapshots(testSnapshots))
	h.keys("t")
	h.until("04:41:06")
	h.mouse("04:41:06", tview.MouseLeftDown, tview.MouseLeftClick, tview.MouseLeftDoubleClick)
	h.shows("snapshot 04:41:06 failure of probe │ fired", "▶ qta of probe")
	h.mouse("worst instances", tview.MouseLeftDown, tview.MouseLeftClick, tview.MouseLeftDoubleClick) // a heading cannot be opened
}

// A snapshot cannot be changed, and has no effect on the live view.
func TestSnapshotIsFixed(t *testing.T) {
	h := start(t, "mm1k", 20, 120, 40, 256, withSnapshots(testSnapshots))
	h.open(testSnapshots, second)
	h.keys("p+")
	h.shows("this is a snapshot: Esc goes back to what is live")
	h.keys("w")
	h.shows("this is a snapshot")
	if len(h.control.applied) > 0 {
		t.Error("a configuration was applied")
	}
}

// The list reports a damaged snapshot. Opening one never shows unknown values, even if part of it
// can be read.
func TestDamagedSnapshot(t *testing.T) {
	dir, name := damaged(t)
	h := start(t, "mm1k", 20, 120, 40, 256, withSnapshots(dir))
	h.open(dir, name)
	h.shows("damaged", "❚❚ mm1k window 20", name+": ")
}

// A snapshot without its end is shown up to there, with the error.
func TestTornSnapshot(t *testing.T) {
	dir := copied(t)
	path := filepath.Join(dir, second)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, info.Size()-700); err != nil {
		t.Fatal(err)
	}
	h := start(t, "mm1k", 20, 120, 40, 256, withSnapshots(dir))
	h.open(dir, second)
	h.shows("snapshot 04:41:20 failure of probe │ fired", "incomplete")
}

// A snapshot may be gone or invalid when it is opened.
func TestNoSnapshot(t *testing.T) {
	dir := copied(t)
	h := start(t, "mm1k", 20, 120, 40, 256, withSnapshots(dir))
	h.keys("t")
	h.until("04:41:20")
	path := filepath.Join(dir, second)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	h.selectRow(path)
	h.key(tcell.KeyEnter)
	h.shows(second+" is not there any more", "❚❚ mm1k window 20")

	data, err := os.ReadFile("../../../cmd/beamscope/mm1k.bsr")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	h.key(tcell.KeyEnter)
	h.shows(second + ": a recording that is not a snapshot")
	if err := os.WriteFile(path, []byte("no recording"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.key(tcell.KeyEnter)
	h.shows(second + ": not a recording")
	if strings.Count(h.text(), dir) > 0 {
		t.Errorf("a message has the whole path:\n%s", h.text())
	}
}
