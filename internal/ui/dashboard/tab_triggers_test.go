package dashboard

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gdamore/tcell/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/ui/tui/tuitest"
)

// A trigger is set to an entered value, and turned off and on again. Each takes effect at once.
func TestSetTrigger(t *testing.T) {
	h := start(t, "mm1k", 20, 120, 40, 256)
	h.keys("2t")
	h.shows("outcome worker_1", "← 1 of 3 →", "○ failure", "× qta")
	h.selectRow("trigger failure")
	h.key(tcell.KeyEnter)
	h.keys("0.25")
	h.key(tcell.KeyEnter)
	want := []config.Trigger{{Kind: "failure", Setting: "0.25"}}
	if diff := cmp.Diff(want, h.last(0).Entry("worker_1").Triggers); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	h.shows("● failure    0.25", "failure of worker_1 is 0.25: w saves it")

	h.keys(" ")
	if ts := h.last(1).Entry("worker_1").Triggers; len(ts) != 0 {
		t.Errorf("turned off, but there is %v", ts)
	}
	h.shows("○ failure", "failure of worker_1 is off")
	h.keys(" ")
	if diff := cmp.Diff(want, h.last(2).Entry("worker_1").Triggers); diff != "" {
		t.Errorf("turned on again, -want +got:\n%s", diff)
	}
}

// A trigger without a limit is turned on directly. A trigger with a limit asks for it.
func TestTurnTrigger(t *testing.T) {
	h := start(t, "mm1k", 20, 120, 40, 256)
	h.keys("2t")
	h.selectRow("trigger loss")
	h.keys(" ")
	if setting, _ := h.last(0).Entry("worker_1").Trigger("loss"); setting != "true" {
		t.Errorf("loss is %q", setting)
	}
	for _, kind := range []string{"load", "failure", "condition"} {
		h.selectRow("trigger " + kind)
		h.keys(" ")
		h.shows(kind + " of worker_1 (Enter, or Esc)")
		h.key(tcell.KeyEscape)
	}
	h.last(0)
}

// Each outcome has its own triggers. An outcome can be found by a part of its name.
func TestTriggersOfOutcome(t *testing.T) {
	h := start(t, "mm1k", 20, 120, 40, 256)
	h.keys("2t")
	h.key(tcell.KeyLeft)
	h.shows("outcome probe", "← 3 of 3 →", "▶ failure    0.1", "● loss       true", "▶ qta")
	h.key(tcell.KeyRight, tcell.KeyRight)
	h.shows("outcome worker_2", "← 2 of 3 →")
	h.key(tcell.KeyEnter)
	h.keys("nonsense")
	h.key(tcell.KeyEnter)
	h.shows(`no outcome has "nonsense" in its name`)
	for range "nonsense" {
		h.key(tcell.KeyBackspace2)
	}
	h.keys("er_1")
	h.key(tcell.KeyEnter)
	h.shows("outcome worker_1")
}

// The field reports invalid settings and keeps the input. Nothing is applied.
func TestBadTriggers(t *testing.T) {
	for _, test := range []struct{ kind, setting, want string }{
		{"failure", "a lot", "write the share of instances that may fail or time out"},
		{"failure", "1", "write the share of instances"},
		{"load", "-3", "write how many instances a window may have"},
		{"load", "", "write how many instances a window may have"},
		{"loss", "0", "write true, or how many may be lost"},
		{"condition", "p99 >", "write a condition such as p99"},
		{"condition", "1 < 2", "it uses no figure of the window"},
		{"condition", "slack < 0", "nothing is required of worker_1"},
		{"condition", "divergence > 0", "worker_1 is not calculated"},
	} {
		h := start(t, "mm1k", 20, 120, 40, 256)
		h.keys("2t")
		h.selectRow("trigger " + test.kind)
		h.key(tcell.KeyEnter)
		h.keys(test.setting)
		h.key(tcell.KeyEnter)
		text := strings.Join(strings.Fields(strings.ReplaceAll(h.text(), "║", " ")), " ")
		for _, want := range strings.Fields(test.want) {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q: %q is not shown:\n%s", test.kind, test.setting, test.want, h.text())
			}
		}
		h.shows("║" + test.setting)
		if len(h.control.applied) > 0 {
			t.Errorf("%s: %q was applied", test.kind, test.setting)
		}
	}
}

