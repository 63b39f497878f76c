package recording_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/beamscope/beamscope/internal/files/recording"
)

// A writes counts calls of Write, and fails from a given call on.
type writes struct {
	bytes.Buffer
	n, broken int
}

var errFull = errors.New("no space left")

func (w *writes) Write(p []byte) (int, error) {
	w.n++
	if w.broken > 0 && w.n >= w.broken {
		return 0, errFull
	}
	return w.Buffer.Write(p)
}

func writeAll(w *recording.Writer) error {
	return errors.Join(w.Config(&config), w.Batch(&batch), w.Notice(&notice), w.Cause(&cause), w.Batch(&batch))
}

// A Writer writes each entry at once, and a reader can read the result.
func TestWriter(t *testing.T) {
	var out writes
	w, err := recording.NewWriter(&out, header)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Batch(&batch); !errors.Is(err, recording.ErrNoConfig) {
		t.Errorf("got %v, want ErrNoConfig", err)
	}
	if err := errors.Join(writeAll(w), w.Close()); err != nil {
		t.Fatal(err)
	}
	if out.n != 7 {
		t.Errorf("%d writes for 7 blocks", out.n)
	}
	got, err := readAll(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if diff := diff([]recording.Entry{&config, &batch, &notice, &cause, &batch}, got); diff != "" {
		t.Error(diff)
	}
	if err := w.Notice(&notice); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// A full disk gives a permanent error. The frames that were written before can be read.
func TestWriterFull(t *testing.T) {
	out := writes{broken: 4}
	w, err := recording.NewWriter(&out, header)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeAll(w); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
	if err := w.Close(); !errors.Is(err, errFull) {
		t.Errorf("Close: %v", err)
	}
	if out.n != 4 {
		t.Errorf("%d writes, the last after an error", out.n)
	}
	if got, err := readAll(out.Bytes()); !errors.Is(err, recording.ErrDamaged) || len(got) != 2 {
		t.Errorf("read %d entries, %v", len(got), err)
	}
}

// An existing file is not overwritten, unless forced.
func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.bsr")
	for _, force := range []bool{false, true} {
		w, err := recording.Create(path, force, header)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(writeAll(w), w.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := recording.Create(path, false, header); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, want ErrExist", err)
	}
	r, err := recording.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// Recording to a file without a disk works.
func TestCreateDevice(t *testing.T) {
	w, err := recording.Create(os.DevNull, true, header)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	if _, err := recording.Open(t.Context(), filepath.Join(dir, "none.bsr")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	path := filepath.Join(dir, "text.bsr")
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := recording.Open(t.Context(), path); !errors.Is(err, recording.ErrNotRecording) || err.Error() != path+": not a recording" {
		t.Errorf("got %v", err)
	}
	if _, err := recording.Create(filepath.Join(dir, "none", "run.bsr"), false, header); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestHost(t *testing.T) {
	facts := recording.Host()
	if len(facts) < 2 || facts[0].Name != "system" {
		t.Errorf("got %v", facts)
	}
}

// Encoding a window allocates nothing once a few have been encoded.
func TestEncoderAllocates(t *testing.T) {
	c, b := busy(3, 50, 400, 48)
	var e recording.Encoder
	dst, err := e.AppendConfig(nil, &c)
	if err != nil {
		t.Fatal(err)
	}
	encode := func() { dst, err = e.AppendBatch(dst[:0], &b) }
	encode()
	if n := testing.AllocsPerRun(100, encode); n != 0 || err != nil {
		t.Errorf("%v allocations, %v", n, err)
	}
}

func BenchmarkEncode(b *testing.B) {
	for name, size := range sizes() {
		b.Run(name, func(b *testing.B) {
			c, batch := busy(size[0], size[1], size[2], size[3])
			var e recording.Encoder
			dst, err := e.AppendConfig(nil, &c)
			for b.Loop() && err == nil {
				dst, err = e.AppendBatch(dst[:0], &batch)
			}
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(len(dst)), "B/window")
		})
	}
}

func BenchmarkRead(b *testing.B) {
	for name, size := range sizes() {
		b.Run(name, func(b *testing.B) {
			c, batch := busy(size[0], size[1], size[2], size[3])
			data := record(b, &c, &batch)
			for b.Loop() {
				if _, err := readAll(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// sizes are the numbers of outcomes, bins, instances of each outcome, and single instances.
func sizes() map[string][4]int {
	return map[string][4]int{
		"3x50":            {3, 50, 400, 0},
		"3x50,worst":      {3, 50, 400, 48},
		"3x50,everything": {3, 50, 400, 1200},
		"100x1000":        {100, 1000, 10000, 0},
	}
}
