package snapshot_test

import (
	"errors"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/files/recording"
	"github.com/beamscope/beamscope/internal/files/snapshot"
)

// A snapshot contains the windows before the trigger, the trigger's window, and those after it,
// all unchanged.
func TestSnapshot(t *testing.T) {
	dir := t.TempDir()
	do, end := keep(t, options(dir))
	do(config("b"))
	do(windows(0, 10)...)
	do(cause(9, "qta"))
	do(windows(10, 13)...)
	if errs := end(); len(errs) != 1 || errs[0] != nil {
		t.Fatalf("written: %v", errs)
	}
	infos := list(t, dir)
	equal(t, []string{"20261121T014510.123Z-b-qta.bsr"}, names(infos))
	r, got := replay(t, infos[0].Path)
	equal(t, concat([]any{config("b")}, windows(4, 12)), got)
	equal(t, recording.Snapshot{First: 4, Prelude: 2, Before: 3, Causes: 1, Complete: true}, r.Snapshot)
	equal(t, []recording.Cause{*cause(9, "qta")}, r.Causes)
	equal(t, recording.Header{Time: start, Note: "a note", Facts: []recording.Fact{{Name: "owner", Text: vm.String()}}}, r.Header)
	equal(t, batch(9), got[1+r.Snapshot.Trigger()])
	if i := infos[0]; i.After != 2 || i.Number != 1 || !i.Time.Equal(batch(9).Time) || i.Err != nil {
		t.Errorf("listed as %+v", i)
	}
}

// One incident gives one snapshot with all its causes, up to its last window.
func TestOneIncidentOneSnapshot(t *testing.T) {
	dir := t.TempDir()
	do, end := keep(t, options(dir))
	do(config("b"), batch(0), cause(0, "qta"), cause(0, "load"), batch(1), cause(1, "loss"), batch(2), cause(2, "failure"))
	do(batch(3), cause(3, "qta")) // begins the next incident
	end()
	infos := list(t, dir)
	equal(t, []string{"20261121T014504.123Z-b-qta.bsr", "20261121T014501.123Z-b-qta.bsr"}, names(infos))
	first := infos[1]
	equal(t, []recording.Cause{*cause(0, "qta"), *cause(0, "load"), *cause(1, "loss"), *cause(2, "failure")}, first.Causes)
	equal(t, recording.Snapshot{Causes: 4, Complete: true}, first.Snapshot)
	equal(t, recording.Snapshot{Before: 3, Causes: 1}, infos[0].Snapshot) // still incomplete
}

// The number of causes of a snapshot is limited. Further causes are counted.
func TestManyCauses(t *testing.T) {
	dir := t.TempDir()
	do, end := keep(t, options(dir))
	do(config("b"), batch(0))
	for range snapshot.MaxCauses + 5 {
		do(cause(0, "qta"))
	}
	end()
	equal(t, recording.Snapshot{Causes: snapshot.MaxCauses, Omitted: 5}, list(t, dir)[0].Snapshot)
}

// With no time after the trigger, a snapshot ends with the trigger's window.
func TestNothingAfter(t *testing.T) {
	dir := t.TempDir()
	o := options(dir)
	o.After, o.Before, o.Prelude = 0, 0, 0
	do, end := keep(t, o)
	do(config("b"), batch(0), batch(1), cause(1, "qta"), cause(1, "load"), batch(2))
	end()
	_, got := replay(t, list(t, dir)[0].Path)
	equal(t, []any{config("b"), batch(1)}, got)
}

// A snapshot has the configuration of its first window, whenever that came into force, and all
// later configurations at their places.
func TestChangedPlan(t *testing.T) {
	old, changed, renamed := config("b"), config("a", "b"), config("x")
	for first := range 12 { // number of windows before the configuration changes
		dir := t.TempDir()
		do, end := keep(t, options(dir))
		before, between, after := windows(0, first), windows(first, first+2), windows(first+2, 14)
		do(old)
		do(before...)
		do(changed)
		do(between...)
		do(renamed)
		do(after...)
		do(cause(13, "qta"))
		do(batch(14), config("unused"), changed, batch(15), batch(16))
		end()
		_, got := replay(t, list(t, dir)[0].Path)
		equal(t, sinceWindow(8, concat([]any{old}, before, []any{changed}, between, []any{renamed}, after,
			[]any{batch(14), changed, batch(15)})), got)
	}
}

// sinceWindow returns the entries from a window on, after the configuration in force.
func sinceWindow(n int, entries []any) []any {
	var config any
	for i, entry := range entries {
		switch entry := entry.(type) {
		case *recording.Config:
			config = entry
		case *outcome.Batch:
			if entry.Window == batch(n).Window {
				return append([]any{config}, entries[i:]...)
			}
		}
	}
	return nil
}

