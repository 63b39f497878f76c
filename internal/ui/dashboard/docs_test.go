package dashboard

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/files/recording"
	"github.com/beamscope/beamscope/internal/files/snapshot"
	"github.com/beamscope/beamscope/internal/ui/tui/tuitest"
)

// The screens in documents equal those of the dashboard. A line
//
//	<!-- screen FILE WIDTHxHEIGHT [OPTION=VALUE]… [keys KEY…] -->
//
// comes right before a block between lines "```". FILE is a recording or a snapshot. It is next to
// the document, or among those that come with the program.
//
//	window=N       a recording is played up to this window; a snapshot is shown at the
//	               window that triggered it
//	scope=FILE     use another scope file
//	snapshots=DIR  the folder of the snapshots, for the tab triggers
//	overview=true  begin with the table of all outcomes
//
// A KEY has its name in the help, such as Enter, Esc or Ctrl-S; the exceptions are Left, Right, Up,
// Down and Space. Right*5 presses a key five times. Everything else is typed letter by letter.
//
// The table of all keys is between lines "<!-- keys -->" and "<!-- end -->".
func TestScreensInDocuments(t *testing.T) {
	for _, pattern := range []string{"../../../README.md", "../../../docs/*/*.md"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			t.Run(filepath.Base(path), func(t *testing.T) { checkScreens(t, path) })
		}
	}
}

func checkScreens(t *testing.T, path string) {
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := withScreens(t, filepath.Dir(path), string(source))
	if got == string(source) {
		return
	}
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("run go test ./internal/ui/dashboard -update to write what is shown now:\n%s", cmp.Diff(string(source), got))
}

var (
	screenInDocument = regexp.MustCompile("(?m)^<!-- screen (.*) -->\n```\n(?s:.*?)^```\n")
	keysInDocument   = regexp.MustCompile(`(?ms)^<!-- keys -->\n.*?^<!-- end -->\n`)
)

// withScreens returns a document with its screens drawn anew.
func withScreens(t *testing.T, dir, source string) string {
	n := 0
	source = screenInDocument.ReplaceAllStringFunc(source, func(old string) string {
		n++
		words := screenInDocument.FindStringSubmatch(old)[1]
		screen := old
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			screen = fmt.Sprintf("<!-- screen %s -->\n```\n%s```\n", words, screenOf(t, dir, strings.Fields(words)))
		})
		return screen
	})
	return keysInDocument.ReplaceAllStringFunc(source, func(string) string {
		return "<!-- keys -->\n" + keyTable(t) + "<!-- end -->\n"
	})
}

// A still is a screen in a document.
type still struct {
	file          string
	width, height int
	windows       int
	scope         string
	options       Options
	keys          []string
}

func parseStill(t *testing.T, dir string, words []string) still {
	t.Helper()
	if len(words) < 2 {
		t.Fatalf("a screen of %q: want a file and a size", words)
	}
	beside := func(name string) string { return filepath.Join(dir, name) }
	s := still{file: beside(words[0]), windows: 1 << 30}
	if _, err := os.Stat(s.file); err != nil {
		s.file = filepath.Join("../../../cmd/beamscope", words[0])
	}
	if _, err := fmt.Sscanf(words[1], "%dx%d", &s.width, &s.height); err != nil {
		t.Fatalf("the size %q: %v", words[1], err)
	}
	for i, word := range words[2:] {
		if word == "keys" {
			s.keys = words[2+i+1:]
			break
		}
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "window":
			n, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
			s.windows = n + 1
		case "scope":
			s.scope = beside(value)
		case "snapshots":
			s.options.Snapshots = beside(value)
		case "overview":
			s.options.Overview = value == "true"
		default:
			t.Fatalf("a screen with %q: no such option", word)
		}
	}
	return s
}

// screenOf returns what a screen shows.
func screenOf(t *testing.T, dir string, words []string) string {
	t.Setenv("NO_COLOR", "")
	s := parseStill(t, dir, words)
	h := &harness{t: t, screen: tcell.NewSimulationScreen("UTF-8")}
	p := &projector{still: s}
	p.options.Screen = tuitest.Colored{SimulationScreen: h.screen, Count: 256}
	p.load(t)
	h.d = New(p.options)
	p.d = h.d
	h.screen.SetSize(s.width, s.height)
	h.runOn(p, s.width, s.height)
	h.do(p.show)
	for _, key := range s.keys {
		h.typeWord(key)
	}
	return h.text()
}

// A projector is a [Control] that plays a recording up to a window, and again whenever another
// configuration is applied.
type projector struct {
	still
	config config.Config // the configuration in force
	first  uint64
	d      *Dashboard

	system *scope.System
	plan   outcome.Plan
	said   []outcome.Notice
	frames []*scope.Frame
}

