package wrapper

import (
	"sync"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/sources/intake"
	"github.com/beamscope/beamscope/internal/sources/ledger"
)

// ErrPlan means that a plan cannot be followed.
var ErrPlan = ledger.ErrPlan

// maxUnwanted is the number of unwanted names of a VM that are remembered, so that each gives one
// notice only.
const maxUnwanted = 64

// A book keeps the accounts of one VM, which may have several connections.
type book struct {
	mu sync.Mutex
	*ledger.Book
	rejected intake.Rejects
	unwanted map[string]bool

	// Guarded by the Source's lock.
	connections int
	left        int64 // when the last connection ended
}

func newBook(vm outcome.VM, next int64, b *intake.Budget) *book {
	return &book{Book: ledger.NewBook(vm, next, b), unwanted: make(map[string]bool)}
}

// nameOf implements [ledger.Namer].
func nameOf(s outcome.Spec) (string, error) { return s.Wrapper, checkName(s.Wrapper) }

// reject counts a rejected line. Its name may be known.
func (b *book) reject(s ledger.Schedule, name, text []byte, err error) {
	b.rejected.Add(text, err)
	if spec, ok := s.Wants(name); ok {
		b.Owe(spec.Name, outcome.Loss{Rejected: 1})
	}
}

// collect returns the counts and the rejected lines of a window.
func (b *book) collect(e *ledger.Era, w outcome.Window) ([]intake.Cell, outcome.Rejected) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Collect(e, w), b.rejected.Take()
}

// replan changes to another schedule, see [ledger.Book.Replan].
func (b *book) replan(s ledger.Schedule, from int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Replan(s, from)
}

// idle reports whether nothing is left to collect.
func (b *book) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Idle() && b.rejected.Count() == 0
}

// refuse records the name of an instance that belongs to no outcome. It returns true for a new
// name.
func (b *book) refuse(name []byte) bool {
	if b.unwanted[string(name)] || len(b.unwanted) == maxUnwanted {
		return false
	}
	b.unwanted[string(name)] = true
	return true
}
