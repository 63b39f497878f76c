package export_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/export"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// probe returns a probe with these counts, on bins of a millisecond.
func probe(t *testing.T, c outcome.Counts) scope.Probe {
	t.Helper()
	grid, err := dq.NewGrid(time.Millisecond, len(c.Bins))
	if err != nil {
		t.Fatal(err)
	}
	o, err := dq.FromCounts(grid, c.Bins, c.Failures, c.Timeouts)
	if err != nil {
		t.Fatal(err)
	}
	return scope.Probe{Name: c.Outcome, Observed: o, Counts: c}
}

// frames are what the golden files show: a window with one VM, one with two and
// with loss, and one in which no VM runs.
func frames(t *testing.T) []scope.Frame {
	t.Helper()
	a := outcome.VM{PID: 41, Node: "shop@db1"}
	b := outcome.VM{PID: 42}
	full := outcome.Counts{
		Outcome: "worker_1", VM: a, Starts: 20, Ends: 18, Successes: 8, Failures: 1, Timeouts: 1,
		Orphans: 3, Lates: 2, Bins: []uint64{1, 4, 2, 1},
	}
	empty := outcome.Counts{Outcome: "probe", VM: a, Bins: make([]uint64, 4)}
	lossy := outcome.Counts{
		Outcome: "worker_1", VM: b, Starts: 1000, Ends: 1000, Successes: 1000, Bins: []uint64{0, 0, 0, 1000},
		Loss: outcome.Loss{Unreadable: 1, NoRoom: 2, Missed: 3, Cut: 4, Exits: 5, Crowded: 6},
	}
	intangible := outcome.Counts{Outcome: "worker_1", VM: a, Failures: 1, Timeouts: 2, Bins: make([]uint64, 4)}
	nobody := outcome.Counts{Outcome: "worker_1", Bins: make([]uint64, 4)}
	all := []scope.Frame{
		{Probes: []scope.Probe{probe(t, full), probe(t, empty)}},
		{Probes: []scope.Probe{probe(t, intangible), probe(t, lossy)}},
		{Probes: []scope.Probe{probe(t, nobody)}},
	}
	for i := range all {
		from := int64(i) * int64(time.Second)
		all[i].Number = uint64(i)
		all[i].Window = outcome.Window{From: from, To: from + int64(time.Second)}
		all[i].Time = time.Date(2024, 2, 29, 23, 59, 58+i, 5e6, time.UTC)
		all[i].Cost.Collector = 12 * time.Millisecond
	}
	all[1].Cost = outcome.Cost{Events: 2000, PerEvent: 1234 * time.Nanosecond}
	return all
}

type printer interface {
	Frame(scope.Frame) error
	Close() error
}

func printAll(t *testing.T, p printer) {
	t.Helper()
	for _, f := range frames(t) {
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

// Text has a table for each window and the totals of each outcome and VM.
func TestText(t *testing.T) {
	var out bytes.Buffer
	printAll(t, export.NewText(&out))
	checkGolden(t, "frames.txt", out.Bytes())
}

// JSON has one line for each window and probe. What nothing is known of is null.
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

// Nothing is nothing, and not a table without rows.
func TestNoFrames(t *testing.T) {
	var out bytes.Buffer
	for _, p := range []printer{export.NewText(&out), export.NewJSON(&out)} {
		if err := p.Close(); err != nil || out.Len() > 0 {
			t.Errorf("%T wrote %q, error %v", p, out.String(), err)
		}
	}
}

var errFull = errors.New("full")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

// Where a frame cannot be written, the printer says so.
func TestCannotWrite(t *testing.T) {
	for _, p := range []printer{export.NewText(fullDisk{}), export.NewJSON(fullDisk{})} {
		if err := p.Frame(frames(t)[0]); !errors.Is(err, errFull) {
			t.Errorf("%T: error %v, want %v", p, err, errFull)
		}
	}
}
