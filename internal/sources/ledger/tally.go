package ledger

import (
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/sources/intake"
)

// A tally counts what ends in one window in one VM.
type tally struct {
	window       outcome.Window
	observations []*Observation // of the window's plan
	cells        []intake.Cell  // one for each observation
}

func newTally(w outcome.Window, observations []*Observation) *tally {
	return &tally{window: w, observations: observations, cells: make([]intake.Cell, len(observations))}
}
