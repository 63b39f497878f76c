package intake

import (
	"fmt"

	"github.com/beamscope/beamscope/internal/outcome"
)

// Rejects counts lines that were rejected, and keeps the last. The zero Rejects has
// none.
type Rejects struct {
	count uint64
	text  [80]byte // the beginning of the last one
	n     int
	err   error
}

// Add adds a line, and why it was rejected.
func (r *Rejects) Add(text []byte, err error) {
	r.count++
	r.n = copy(r.text[:], text)
	r.err = err
}

// Count returns how many there are to be taken.
func (r *Rejects) Count() uint64 { return r.count }

// Take returns what was rejected since it was last called.
func (r *Rejects) Take() outcome.Rejected {
	if r.count == 0 {
		return outcome.Rejected{}
	}
	taken := outcome.Rejected{Count: r.count, Last: fmt.Sprintf("%q: %v", r.text[:r.n], r.err)}
	*r = Rejects{}
	return taken
}
