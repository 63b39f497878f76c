package intake

import (
	"fmt"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// Rejects counts rejected lines, and keeps the last one. The zero Rejects is empty.
type Rejects struct {
	count uint64
	text  [80]byte // the beginning of the last one
	n     int
	err   error
}

// Add adds a line with the reason for its rejection.
func (r *Rejects) Add(text []byte, err error) {
	r.count++
	r.n = copy(r.text[:], text)
	r.err = err
}

// Count returns the number of rejected lines that Take will return.
func (r *Rejects) Count() uint64 { return r.count }

// Take returns the lines that were rejected since the last call.
func (r *Rejects) Take() outcome.Rejected {
	if r.count == 0 {
		return outcome.Rejected{}
	}
	taken := outcome.Rejected{Count: r.count, Last: fmt.Sprintf("%q: %v", r.text[:r.n], r.err)}
	*r = Rejects{}
	return taken
}
