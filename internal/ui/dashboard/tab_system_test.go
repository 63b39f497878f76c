package dashboard

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gdamore/tcell/v2"

	"github.com/beamscope/beamscope/internal/files/config"
)

const mm1kDiagram = "probe = worker_1 -> worker_2;\n"

// see fails unless all texts are on the screen.
func (h *harness) see(texts ...string) {
	h.t.Helper()
	screen := h.text()
	for _, text := range texts {
		if !strings.Contains(screen, text) {
			h.t.Errorf("no %q in\n%s", text, screen)
		}
	}
}

// notSee fails if a text is on the screen.
func (h *harness) notSee(text string) {
	h.t.Helper()
	if screen := h.text(); strings.Contains(screen, text) {
		h.t.Errorf("%q in\n%s", text, screen)
	}
}

// applied fails unless the control was applied this number of times, and returns the last
// configuration.
func (h *harness) applied(times int) config.Config {
	h.t.Helper()
	if len(h.control.applied) != times {
		h.t.Fatalf("applied %d times, want %d\n%s", len(h.control.applied), times, h.text())
	}
	return h.control.config
}

// write replaces the text in the editor of the tab system.
func (h *harness) write(text string) {
	h.key(tcell.KeyEnter, tcell.KeyCtrlL)
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			h.key(tcell.KeyEnter)
		}
		h.keys(line)
	}
	if text == "" {
		h.key(tcell.KeyDelete)
	}
}

func TestDiagramWrong(t *testing.T) {
	h := start(t, "mm1k", 20, 80, 24, 256)
	h.keys("s")
	h.see("1│ probe = worker_1 -> worker_2;", "probe = -->(worker_1)-->(worker_2)--", "✓ probe  slack 4.50ms, 5.00%")
	h.write("a = b -> c;\nx = b c;\ny = p:k[0.9](b, c);")
	h.see("edited, not applied", "2✗ x = b c;", "3✗ y = p:k", "✗ 3:8 p:k: want 2 probabilities", "(error 2 of")
	h.key(tcell.KeyCtrlN)
	h.see(`✗ 2:7 unexpected "c"`, "error 1 of 2")
	h.at(2, 7)
	h.key(tcell.KeyCtrlN)
	h.at(3, 8)
	h.key(tcell.KeyCtrlS)
	h.see("not applied: the diagram is wrong")
	h.at(2, 7)
	h.applied(0)
	h.see("probe = -->(worker_1)-->(worker_2)--") // stays
}

// at fails unless the cursor is at a place of the diagram.
func (h *harness) at(line, column int) {
	h.t.Helper()
	h.do(func() {
		if at := h.system().editor.cursor(); at.Line != line || at.Column != column {
			h.t.Errorf("the cursor is at %v, want %d:%d", at, line, column)
		}
	})
}

func (h *harness) system() *systemTab { return h.d.tabs[0].(*systemTab) }

// Errors are underlined at their place, after tabs and when scrolled too.
func TestDiagramUnderline(t *testing.T) {
	h := start(t, "mm1k", 20, 80, 24, 0)
	h.keys("s")
	h.write("x = b ")
	h.do(func() {
		e := h.system().editor
		e.Replace(0, e.GetTextLength(), "x =\tb cc;")
	})
	h.do(func() {})
	var got string
	h.do(func() {
		_, y, _, _ := h.system().editor.GetInnerRect()
		for x := range 80 {
			if text, style, _ := h.screen.Get(x, y); style.GetUnderlineStyle() != tcell.UnderlineStyleNone {
				got += text
			}
		}
	})
	if got != "cc" {
		t.Errorf("%q is underlined, want cc\n%s", got, h.text())
	}
}

func TestDiagramApplied(t *testing.T) {
	h := start(t, "mm1k", 20, 80, 24, 256)
	h.keys("s")
	h.write("probe = worker_1 -> a:both(worker_2, db);")
	h.see("✓ no error", "by default, as they have no entry: both, db")
	h.key(tcell.KeyCtrlS)
	if c := h.applied(1); c.Diagram != "probe = worker_1 -> a:both(worker_2, db);" {
		t.Errorf("applied %q", c.Diagram)
	}
	h.see("the diagram holds from the next window on", "This is in force")
	h.notSee("not applied")

	h.control.mu.Lock() // a trigger on calculated figures needs the diagram
	h.control.config = h.control.config.Clone()
	h.control.config.Outcomes[2].Triggers = nil
	h.control.mu.Unlock()
	h.key(tcell.KeyEscape)
	h.write("")
	h.see("Ctrl-S takes the diagram away")
	h.key(tcell.KeyCtrlS)
	if c := h.applied(2); c.Diagram != "" {
		t.Errorf("applied %q", c.Diagram)
	}
	h.see("There is no diagram")
}

