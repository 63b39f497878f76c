package wrapper

import (
	"net"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/sources/intake"
	"github.com/beamscope/beamscope/internal/sources/ledger"
)

// An inbound is a connection on which a wrapper sends instances.
type inbound struct {
	conn     net.Conn
	link     *link
	book     *book
	notices  *intake.Notices
	schedule func() ledger.Schedule
	used     func() // called when instances have arrived
	began    int64  // beginning of the first window of the observation

	lines *intake.Splitter // used by the receiving goroutine

	// Guarded by the book's lock.
	timeline timeline
	received uint64
	rejected uint64
	unwanted uint64
	last     intake.Rejects
	clockOff bool // a notice has reported that the clock is off
}

// receive counts the lines from the wrapper until the connection ends.
func (p *inbound) receive() {
	for {
		err := p.lines.Fill(p.conn)
		if p.account() {
			p.used()
		}
		if err != nil {
			p.finish()
			return
		}
	}
}

// account counts all lines that have arrived, under one lock. It reports whether one of them was
// an instance.
func (p *inbound) account() (instances bool) {
	p.book.mu.Lock()
	defer p.book.mu.Unlock()
	s := p.schedule() // read under the lock, see Source.Plan
	p.timeline.read()
	for {
		text, ok := p.lines.Next()
		if !ok {
			return instances
		}
		p.received++
		l, err := parse(text)
		if err != nil {
			p.reject(s, l.name, text, err)
			continue
		}
		p.enter(s, l)
		instances = true
	}
}

// enter counts an instance.
func (p *inbound) enter(s ledger.Schedule, l line) {
	end, ahead := p.timeline.convert(l.end)
	if ahead > tolerance {
		p.noteClock("the clock of %v is %v ahead: what ends in the future is counted as missed", ahead)
		p.miss(s, l.name)
		return
	}
	// Until the first window is collected, an instance that ended before it is not late: it ended
	// before the observation began.
	if next := p.book.Next(); end < next && next > p.began {
		p.noteClock("instances of %v come %v too late to be counted: its clock is behind, or they were held up", next-end)
	}
	i := intake.Ended{Start: end - (l.end - l.begin), End: end, Status: l.status}
	if !p.book.Enter(s, l.name, i) {
		p.refuse(l.name)
	}
}

// miss counts an instance with an impossible end.
func (p *inbound) miss(s ledger.Schedule, name []byte) {
	if spec, ok := s.Wants(name); ok {
		p.book.Owe(spec.Name, outcome.Loss{Missed: 1})
		return
	}
	p.refuse(name)
}

func (p *inbound) refuse(name []byte) {
	p.unwanted++
	if p.book.refuse(name) {
		p.notices.Add("%v sends spans named %q, which no outcome observes", p.book.VM(), name)
	}
}

func (p *inbound) reject(s ledger.Schedule, name, text []byte, err error) {
	p.rejected++
	p.last.Add(text, err)
	p.book.reject(s, name, text, err)
}

// noteClock reports once for each connection that its times are off.
func (p *inbound) noteClock(format string, by int64) {
	if !p.clockOff {
		p.clockOff = true
		p.notices.Add(format, p.book.VM(), time.Duration(by).Round(time.Millisecond))
	}
}

// noteRejected reports the number of lines that were rejected since the last call.
func (p *inbound) noteRejected() {
	p.book.mu.Lock()
	defer p.book.mu.Unlock()
	if r := p.last.Take(); r.Count > 0 {
		p.notices.Add("%v: %d lines rejected, the last one %s", p.book.VM(), r.Count, r.Last)
	}
}

// finish counts the incomplete line at the end of the connection.
func (p *inbound) finish() {
	p.book.mu.Lock()
	defer p.book.mu.Unlock()
	if text := p.lines.Rest(); len(text) > 0 {
		p.received++
		p.reject(p.schedule(), nil, text, errHalf)
	}
}

func (p *inbound) peer(active bool) Peer {
	p.book.mu.Lock()
	defer p.book.mu.Unlock()
	return Peer{
		Address:   p.conn.RemoteAddr().String(),
		VM:        p.book.VM(),
		Direction: Inbound,
		Connected: true,
		Active:    active,
		Lines:     p.received,
		Rejected:  p.rejected,
		Unwanted:  p.unwanted,
	}
}
