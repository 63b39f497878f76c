package recording_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/recording"
)

var specs = []outcome.Spec{{Name: "a", Span: "a", BinWidth: time.Millisecond, Bins: 2, ExitFails: true}}

func record(t interface{ Fatal(...any) }, batches ...outcome.Batch) []byte {
	var buf bytes.Buffer
	w, err := recording.NewWriter(&buf, "a note", time.Second, specs)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		if err := w.Batch(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// What was written is read back, in order, and then the source ends.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.Uint64()
		want := rapid.SliceOf(rapid.Custom(func(t *rapid.T) outcome.Batch {
			return outcome.Batch{
				Window: outcome.Window{From: rapid.Int64().Draw(t, "from"), To: rapid.Int64().Draw(t, "to")},
				Time:   time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "time"), 0).UTC(),
				Counts: []outcome.Counts{{
					Outcome: "a", VM: outcome.VM{PID: rapid.Int().Draw(t, "pid"), Node: rapid.StringMatching(`[a-z]*@[a-z]*`).Draw(t, "node")},
					Successes: count.Draw(t, "ok"), Orphans: count.Draw(t, "orphans"),
					Bins: []uint64{count.Draw(t, "bin"), count.Draw(t, "bin")},
					Loss: outcome.Loss{Cut: count.Draw(t, "cut")},
				}},
				Cost: outcome.Cost{Events: count.Draw(t, "events"), PerEvent: time.Microsecond},
			}
		})).Draw(t, "batches")
		s, err := recording.Open(bytes.NewReader(record(t, want...)))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if diff := cmp.Diff(recording.Header{Version: 1, Note: "a note", Window: time.Second, Specs: specs}, s.Header); diff != "" {
			t.Fatal(diff)
		}
		for i := range want {
			got, err := s.Collect(context.Background(), outcome.Window{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want[i], got); diff != "" {
				t.Fatal(diff)
			}
		}
		if _, err := s.Collect(context.Background(), outcome.Window{}); !errors.Is(err, outcome.ErrEnded) {
			t.Fatalf("at the end: %v", err)
		}
	})
}

func zipped(text string) []byte {
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	w.Write([]byte(text))
	w.Close()
	return buf.Bytes()
}

// What is no recording is refused as such.
func TestOpenRefuses(t *testing.T) {
	for name, data := range map[string][]byte{
		"empty":           nil,
		"not gzip":        []byte("window 4, 1s"),
		"not JSON":        zipped("window 4, 1s\n"),
		"no header":       zipped(""),
		"another version": zipped(`{"version":2,"window_ns":1}` + "\n"),
		"no window":       zipped(`{"version":1,"window_ns":0}` + "\n"),
		"an endless line": zipped(strings.Repeat(" ", 17<<20)),
	} {
		if _, err := recording.Open(bytes.NewReader(data)); !errors.Is(err, recording.ErrFormat) {
			t.Errorf("%s: got %v, want ErrFormat", name, err)
		}
	}
}

// A recording that is cut off anywhere gives what is whole, and then an error.
func TestTruncated(t *testing.T) {
	whole := record(t, outcome.Batch{Window: outcome.Window{To: 1}})
	for n := range whole {
		s, err := recording.Open(bytes.NewReader(whole[:n]))
		for err == nil {
			_, err = s.Collect(t.Context(), outcome.Window{})
		}
		if errors.Is(err, outcome.ErrEnded) || !errors.Is(err, recording.ErrFormat) {
			t.Errorf("cut to %d of %d bytes: %v, want ErrFormat", n, len(whole), err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(record(f, outcome.Batch{Window: outcome.Window{To: 1}}))
	f.Add(zipped(`{"version":1,"window_ns":1}` + "\n{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := recording.Open(bytes.NewReader(data))
		for err == nil {
			_, err = s.Collect(t.Context(), outcome.Window{})
		}
	})
}

// last is a source of one batch, which comes with the end.
type last struct{ outcome.Source }

func (last) Collect(context.Context, outcome.Window) (outcome.Batch, error) {
	return outcome.Batch{Window: outcome.Window{To: 7}, Counts: []outcome.Counts{{Outcome: "a"}}}, outcome.ErrEnded
}

// What is shown is recorded, also the batch that comes with the end of the source.
func TestTeeRecordsTheLastBatch(t *testing.T) {
	var buf bytes.Buffer
	w, err := recording.NewWriter(&buf, "", time.Second, specs)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := recording.Tee(last{}, w).Collect(t.Context(), outcome.Window{}); !errors.Is(err, outcome.ErrEnded) {
		t.Errorf("got %v, want ErrEnded", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := recording.Open(&buf)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := s.Collect(t.Context(), outcome.Window{}); err != nil || b.Window.To != 7 {
		t.Errorf("recorded %+v, %v", b, err)
	}
}
