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
	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/internal/engine/seen"
	"github.com/beamscope/beamscope/internal/files/config"
)

// answer replaces the text of an input line and presses Enter.
func (h *harness) answer(text string) {
	h.t.Helper()
	h.key(tcell.KeyCtrlU)
	h.keys(text)
	h.key(tcell.KeyEnter)
}

// Saving writes the configuration in force. It replaces an existing file only if the user agrees.
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
	h.shows(path) // the path for further saving
	h.key(tcell.KeyEnter)
	h.shows("is there already", "y yes   n no")
	h.keys("n")
	h.shows("save as", "saved.yaml is there already: it stays as it is")
	h.key(tcell.KeyEscape)
	if text, err := os.ReadFile(path); string(text) != other {
		t.Errorf("%q, error %v: replaced without the user's agreement", text, err)
	}
	h.keys("w")
	h.key(tcell.KeyEnter)
	h.keys("y")
	if _, err := config.Load(path); err != nil {
		t.Error(err)
	}
}

// The question shows the possible answers on a narrow screen too.
func TestConfirmOnNarrowScreen(t *testing.T) {
	h := start(t, "mm1k", 20, 40, 20, 256)
	h.do(func() {
		h.d.confirm("system.dq is there already. Replace it? The scope file refers to it, and the diagram in force is another.", func() {})
	})
	h.shows("Replace it?", "another.", "y yes   n no")
}

// seeing is the control of a session that knows how the events of outcomes are seen.
type seeing struct{ *control }

func (seeing) Seen() map[string]seen.Sight {
	return map[string]seen.Sight{"worker_1": seen.By(seen.Ring), "probe": seen.Not("no eBPF")}
}

// A saved scope file says how the events of each outcome are seen.
func TestSaveSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "saved.yaml")
	h := start(t, "mm1k", 20, 120, 40, 256)
	h.do(func() { h.d.control = seeing{h.control} })
	h.keys("w")
	h.answer(path)
	h.shows("saved: beamscope run -c " + path)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"worker_1:\n    # seen: ring\n", "probe:\n    # seen: not at all: no eBPF\n", "worker_2:\n    span: worker_2\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
}

// If outcomes are marked, only those are saved, without a diagram that has others.
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

// An outcome of the diagram with default settings can be saved as well. An outcome that no longer
// exists cannot.
func TestOnly(t *testing.T) {
	c := config.Default()
	c.Diagram = "p = q -> r;"
	if !only(&c, map[string]bool{"q": true, "gone": true}) || len(c.Outcomes) != 1 || c.Outcomes[0].Name != "q" || c.Diagram != "" {
		t.Errorf("%+v", c)
	}
}

// A plot is written to a file. An existing file is replaced only if the user agrees.
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
	h.answer(path + ".doc") // the question stays open
	h.shows("export as", path+".doc", "unknown format")
	h.keys("2") // goes into the input line, and nowhere else
	h.shows(path + ".doc2")
	h.answer(filepath.Join(filepath.Dir(path), "none", "plot.csv"))
	h.shows("export as", "none does not exist")
	h.hides(".plot.csv")
	h.answer(path)
	h.keys("y")
	h.hides("export as")
	h.shows("written: " + path)
}

// A scope file is saved to no device and no pipe: one error refuses it, and no question is asked.
func TestSaveToNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe, device := filepath.Join(dir, "pipe.csv"), filepath.Join(dir, "null.csv")
	if err := errors.Join(unix.Mkfifo(pipe, 0o600), os.Symlink("/dev/null", device)); err != nil {
		t.Fatal(err)
	}
	h := start(t, "mm1k", 20, 120, 40, 256)
	for _, path := range []string{pipe, device, "/dev/null"} {
		h.keys("w")
		h.answer(path)
		h.shows("is not a regular file: name another one")
		h.hides("is there already")
		h.hides("saved: ")
		h.key(tcell.KeyEscape)
	}
}

// The hints belong to whatever is in front.
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

// running changes options to those of a dashboard of something that runs.
func running(o *Options) { o.Fixed = false }

// The dashboard asks before it discards unsaved changes. It quits at once if there are no
// changes, if they are saved, or if they were only an experiment.
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
			t.Errorf("%s, although it was saved", what)
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

// A plot that is written to a pipe reaches the reader of the pipe.
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

// Long lists of outcome names give a valid file name.
func TestFileName(t *testing.T) {
	if got, want := fileName([]string{"a", "b"}), "a-b"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	long := slices.Repeat([]string{"checkout_of_everything"}, 100)
	if n := len(fileName(long)); n > 200 {
		t.Errorf("%d bytes", n)
	}
}

// Knobs turn one after the other, and report what they did.
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
