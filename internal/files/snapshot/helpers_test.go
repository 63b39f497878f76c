package snapshot_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/files/recording"
	"github.com/beamscope/beamscope/internal/files/snapshot"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		child(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

const second = int64(time.Second)

var (
	start = time.Date(2026, 11, 21, 1, 45, 0, 123_000_000, time.UTC)
	vm    = outcome.VM{PID: 7, Node: "a@b"}
)

// options returns the options of a Keeper that shows 3 windows after 2 of history, and 2 after
// the trigger.
func options(dir string) snapshot.Options {
	return snapshot.Options{
		Dir: dir, Header: recording.Header{Time: start, Note: "a note"},
		Before: 3, Prelude: 2, After: 2 * time.Second, MaxFiles: 100, MaxBytes: 1 << 20,
	}
}

// config returns a configuration with outcomes of these names.
func config(names ...string) *recording.Config {
	c := &recording.Config{Files: []recording.File{{Name: "scope.yaml", Text: []byte(strings.Join(names, " "))}}}
	c.Plan = outcome.Plan{Window: time.Second}
	for _, name := range names {
		c.Plan.Specs = append(c.Plan.Specs, outcome.Spec{Name: name, Span: name, BinWidth: time.Millisecond, Bins: 3})
	}
	return c
}

// batch returns window number n.
func batch(n int) *outcome.Batch {
	w := outcome.Window{From: int64(n) * second, To: int64(n+1) * second}
	return &outcome.Batch{
		Window: w,
		Time:   start.Add(time.Duration(w.To)),
		Counts: []outcome.Counts{{Outcome: "b", VM: vm, Starts: 5, Successes: uint64(n + 1), Bins: []uint64{0, uint64(n + 1), 0}}},
		Instances: []outcome.Instance{
			{Outcome: "b", VM: vm, Status: outcome.Timeout, Start: w.From - 5, End: w.From + int64(n), ID: 3, Class: "c"},
		},
	}
}

func cause(n int, trigger string) *recording.Cause {
	return &recording.Cause{Time: int64(n+1) * second, Number: uint64(n), Trigger: trigger, Setting: "true", Outcome: "b", VM: vm, Text: "why"}
}

// An owned is a cause in a VM of an owner.
type owned struct {
	*recording.Cause
	owner string
}

func notice(text string) *outcome.Notice { return &outcome.Notice{Time: 9, Text: text} }

// keep returns a Keeper and two functions. do passes entries to the Keeper, and treats a cause as
// a trigger that fired. end closes it.
func keep(t *testing.T, o snapshot.Options) (do func(entries ...any), end func() []error) {
	var errs []error
	o.Written = func(_ string, err error) { errs = append(errs, err) }
	k, err := snapshot.New(o)
	if err != nil {
		t.Fatal(err)
	}
	do = func(entries ...any) {
		t.Helper()
		for _, entry := range entries {
			if err := pass(k, entry); err != nil {
				t.Error(err)
			}
		}
	}
	return do, func() []error { k.Close(); return errs }
}

func pass(k *snapshot.Keeper, entry any) error {
	switch entry := entry.(type) {
	case *recording.Config:
		return k.Config(entry)
	case *outcome.Batch:
		return k.Batch(entry)
	case *outcome.Notice:
		return k.Notice(entry)
	case *recording.Cause:
		return k.Fire(entry, "")
	case owned:
		return k.Fire(entry.Cause, entry.owner)
	}
	return errors.ErrUnsupported
}

// windows returns the batches from one number to another, excluding the latter.
func windows(from, to int) []any {
	var entries []any
	for n := from; n < to; n++ {
		entries = append(entries, batch(n))
	}
	return entries
}

func concat(parts ...[]any) []any {
	var all []any
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}

// list returns the snapshots in a folder, the newest first.
func list(t *testing.T, dir string) []snapshot.Info {
	t.Helper()
	infos, err := snapshot.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	return infos
}

// replay returns a snapshot and its entries after the causes.
func replay(t *testing.T, path string) (*snapshot.Reader, []any) {
	t.Helper()
	r, err := snapshot.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var entries []any
	for {
		entry, err := r.Next()
		if errors.Is(err, io.EOF) {
			return r, entries
		}
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, entry)
	}
}

func names(infos []snapshot.Info) []string {
	var names []string
	for _, info := range infos {
		names = append(names, filepath.Base(info.Path))
	}
	return names
}

func equal(t *testing.T, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}