// load reads the header and the configuration, and plays.
func (p *projector) load(t *testing.T) {
	t.Helper()
	in, err := recording.Open(t.Context(), p.file)
	if err != nil {
		t.Fatal(err)
	}
	header := in.Header
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	p.options.Title = filepath.Base(p.file)
	p.options.Wall = func(ns int64) time.Time { return header.Time.Add(time.Duration(ns - header.Monotonic)) }
	if s, err := snapshot.Open(t.Context(), p.file); err == nil {
		p.first = s.Snapshot.First
		p.options.Title = "snapshot " + p.options.Title
		p.options.Fixed, p.options.Window, p.options.Oldest = true, p.first+s.Snapshot.Trigger(), p.first+s.Snapshot.Prelude
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	r := session.Replay{}
	if p.scope != "" {
		c, err := config.Load(p.scope)
		if err != nil {
			t.Fatal(err)
		}
		r.Config = &c
	}
	player, err := session.NewPlayer(r, p.open)
	if err != nil {
		t.Fatal(err)
	}
	p.config = player.Config()
	if err := p.play(r.Config); err != nil {
		t.Fatal(err)
	}
}

// Config implements [Control].
func (p *projector) Config() config.Config { return p.config }

func (p *projector) open() (session.Input, error) {
	in, err := recording.Open(context.Background(), p.file)
	return &shortened{in, p.windows}, err
}

// ApplyFrom implements [Control].
func (p *projector) ApplyFrom(_ context.Context, _, c config.Config) error {
	if err := p.play(&c); err != nil {
		return err
	}
	p.config = c
	p.d.update(p.show)
	return nil
}

// play makes the frames and keeps them until show shows them at once, so that timing does not
// matter.
func (p *projector) play(c *config.Config) error {
	in, err := p.open()
	if err != nil {
		return err
	}
	defer in.Close()
	p.frames, p.said = nil, nil
	r := session.Replay{Config: c, First: p.first, Observers: []scope.Observer{p}}
	return r.Play(context.Background(), in)
}

// show shows the frames that were played, and their notices. It ignores errors because the
// dashboard returns none.
func (p *projector) show() {
	_ = p.d.Configured(p.system, p.plan)
	for _, n := range p.said {
		_ = p.d.Noticed(n)
	}
	for _, f := range p.frames {
		_ = p.d.Framed(nil, f)
		p.d.showEvents()
	}
	p.d.refresh()
}

// Configured implements [scope.Observer].
func (p *projector) Configured(s *scope.System, plan outcome.Plan) error {
	p.system, p.plan = s, plan
	return nil
}

// Framed implements [scope.Observer].
func (p *projector) Framed(_ *outcome.Batch, f *scope.Frame) error {
	p.frames = append(p.frames, f.Clone())
	return nil
}

// Noticed implements [scope.Observer].
func (p *projector) Noticed(n outcome.Notice) error {
	p.said = append(p.said, n)
	return nil
}

// shortened is a recording up to a given window.
type shortened struct {
	*recording.Reader
	windows int
}

// Next implements [session.Entries].
func (s *shortened) Next() (recording.Entry, error) {
	entry, err := s.Reader.Next()
	if _, ok := entry.(*outcome.Batch); ok {
		s.windows--
		if s.windows < 0 {
			return nil, io.EOF
		}
	}
	return entry, err
}

// keyNames lists keys whose names in documents differ from those in the help, or that have none
// there.
var keyNames = map[string]tcell.Key{
	"Left": tcell.KeyLeft, "Right": tcell.KeyRight, "Up": tcell.KeyUp, "Down": tcell.KeyDown,
	"Shift-Tab": tcell.KeyBacktab, "Backspace": tcell.KeyBackspace2,
}

// typeWord presses the keys that a word of a document names.
func (h *harness) typeWord(word string) {
	h.t.Helper()
	name, times, several := strings.Cut(word, "*")
	n, err := strconv.Atoi(times)
	if !several || err != nil {
		name, n = word, 1
	}
	for range n {
		switch key, ok := keyNamed(name); {
		case ok && key == tcell.KeyRune:
			h.keys(" ")
		case ok:
			h.key(key)
		default:
			h.keys(name)
		}
	}
}

func keyNamed(name string) (tcell.Key, bool) {
	if name == "Space" {
		return tcell.KeyRune, true
	}
	if key, ok := keyNames[name]; ok {
		return key, true
	}
	for key, n := range tcell.KeyNames {
		if n == name && key != tcell.KeyRune {
			return key, true
		}
	}
	return 0, false
}

// keyTable returns the table of all keys, in Markdown.
func keyTable(t *testing.T) string {
	h := start(t, "mm1k", 20, 120, 40, 256)
	var b strings.Builder
	h.do(func() {
		for _, c := range h.d.chapters() {
			fmt.Fprintf(&b, "| %s | |\n|---|---|\n", c.title)
			for i := range c.keys {
				var names []string
				for _, name := range strings.Fields(c.keys[i].keys()) {
					if name != "…" {
						name = "`" + strings.ReplaceAll(name, "|", `\|`) + "`"
					}
					names = append(names, name)
				}
				fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(slices.Compact(names), " "), c.keys[i].help)
			}
			b.WriteString("\n")
		}
	})
	return b.String()
}
