package session

import (
	"errors"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/recording"
)

var errFull = errors.New("no space left on device")

// A full is a disk with room for a limited number of writes.
type full struct{ room int }

func (f *full) Write(p []byte) (int, error) {
	if f.room--; f.room < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// The recorder reports a full disk once.
func TestRecorderOnFullDisk(t *testing.T) {
	r := &recorder{create: func() (*recording.Writer, error) {
		return recording.NewWriter(&full{room: 2}, recording.Header{})
	}}
	err := r.Configured(&scope.System{}, outcome.Plan{Window: time.Second})
	for n := 0; err == nil && n < 10; n++ {
		err = r.Noticed(outcome.Notice{Text: "x"})
	}
	if !errors.Is(err, errFull) {
		t.Fatalf("error %v, want %v", err, errFull)
	}
	if err := r.close(); err != nil {
		t.Errorf("%v is reported again at the end", err)
	}
	if err := (&recorder{create: r.create}).close(); err != nil {
		t.Errorf("%v without a recording", err)
	}
}

// An error of the last write is reported.
func TestRecorderOnDiskFullAtTheEnd(t *testing.T) {
	r := &recorder{create: func() (*recording.Writer, error) {
		return recording.NewWriter(&full{room: 2}, recording.Header{})
	}}
	if err := r.Configured(&scope.System{}, outcome.Plan{Window: time.Second}); err != nil {
		t.Fatal(err)
	}
	if err := r.close(); !errors.Is(err, errFull) {
		t.Errorf("error %v, want %v", err, errFull)
	}
}