func TestDiagramRefused(t *testing.T) {
	h := start(t, "mm1k", 20, 80, 24, 256)
	h.control.refuse = errors.New("the VM is gone")
	h.keys("s")
	h.write("probe = worker_2 -> worker_1;")
	h.key(tcell.KeyCtrlS)
	h.applied(0)
	h.see("✗ refused: the VM is gone", "edited, not applied", "probe = worker_2 -> worker_1;")
	h.do(h.d.refresh)
	h.see("✗ refused: the VM is gone")
	h.keys(" ")
	h.notSee("refused")
	h.control.refuse = nil
	h.key(tcell.KeyCtrlS)
	h.applied(1)
}

// The tab reports what the configuration does not allow before it applies anything.
func TestDiagramNotAllowed(t *testing.T) {
	h := start(t, "mm1k", 20, 80, 24, 256)
	h.keys("s")
	h.write("whole = worker_1 -> worker_2;")
	h.see("✗ outcomes.probe.triggers.divergence")
	h.key(tcell.KeyCtrlS)
	h.applied(0)
}

// The text and the cursor survive refreshes, closing the tab, and other work.
func TestDiagramKept(t *testing.T) {
	h := start(t, "mm1k", 20, 120, 40, 256)
	h.keys("s")
	h.write("probe = worker_1 -> w")
	h.key(tcell.KeyLeft, tcell.KeyLeft)
	h.at(1, 20)
	h.do(h.d.refresh)
	h.resize(80, 24)
	h.at(1, 20)
	h.key(tcell.KeyEscape, tcell.KeyEscape)
	h.notSee("system ·")
	h.keys("s")
	h.see("edited, not applied", "probe = worker_1 -> w")

	h.control.mu.Lock()
	h.control.config.Diagram = "probe = worker_1 -> worker_2 -> worker_1;"
	h.control.mu.Unlock()
	h.do(h.d.refresh)
	h.see("The diagram in force was changed meanwhile", "probe = worker_1 -> w")
	h.key(tcell.KeyEnter, tcell.KeyEnd)
	h.keys("orker_2;")
	h.see("The diagram in force was changed meanwhile")
	h.key(tcell.KeyCtrlS)
	h.applied(0)
	h.see("Replace it?")
	h.keys("n")
	h.applied(0)
	h.key(tcell.KeyCtrlR)
	h.see("-> worker_2 -> worker_1;")
	h.notSee("not applied")
	h.key(tcell.KeyCtrlZ)
	h.see("edited, not applied", "probe = worker_1 -> worker_2;")
	h.key(tcell.KeyCtrlZ, tcell.KeyCtrlY)
}

// An editor without edits shows the diagram in force.
func TestDiagramFollows(t *testing.T) {
	h := start(t, "mm1k", 20, 80, 24, 256)
	h.keys("s")
	h.control.mu.Lock()
	h.control.config.Diagram = "probe = worker_2;"
	h.control.mu.Unlock()
	h.do(h.d.refresh)
	h.see("1│ probe = worker_2;")
	h.notSee("not applied")
}

func TestDiagramFiles(t *testing.T) {
	h := start(t, "mm1k", 20, 80, 24, 256)
	dir := t.TempDir()
	h.d.opts.Path = filepath.Join(dir, "scope.yaml")
	path := filepath.Join(dir, "system.dq")
	h.keys("s")
	h.keys("W")
	h.key(tcell.KeyEnter)
	if got, err := os.ReadFile(path); err != nil || string(got) != mm1kDiagram {
		t.Errorf("saved %q, error %v\n%s", got, err, h.text())
	}
	h.write("probe = worker_2 -> worker_1;")
	h.key(tcell.KeyEscape)
	h.keys("W")
	h.key(tcell.KeyEnter)
	h.see("system.dq is there already. Replace it?")
	h.keys("n")
	if got, _ := os.ReadFile(path); string(got) != mm1kDiagram {
		t.Errorf("%q was written without confirmation", got)
	}
	h.key(tcell.KeyEscape)
	h.keys("l")
	h.key(tcell.KeyEnter)
	h.see("1│ probe = worker_1 -> worker_2;", "system.dq is in the editor")
	h.notSee("not applied") // the file has the diagram in force
	h.key(tcell.KeyCtrlZ)
	h.see("1│ probe = worker_2 -> worker_1;")
	h.key(tcell.KeyEscape)
	h.keys("W")
	h.key(tcell.KeyEnter)
	h.keys("y")
	if got, _ := os.ReadFile(path); string(got) != "probe = worker_2 -> worker_1;" {
		t.Errorf("%q, want what was edited", got)
	}
	h.applied(0)
}

