package dashboard

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/config"
)

// A line that is asked for is answered with another one.
func (h *harness) answer(text string) {
	h.t.Helper()
	h.key(tcell.KeyCtrlU)
	h.keys(text)
	h.key(tcell.KeyEnter)
}

// What is in force is saved; what is there already is replaced if one says so.
func TestSave(t *testing.T) {
	path := filepath.Join(t.TempDir(), "saved.yaml")
	h := start(t, "mm1k", 20, 120, 40, 256)
	h.keys("w")
	h.shows("save as", "scope.yaml")
	h.answer(path)
	h.shows("saved: beamscope run -c " + path)
	if c, err := config.Load(path); err != nil || len(c.Outcomes) != 3 || c.Diagram == "" {
		t.Errorf("%+v, error %v", c, err)
	}
	const other = "something else"
	if err := os.WriteFile(path, []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	h.keys("w")
	h.shows(path) // it is where to save from now on
	h.key(tcell.KeyEnter)
	h.shows("is there already", "y yes   n no")
	h.keys("n")
	h.shows("save as", "saved.yaml is there already: it stays as it is")
	h.key(tcell.KeyEscape)
	if text, err := os.ReadFile(path); string(text) != other {
		t.Errorf("%q, error %v: replaced, and it was not to be", text, err)
	}
	h.keys("w")
	h.key(tcell.KeyEnter)
	h.keys("y")
	if _, err := config.Load(path); err != nil {
		t.Error(err)
	}
}

// Also where there is little room, one sees how to answer.
func TestConfirmOnNarrowScreen(t *testing.T) {
	h := start(t, "mm1k", 20, 40, 20, 256)
	h.do(func() {
		h.d.confirm("system.dq is there already. Replace it? The scope file refers to it, and the diagram in force is another.", func() {})
	})
	h.shows("Replace it?", "another.", "y yes   n no")
}

// Of marked probes those alone are saved, without a diagram that has others.
func TestSaveMarked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "marked.yaml")
	h := start(t, "mm1k", 20, 120, 40, 256)
	h.keys("o")
	h.key(tcell.KeyHome)
	h.keys(" w")
	h.shows("save 1 marked, without the diagram, as")
	h.answer(path)
	c, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Outcomes) != 1 || c.Outcomes[0].Name != "worker_1" || c.Diagram != "" {
		t.Errorf("%d outcomes, the diagram %q:\n%s", len(c.Outcomes), c.Diagram, c.Format())
	}
	h.key(tcell.KeyDown) // and the others
	h.keys(" ")
	h.key(tcell.KeyDown)
	h.keys(" w")
	h.shows("save 3 marked as")
	h.answer(path)
	h.keys("y")
	if c, err = config.Load(path); err != nil || len(c.Outcomes) != 3 || c.Diagram == "" {
		t.Errorf("%+v, error %v", c, err)
	}
}

// A probe of the diagram that is observed as by default can be saved as well; one that
// is gone cannot.
func TestOnly(t *testing.T) {
	c := config.Default()
	c.Diagram = "p = q -> r;"
	if !only(&c, map[string]bool{"q": true, "gone": true}) || len(c.Outcomes) != 1 || c.Outcomes[0].Name != "q" || c.Diagram != "" {
		t.Errorf("%+v", c)
	}
}

// A plot is written to a file, which is replaced if one says so.
func TestExport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plot.csv")
	h := start(t, "mm1k", 20, 120, 40, 256)
	h.keys("x")
	h.shows("export as", "probe-2")
	h.answer(path)
	h.shows("written: " + path)
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		t.Errorf("%v, error %v", info, err)
	}
	h.keys("x")
	h.answer(path)
	h.shows("is there already")
	h.keys("n")
	h.answer(path + ".doc") // what was asked for is asked for still
	h.shows("export as", path+".doc", "unknown format")
	h.keys("2") // goes on with what was typed, and nowhere else
	h.shows(path + ".doc2")
	h.answer(filepath.Join(filepath.Dir(path), "none", "plot.csv"))
	h.shows("export as", "none does not exist")
	h.hides(".plot.csv")
	h.answer(path)
	h.keys("y")
	h.hides("export as")
	h.shows("written: " + path)
}

