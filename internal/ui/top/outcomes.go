package top

import (
	"fmt"
	"time"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
)

// A Kind is one of the outcomes by which processes are compared.
type Kind uint8

// The kinds. If observing costs too much, top gives them up from the last to the first; the first
// is the cheapest.
const (
	GC      Kind = iota // garbage collections
	Mailbox             // messages, and how long each waited in the mailbox
	Run                 // slices of time in which a scheduler runs a process
	kinds
)

// String returns the name of the built-in outcome.
func (k Kind) String() string { return [...]string{"gc", "mailbox", "run"}[k] }

// A Level is the number of kinds that are observed, from [GC] on.
type Level uint8

// Everything is the level at which all kinds are observed.
const Everything = Level(kinds)

// Has reports whether a kind is observed at the level.
func (l Level) Has(k Kind) bool { return Level(k) < l }

// The scale of the outcomes. It is long because the totals do not include instances that take
// longer. The bins do not matter, because groups have their own.
const (
	dMax = 10 * time.Second
	bins = 1000
)

// NewSystem returns the system of a scope for a level: the built-in outcomes on a scale of ten
// seconds, grouped by [outcome.GroupPID] or [outcome.GroupMFA].
func NewSystem(l Level, by string, window time.Duration) (*scope.System, error) {
	s := &scope.System{Window: window, History: 1, Bounds: scope.MeanBounds{Confidence: scope.DefaultConfidence}, Samples: 1}
	for k := range kinds {
		if !l.Has(k) {
			break
		}
		b, ok := dtrace.LookupBuiltin(k.String())
		if !ok {
			return nil, fmt.Errorf("there is no built-in outcome %q", k)
		}
		s.Outcomes = append(s.Outcomes, scope.OutcomeSystem{Spec: outcome.Spec{
			Name:     b.Name,
			VM:       outcome.Events{Builtin: b.Name},
			BinWidth: dMax / bins,
			Bins:     bins,
			Group:    by,
			Accounts: true,
		}})
	}
	return s, nil
}
