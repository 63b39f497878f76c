package intake

import (
	"fmt"
	"sync"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// maxNotices limits the number of waiting notices.
const maxNotices = 100

// Notices are waiting notices for people, each text once. Any goroutine may add to them.
type Notices struct {
	now func() int64

	mu      sync.Mutex
	waiting []notice
	dropped int
}

type notice struct {
	outcome.Notice
	times int
}

// NewNotices returns empty Notices. now returns the time in nanoseconds of CLOCK_MONOTONIC.
func NewNotices(now func() int64) *Notices { return &Notices{now: now} }

// Add adds a notice.
func (n *Notices) Add(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range n.waiting {
		if n.waiting[i].Text == text {
			n.waiting[i].times++
			return
		}
	}
	if len(n.waiting) == maxNotices {
		n.dropped++
		return
	}
	n.waiting = append(n.waiting, notice{Notice: outcome.Notice{Time: n.now(), Text: text}, times: 1})
}

// Take returns the notices since the last call.
func (n *Notices) Take() []outcome.Notice {
	n.mu.Lock()
	defer n.mu.Unlock()
	var taken []outcome.Notice
	for _, w := range n.waiting {
		if w.times > 1 {
			w.Text = fmt.Sprintf("%s (%d times)", w.Text, w.times)
		}
		taken = append(taken, w.Notice)
	}
	if n.dropped > 0 {
		taken = append(taken, outcome.Notice{Time: n.now(), Text: fmt.Sprintf("%d more notices", n.dropped)})
	}
	n.waiting, n.dropped = nil, 0
	return taken
}