// The hints are those of what is in front.
func TestHintsOfDialogs(t *testing.T) {
	h := start(t, "mm1k", 20, 120, 40, 256)
	for _, test := range []struct{ keys, want string }{
		{"x", "Enter answers  Esc leaves it"},
		{"?", "Esc closes  ↑↓ scroll"},
		{"pa", "Space ticks  Enter done  Esc as it was"},
	} {
		h.keys(test.keys)
		lines := strings.Split(strings.TrimSpace(h.text()), "\n")
		if last := lines[len(lines)-1]; last != test.want {
			t.Errorf("%s: %q, want %q", test.keys, last, test.want)
		}
		h.key(tcell.KeyEscape)
	}
	h.do(func() { h.d.confirm("so?", func() {}) })
	h.shows("y yes  n no")
}

// running is a dashboard of something that runs.
func running(o *Options) { o.Fixed = false }

// Changes that are not saved are asked about before one leaves; where there are none, or
// they are saved, or it was but a try, one leaves at once.
func TestLeave(t *testing.T) {
	const question = "Triggers or other changes are not saved"
	change := func(h *harness) {
		h.keys("p+")
		h.keys("p")
	}
	h := start(t, "mm1k", 20, 120, 40, 256, running)
	change(h)
	h.keys("q")
	h.shows(question, "y yes   n no   w save")
	h.keys("w")
	h.answer(filepath.Join(t.TempDir(), "a.yaml"))
	h.do(func() {
		if what := h.d.loses(); what != "" {
			t.Errorf("%s, though it was saved", what)
		}
	})
	h.keys("s")
	h.write("probe = worker_2;")
	h.key(tcell.KeyEscape)
	h.keys("q")
	h.shows("What was edited in the tab system is not applied", "y yes")
	h.keys("n")
	h.hides("y yes")
	for name, option := range map[string]func(*Options){
		"a snapshot":      func(o *Options) { o.Fixed = true },
		"a demonstration": func(o *Options) { o.Fixed = false; o.Knobs = []Knob{{Key: 'b', Label: "overload"}} },
	} {
		h := start(t, "mm1k", 20, 120, 40, 256, option)
		change(h)
		h.do(func() {
			if what := h.d.loses(); what != "" {
				t.Errorf("%s: %s", name, what)
			}
		})
	}
}

// What is written to a pipe goes to its reader.
func TestExportToPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe.csv")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	h := start(t, "mm1k", 20, 120, 40, 256)
	h.keys("x")
	h.key(tcell.KeyCtrlU)
	h.keys(path)
	h.do(func() {
		h.d.root.InputHandler()(tcell.NewEventKey(tcell.KeyEnter, 0, tcell.ModNone), func(p tview.Primitive) { h.d.app.SetFocus(p) })
	})
	first := make([]byte, 4)
	if _, err := io.ReadFull(reader, first); err != nil || string(first) != "time" {
		t.Errorf("%q, error %v", first, err)
	}
	go io.Copy(io.Discard, reader) // until it is closed
	h.idle()
	h.shows("written: " + path)
}

// Long lists of names make a name that a file can have.
func TestFileName(t *testing.T) {
	if got, want := fileName([]string{"a", "b"}), "a-b"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	long := slices.Repeat([]string{"checkout_of_everything"}, 100)
	if n := len(fileName(long)); n > 200 {
		t.Errorf("%d bytes", n)
	}
}

// Knobs turn one after the other, and say what they have done.
func TestKnobs(t *testing.T) {
	turned, broken := make(chan struct{}), errors.New("it is stuck")
	h := start(t, "mm1k", 20, 120, 40, 256, func(o *Options) {
		o.Knobs = []Knob{
			{'b', "overload", func(ctx context.Context) (string, error) {
				select {
				case <-turned:
				case <-ctx.Done():
				}
				return "faster now", nil
			}},
			{'n', "break", func(context.Context) (string, error) { return "", broken }},
		}
	})
	h.do(func() { h.d.press(tcell.NewEventKey(tcell.KeyRune, 'b', tcell.ModNone)) })
	h.shows("overload …")
	h.do(func() { h.d.press(tcell.NewEventKey(tcell.KeyRune, 'n', tcell.ModNone)) })
	h.shows("overload …", "overload is not finished: press the key again")
	close(turned)
	h.idle()
	h.shows("faster now")
	h.keys("n")
	h.shows(broken.Error())
}