// The tab explains why a trigger makes no sense for an outcome.
func TestImpossibleTriggers(t *testing.T) {
	h := start(t, "mm1k", 20, 120, 40, 256)
	h.keys("2t")
	for kind, why := range map[string]string{
		"qta":        "nothing is required of worker_1",
		"hazard":     "nothing is required of worker_1",
		"divergence": "worker_1 is not calculated",
	} {
		for _, key := range []tcell.Key{tcell.KeyEnter, tcell.KeyRune} {
			h.selectRow("trigger " + kind)
			h.do(func() { h.d.say(plain, "") })
			if key == tcell.KeyRune {
				h.keys(" ")
			} else {
				h.key(key)
			}
			h.shows(why)
			h.hides("(Enter, or Esc)")
		}
	}
	if len(h.control.applied) > 0 {
		t.Error("a configuration was applied")
	}
}

// The field reports what the session refuses, and keeps the input.
func TestRefusedTrigger(t *testing.T) {
	h := start(t, "mm1k", 20, 120, 40, 256)
	h.control.refuse = errors.New("snapshots: the folder is read-only")
	h.keys("2t")
	h.selectRow("trigger load")
	h.key(tcell.KeyEnter)
	h.keys("500")
	h.key(tcell.KeyEnter)
	h.shows("snapshots: the folder is read-only", "║500")
	h.control.mu.Lock()
	h.control.refuse = nil
	h.control.mu.Unlock()
	h.key(tcell.KeyEnter)
	if setting, _ := h.last(0).Entry("worker_1").Trigger("load"); setting != "500" {
		t.Errorf("load is %q", setting)
	}
	h.hides("(Enter, or Esc)")
}

// One list contains the firings of this session and those on disk, the newest first. Firings that
// still go on are marked.
func TestFired(t *testing.T) {
	for _, size := range [][2]int{{80, 40}, {120, 40}} {
		h := start(t, "mm1k", 39, size[0], size[1], 256, withSnapshots(testSnapshots))
		h.keys("2t")
		h.until("15+1+5")
		var got []string
		for line := range strings.Lines(h.text()) {
			for _, at := range []string{"06:05:18", "06:04:58", "04:41:20", "04:41:06"} {
				if _, rest, ok := strings.Cut(line, "║"+at); ok {
					fields := strings.Fields(strings.Trim(rest, " ║\n"))
					got = append(got, at+" "+strings.Join(fields[:min(len(fields), 4)], " "))
				}
			}
		}
		short := got
		for i := range short {
			short[i] = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(short[i], " 58.3"), " 16.6"), " the")
		}
		want := []string{
			"06:05:18 probe failure ▶ going",
			"06:05:18 probe qta ▶ going",
			"06:04:58 probe failure no file",
			"06:04:58 probe qta no file",
			"04:41:20 probe failure 15+1+5",
			"04:41:06 probe failure +1 1+1+5",
		}
		if diff := cmp.Diff(want, short); diff != "" {
			t.Errorf("%v: -want +got:\n%s", size, diff)
		}
	}
}

// An incident without a snapshot opens its window.
func TestFiredWithoutSnapshot(t *testing.T) {
	h := start(t, "mm1k", 39, 120, 40, 256)
	h.keys("2t")
	h.mouse("06:04:58 probe        qta", tview.MouseLeftClick)
	h.shows("No snapshot. Enter shows the window.", "the observed ΔQ", "64 % succeed")
	h.key(tcell.KeyEnter)
	h.shows("mm1k window 14 of 0…39")
}

// A new snapshot appears in the list.
func TestNewSnapshot(t *testing.T) {
	dir := t.TempDir()
	h := start(t, "mm1k", 10, 120, 40, 256, withSnapshots(dir))
	h.keys("2t")
	h.hides("04:41:06")
	name := "20261121T044106.454Z-probe-failure.bsr"
	data, err := os.ReadFile(filepath.Join(testSnapshots, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
	h.until("1+1+5")
}

// Without outcomes there are no triggers to set.
func TestNoOutcomes(t *testing.T) {
	h := &harness{t: t, screen: tcell.NewSimulationScreen("UTF-8"), control: &control{config: config.Default()}}
	h.d = New(Options{Title: "live", Screen: tuitest.Colored{SimulationScreen: h.screen, Count: 256}})
	h.run(80, 24)
	h.keys("2t")
	h.shows("No outcomes yet", "Nothing has fired.")
	h.keys(" ")
	h.key(tcell.KeyLeft, tcell.KeyRight, tcell.KeyEnter, tcell.KeyDown)
	h.keys("p")
	h.shows("There is none: a adds one.")
	h.keys("ad[]v")
	h.keys("c")
	h.shows("No window yet.")
}
