package session

import (
	"errors"
	"fmt"
	"io"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/sources/script"
)

// A Script is the output of a script of dtrace(1) or bpftrace.
type Script struct {
	Text     io.ReadCloser // closing it ends a blocked Read
	Recorded bool          // the text is from another time, for example from a file
}

// openScript opens a script as the only source. If the script cannot provide some outcomes, it
// closes the text and returns an error that names them.
func openScript(c config.Config, system *scope.System, plan outcome.Plan, s Script) (sources, error) {
	if err := checkScript(c, system); err != nil {
		return sources{}, errors.Join(err, s.Text.Close())
	}
	source, err := script.New(script.Config{Text: s.Text, Recorded: s.Recorded, Plan: plan})
	if err != nil {
		return sources{}, errors.Join(err, s.Text.Close())
	}
	all, err := outcome.Join(plan, outcome.Part{Source: source, Wants: func(outcome.Spec) bool { return true }})
	if err != nil {
		return sources{}, errors.Join(err, source.Close())
	}
	return sources{all: all, scripted: true}, nil
}

// checkScript rejects a configuration that requests more than a script can provide.
func checkScript(c config.Config, system *scope.System) error {
	if c.Wrapper.Listen != "" || len(c.Wrapper.Connect) > 0 {
		return fmt.Errorf("wrapper: %w: take it out of the scope file, or observe without --from", script.ErrPlan)
	}
	if len(system.Outcomes) == 0 {
		return errNothing
	}
	for _, p := range system.Outcomes {
		if !asked(c, system, p.Spec.Name) {
			continue // it is only calculated
		}
		if err := script.Check(p.Spec); err != nil {
			return fmt.Errorf("outcomes.%s: %w", p.Spec.Name, err)
		}
	}
	return nil
}
