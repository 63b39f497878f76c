package export_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/seen"
	"github.com/beamscope/beamscope/internal/files/export"
)

// The golden files use a fixed time zone.
func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}

var update = flag.Bool("update", false, "rewrite the golden files")

// system returns a system of two workers, and an outcome that is calculated from them, with a QTA
// and triggers.
func system(t *testing.T) *scope.System {
	t.Helper()
	file, err := diagram.Parse("probe = worker_1 -> worker_2;")
	if err != nil {
		t.Fatal(err)
	}
	qta, err := dq.Quartiles(2*time.Millisecond, 3*time.Millisecond, 5*time.Millisecond, 0.2)
	if err != nil {
		t.Fatal(err)
	}
	s := &scope.System{Window: time.Second, Diagram: file, History: 30, Bounds: scope.MeanBounds{StandardErrors: dq.Z95}, Samples: 5, HoldOff: time.Second}
	for name, bins := range map[string]int{"worker_1": 4, "worker_2": 4, "probe": 8} {
		s.Outcomes = append(s.Outcomes, scope.OutcomeSystem{Spec: outcome.Spec{Name: name, Span: name, BinWidth: time.Millisecond, Bins: bins}})
	}
	slices.SortFunc(s.Outcomes, func(a, b scope.OutcomeSystem) int { return strings.Compare(b.Spec.Name, a.Spec.Name) })
	probe := &s.Outcomes[2]
	probe.QTA = &qta
	for _, kind := range []string{"qta", "loss"} {
		trigger, err := scope.ParseTrigger(kind, "true")
		if err != nil {
			t.Fatal(err)
		}
		probe.Triggers = append(probe.Triggers, trigger)
	}
	return s
}

// counts returns the counts of a window with this many successes in each bin.
func counts(name string, vm outcome.VM, bins ...uint64) outcome.Counts {
	c := outcome.Counts{Outcome: name, VM: vm, Bins: bins}
	for _, n := range bins {
		c.Successes += n
	}
	c.Starts, c.Ends = c.Successes, c.Successes
	return c
}

// batches returns the windows in the golden files: a normal one; one that violates the QTA, with
// failures, late ends and orphans; one with two VMs and loss; one in which everything fails; and
// one without a running VM.
func batches() []outcome.Batch {
	a, b := outcome.VM{PID: 41, Node: "shop@db1"}, outcome.VM{PID: 42}
	slow := counts("probe", a, 0, 0, 0, 1, 2, 1, 4, 2)
	slow.Failures, slow.Timeouts, slow.Orphans, slow.Lates = 1, 1, 3, 2
	lossy := counts("probe", b, 0, 0, 0, 1000, 0, 0, 0, 0)
	lossy.Loss = outcome.Loss{Unreadable: 1, NoRoom: 2, Missed: 3, Cut: 4, Exits: 5, Crowded: 6}
	failed := counts("worker_1", a, 0, 0, 0, 0)
	failed.Failures, failed.Timeouts = 1, 2
	return []outcome.Batch{
		{Counts: []outcome.Counts{counts("worker_1", a, 1, 4, 2, 1), counts("worker_2", a, 2, 4, 2, 0), counts("probe", a, 0, 4, 4, 2, 1, 0, 0, 0)}},
		{
			Counts: []outcome.Counts{counts("worker_1", a, 1, 4, 2, 1), counts("worker_2", a, 2, 4, 2, 0), slow},
			Cost:   outcome.Cost{Events: 2000, PerEvent: 1234 * time.Nanosecond},
		},
		{Counts: []outcome.Counts{counts("worker_1", a, 1, 0, 0, 0), counts("worker_1", b, 0, 0, 0, 1000), counts("probe", a, 0, 0, 0, 0, 0, 0, 0, 0), lossy}},
		{Counts: []outcome.Counts{failed, counts("worker_2", a, 1, 0, 0, 0)}, Rejected: outcome.Rejected{Count: 2, Last: `"n:a;b:1": no end`}},
		{Counts: []outcome.Counts{{Outcome: "worker_1"}}},
	}
}

type printer interface {
	Frame(*scope.Frame) error
	Close() error
}