// Notices are kept between the windows where they arrived.
func TestNotices(t *testing.T) {
	dir := t.TempDir()
	o := options(dir)
	o.Before, o.Prelude = 1, 0
	do, end := keep(t, o)
	do(notice("gone"), config("b"), batch(0), notice("1"), notice("2"), batch(1), notice("3"), batch(2), cause(2, "qta"))
	do(notice("4"), batch(3), notice("5"))
	end()
	_, got := replay(t, list(t, dir)[0].Path)
	equal(t, []any{config("b"), notice("1"), notice("2"), batch(1), notice("3"), batch(2), notice("4"), batch(3), notice("5")}, got)
}

// A flood of notices does not fill the memory.
func TestManyNotices(t *testing.T) {
	dir := t.TempDir()
	do, end := keep(t, options(dir))
	do(config("b"))
	for range 1000 {
		do(notice("again"))
	}
	do(batch(0), cause(0, "qta"))
	end()
	if _, got := replay(t, list(t, dir)[0].Path); len(got) != 1+256+1 {
		t.Errorf("%d entries", len(got))
	}
}

// Data that cannot be recorded gives an error, and everything else is kept.
func TestNotRecordable(t *testing.T) {
	dir := t.TempDir()
	do, end := keep(t, options(dir))
	long := string(make([]byte, recording.MaxText+1))
	k, err := snapshot.New(options(dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Batch(batch(0)); !errors.Is(err, recording.ErrNoConfig) {
		t.Errorf("no configuration: %v", err)
	}
	if err := pass(k, config("b")); err != nil {
		t.Error(err)
	}
	if err := pass(k, batch(0)); err != nil {
		t.Error(err)
	}
	bad := batch(1)
	bad.Rejected.Last = long
	for _, entry := range []any{&recording.Config{}, bad, notice(long), &recording.Cause{Text: long}} {
		if err := pass(k, entry); !errors.Is(err, recording.ErrLimit) {
			t.Errorf("%T: %v", entry, err)
		}
	}
	for _, entry := range []any{cause(0, "qta"), batch(2)} {
		if err := pass(k, entry); err != nil {
			t.Error(err)
		}
	}
	k.Close()
	_, got := replay(t, list(t, dir)[0].Path)
	equal(t, []any{config("b"), batch(0), batch(2)}, got)
	do(cause(0, "qta")) // ignored before the first window
	end()
}

func TestOptions(t *testing.T) {
	for name, change := range map[string]func(*snapshot.Options){
		"no folder":        func(o *snapshot.Options) { o.Dir = "" },
		"before":           func(o *snapshot.Options) { o.Before = -1 },
		"prelude":          func(o *snapshot.Options) { o.Prelude = -1 },
		"too many windows": func(o *snapshot.Options) { o.Prelude = snapshot.MaxWindows },
		"after":            func(o *snapshot.Options) { o.After = -time.Second },
		"no file":          func(o *snapshot.Options) { o.MaxFiles = 0 },
		"no byte":          func(o *snapshot.Options) { o.MaxBytes = 0 },
	} {
		o := options(t.TempDir())
		change(&o)
		if _, err := snapshot.New(o); !errors.Is(err, snapshot.ErrOptions) {
			t.Errorf("%s: got %v, want ErrOptions", name, err)
		}
	}
}

// Keeping windows without firing allocates nothing.
func TestKeeperAllocates(t *testing.T) {
	k, err := snapshot.New(options(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.Config(config("b")); err != nil {
		t.Fatal(err)
	}
	b, n := batch(0), notice("again")
	keep := func() { err = errors.Join(err, k.Notice(n), k.Batch(b)) }
	for range 10 {
		keep()
	}
	if n := testing.AllocsPerRun(100, keep); n != 0 || err != nil {
		t.Errorf("%v allocations, %v", n, err)
	}
}

// A slow disk leads to dropped snapshots, but not to dropped windows.
func TestSlowDisk(t *testing.T) {
	dir := t.TempDir()
	o := options(dir)
	slow := make(chan struct{})
	o.After = 0
	o.Written = func(string, error) { <-slow }
	k, err := snapshot.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Config(config("b")); err != nil {
		t.Fatal(err)
	}
	busy := 0
	for n := range 10 {
		if err := k.Batch(batch(n)); errors.Is(err, snapshot.ErrBusy) {
			busy++
		} else if err != nil {
			t.Fatal(err)
		}
		if err := k.Fire(cause(n, "qta"), ""); err != nil {
			t.Fatal(err)
		}
	}
	close(slow)
	k.Close()
	// At most one snapshot was being written, four were waiting, and one was in progress.
	if written := len(list(t, dir)); busy == 0 || written+busy != 10 {
		t.Errorf("%d written, %d dropped", written, busy)
	}
}

func BenchmarkKeeper(b *testing.B) {
	k, err := snapshot.New(options(b.TempDir()))
	if err != nil {
		b.Fatal(err)
	}
	defer k.Close()
	if err := k.Config(config("b")); err != nil {
		b.Fatal(err)
	}
	window := batch(0)
	for b.Loop() {
		if err := k.Batch(window); err != nil {
			b.Fatal(err)
		}
	}
}
