package ledger

import (
	"github.com/beamscope/beamscope/internal/intake"
	"github.com/beamscope/beamscope/internal/outcome"
)

// A tally counts what ends in one window in one VM.
type tally struct {
	window  outcome.Window
	courses []*Course     // of the window's plan
	cells   []intake.Cell // one for each of them
}

func newTally(w outcome.Window, courses []*Course) *tally {
	return &tally{window: w, courses: courses, cells: make([]intake.Cell, len(courses))}
}