func printAll(t *testing.T, p printer) {
	t.Helper()
	e, err := scope.NewEngine(system(t))
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range batches() {
		from := int64(i) * int64(time.Second)
		b.Window = outcome.Window{From: from, To: from + int64(time.Second)}
		b.Time = time.Date(2024, 2, 29, 23, 59, 56+i, 5e6, time.UTC)
		b.Cost.Collector = 12 * time.Millisecond
		if i == 4 {
			again := system(t)
			again.Outcomes[0].Spec.Bins = 5
			if err := e.Configure(again); err != nil {
				t.Fatal(err)
			}
		}
		f, err := e.Step(&b)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Frame(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

func checkGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s, -want +got:\n%s", path, diff)
	}
}

// Text has a table for each window, and the totals of each outcome and VM.
func TestText(t *testing.T) {
	var out bytes.Buffer
	printAll(t, export.NewText(&out))
	checkGolden(t, "frames.txt", out.Bytes())
}

// JSON has one line for each window and outcome. Unknown values are null.
func TestJSON(t *testing.T) {
	var out bytes.Buffer
	printAll(t, export.NewJSON(&out))
	checkGolden(t, "frames.json", out.Bytes())
	for line := range bytes.Lines(out.Bytes()) {
		if !json.Valid(line) {
			t.Errorf("not JSON: %s", line)
		}
	}
}

// A line says how the events of its outcome are seen in its VM, if that is known.
func TestJSONSeen(t *testing.T) {
	f := frame(t)
	var out bytes.Buffer
	p := export.NewJSON(&out)
	asked := 0
	p.TellSights(func() export.SightFunc {
		asked++
		return func(o outcome.Spec, v outcome.VM) seen.Sight {
			if o.Name != "worker_1" || v != f.Outcomes[0].VM {
				return seen.Not("no eBPF")
			}
			return seen.By(seen.Ring).With(seen.Probe)
		}
	})
	if err := p.Frame(f); err != nil {
		t.Fatal(err)
	}
	for text := range bytes.Lines(out.Bytes()) {
		var line struct {
			Outcome string
			Seen    json.RawMessage
		}
		if err := json.Unmarshal(text, &line); err != nil {
			t.Fatal(err)
		}
		want := `{"by":[],"why":"no eBPF"}`
		if line.Outcome == "worker_1" {
			want = `{"by":["probe","ring"]}`
		}
		if string(line.Seen) != want {
			t.Errorf("%s: %s, want %s", line.Outcome, line.Seen, want)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times for one frame", asked)
	}
}

// Without frames a printer writes nothing at all.
func TestNoFrames(t *testing.T) {
	var out bytes.Buffer
	for _, p := range []printer{export.NewText(&out), export.NewJSON(&out)} {
		if err := p.Close(); err != nil || out.Len() > 0 {
			t.Errorf("%T wrote %q, error %v", p, out.String(), err)
		}
	}
}

var errFull = errors.New("full")

// frame returns a frame of one window.
func frame(t *testing.T) *scope.Frame {
	t.Helper()
	e, err := scope.NewEngine(system(t))
	if err != nil {
		t.Fatal(err)
	}
	b := batches()[0]
	b.Window.To = int64(time.Second)
	f, err := e.Step(&b)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

// Printers return the error if a frame cannot be written.
func TestCannotWrite(t *testing.T) {
	for _, p := range []printer{export.NewText(fullDisk{}), export.NewJSON(fullDisk{})} {
		if err := p.Frame(frame(t)); !errors.Is(err, errFull) {
			t.Errorf("%T: error %v, want %v", p, err, errFull)
		}
	}
}

// If some time was not observed, the totals explain the + after the number of losses.
func TestTotalsUnobserved(t *testing.T) {
	for _, unobserved := range []bool{false, true} {
		var out strings.Builder
		p := export.NewText(&out)
		e, err := scope.NewEngine(system(t))
		if err != nil {
			t.Fatal(err)
		}
		c := counts("probe", outcome.VM{PID: 1}, make([]uint64, 8)...)
		c.Unobserved = unobserved
		f, err := e.Step(&outcome.Batch{Window: outcome.Window{To: int64(time.Second)}, Counts: []outcome.Counts{c}})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(p.Frame(f), p.Close()); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), "\n+ beside lost: "); got != unobserved {
			t.Errorf("unobserved %v:\n%s", unobserved, &out)
		}
	}
}

// Before the first completely observed window there are no figures of outcomes. The text and the
// objects show that.
func TestAttaching(t *testing.T) {
	c := counts("probe", outcome.VM{PID: 1}, make([]uint64, 8)...)
	c.Unobserved, c.Loss.Missed = true, 153
	frame := func() *scope.Frame {
		e, err := scope.NewEngine(system(t))
		if err != nil {
			t.Fatal(err)
		}
		f, err := e.Step(&outcome.Batch{Window: outcome.Window{To: int64(time.Second)}, Counts: []outcome.Counts{c}})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	var out strings.Builder
	text := export.NewText(&out)
	if err := text.Frame(frame()); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "window 0, 1s: not observed: no window was observed as a whole yet\n") ||
		strings.Contains(got, "%") && strings.Contains(got, "≥") || strings.Contains(got, "153") {
		t.Error(got)
	}
	if err := text.Close(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "153+") {
		t.Errorf("the totals do not contain the losses: %s", &out)
	}
	out.Reset()
	f := frame()
	if err := export.NewJSON(&out).Frame(f); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.Count(got, `"unobserved":true`) != len(f.Outcomes) || strings.Count(got, `"success":null`) < len(f.Outcomes) {
		t.Error(got)
	}
}
