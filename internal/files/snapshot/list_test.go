package snapshot_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/internal/files/recording"
	"github.com/beamscope/beamscope/internal/files/snapshot"
)

// Snapshots are found by number, the newest first, and by the beginning of their names.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	fire(t, options(dir), 0, 3)
	fire(t, options(dir), 2, 3)
	for id, want := range map[string]string{
		"1":                              "20261121T014503.123Z-b-qta_2.bsr",
		"4":                              "20261121T014501.123Z-b-qta.bsr",
		"20261121T014502":                "20261121T014502.123Z-b-qta.bsr",
		"20261121T014503.123Z-b-qta.":    "20261121T014503.123Z-b-qta.bsr",
		"20261121T014501.123Z-b-qta.bsr": "20261121T014501.123Z-b-qta.bsr",
	} {
		if path, err := snapshot.Find(dir, id); err != nil || path != filepath.Join(dir, want) {
			t.Errorf("%s: got %s, %v", id, path, err)
		}
	}
	empty := t.TempDir()
	if _, err := snapshot.Find(empty, "1"); !errors.Is(err, snapshot.ErrNotFound) || !strings.HasSuffix(err.Error(), "there are none in "+empty) {
		t.Errorf("error %v where there are none", err)
	}
	for _, id := range []string{"", "0", "5", "-1", "20261121", "2027", "../x", "x"} {
		if path, err := snapshot.Find(dir, id); !errors.Is(err, snapshot.ErrNotFound) {
			t.Errorf("%q: got %s, %v, want ErrNotFound", id, path, err)
		}
	}
}

// Damaged snapshots are listed with the data that can be read.
func TestListDamaged(t *testing.T) {
	dir := t.TempDir()
	do, end := keep(t, options(dir))
	do(config("b"))
	do(windows(0, 5)...)
	do(cause(4, "qta"))
	do(windows(5, 8)...)
	end()
	path := list(t, dir)[0].Path
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := 8; n < len(whole); n++ {
		write(t, path, string(whole[:n]))
		infos := list(t, dir)
		if len(infos) != 1 {
			t.Fatalf("%d bytes: not listed", n)
		}
		i := infos[0]
		if !errors.Is(i.Err, recording.ErrDamaged) || !i.Time.Equal(batch(4).Time) || i.After > 2 {
			t.Fatalf("%d bytes: listed as %+v", n, i)
		}
	}
}

// Recordings are not snapshots, whatever their names.
func TestNotSnapshot(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "20261121T014501.123Z-b-qta.bsr")
	for name, more := range map[string]func(*recording.Writer) error{
		"empty": func(*recording.Writer) error { return nil },
		"plain": func(w *recording.Writer) error { return w.Config(config("b")) },
	} {
		w, err := recording.Create(path, true, recording.Header{})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(more(w), w.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := snapshot.Open(t.Context(), path); !errors.Is(err, snapshot.ErrNotSnapshot) {
			t.Errorf("%s: opened: %v", name, err)
		}
		if infos := list(t, dir); len(infos) != 1 || !errors.Is(infos[0].Err, snapshot.ErrNotSnapshot) {
			t.Errorf("%s: listed as %+v", name, infos)
		}
	}
	if _, err := snapshot.Open(t.Context(), filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