// Errors of reading and saving name the file and the reason.
func TestDiagramFileErrors(t *testing.T) {
	h := start(t, "mm1k", 20, 120, 24, 256)
	t.Chdir(t.TempDir()) // a path of varying length would break lines unpredictably
	h.d.opts.Path = "scope.yaml"
	h.keys("sl")
	h.key(tcell.KeyEnter)
	h.see("load diagram", "system.dq: cannot be read: no such file or directory")
	h.key(tcell.KeyEscape)
	h.write("x = ;")
	h.key(tcell.KeyEscape)
	h.keys("W")
	h.key(tcell.KeyEnter)
	h.see("not saved: ", "system.dq:1:5: ")
	if _, err := os.Stat("system.dq"); err == nil {
		t.Error("a wrong diagram was saved")
	}
	h.key(tcell.KeyEscape)
	if err := os.WriteFile("system.dq", []byte("a = b\nc"), 0o644); err != nil {
		t.Fatal(err)
	}
	h.keys("l")
	h.key(tcell.KeyEnter)
	h.see("2✗ c", "✗ 2:1 ", "Ctrl-N goes to what is wrong")
}

// A diagram in a separate file stays there, and is saved with the scope file.
func TestDiagramInFile(t *testing.T) {
	h := start(t, "mm1k", 20, 80, 24, 256)
	dir := t.TempDir()
	path := filepath.Join(dir, "mine.dq")
	if err := os.WriteFile(path, []byte(mm1kDiagram), 0o644); err != nil {
		t.Fatal(err)
	}
	h.control.config.Dir, h.control.config.DiagramFile = dir, "mine.dq"
	h.d.opts.Path = filepath.Join(dir, "scope.yaml")
	h.keys("s")
	h.write("probe = worker_2 -> worker_1;")
	h.key(tcell.KeyCtrlS)
	if c := h.applied(1); c.DiagramFile != "mine.dq" {
		t.Errorf("the diagram's file is %q", c.DiagramFile)
	}
	h.key(tcell.KeyEscape)
	h.keys("w")
	h.key(tcell.KeyEnter)
	h.see("mine.dq is there already. Replace it?")
	h.keys("y")
	c, err := config.Load(h.d.opts.Path)
	if err != nil || c.Diagram != "probe = worker_2 -> worker_1;" || c.DiagramFile != "mine.dq" {
		t.Errorf("loaded %q from %q, error %v", c.Diagram, c.DiagramFile, err)
	}
}

// The drawing shows the standing of its parts without colours too.
func TestDrawingTones(t *testing.T) {
	h := start(t, "mm1k", 17, 80, 24, 0)
	h.keys("s")
	var bold string
	h.do(func() {
		_, y, _, _ := h.system().drawing.GetRect()
		for x := 1; x < 79; x++ {
			text, style, _ := h.screen.Get(x, y)
			if _, _, attributes := style.Decompose(); attributes&(tcell.AttrBold|tcell.AttrReverse) != 0 {
				bold += text
			}
		}
	})
	if bold != "probe" {
		t.Errorf("%q stands out, want probe\n%s", bold, h.text())
	}
}

func TestDrawingScrolls(t *testing.T) {
	h := start(t, "mm1k", 20, 34, 14, 0)
	h.keys("sv")
	h.see("── ↑↓←→ ", "probe = -->(worker_1)")
	h.key(tcell.KeyRight, tcell.KeyRight)
	h.see("-->(worker_1)-->(worker_2)--")
	h.key(tcell.KeyLeft, tcell.KeyLeft, tcell.KeyLeft)
	h.see("probe = -->(worker_1)")
}

func TestLanguage(t *testing.T) {
	h := start(t, "mm1k", 20, 80, 24, 256)
	h.keys("sy")
	h.see("p:name[0.9, 0.1](x, y);", "system, where there is one")
}
