package scope

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/trace"
)

// MaxShares is how many shares of its time a window has. Further ones are summed.
const MaxShares = 16

// A Cause is what the time of explained instances went to: a kind of thing, done by the
// process that an instance is of, or by another one. That goes by its name where it has
// one, as processes that serve one request come and go.
type Cause struct {
	Kind    trace.Kind
	Own     bool
	Name    string    // of another process
	Process trace.PID // of another one that has no name; 0 where it is not known
}

// causeOf returns what a share of an instance's time went to.
func causeOf(s *trace.Share) Cause {
	switch {
	case s.Own:
		return Cause{Kind: s.Kind, Own: true}
	case s.Name != "":
		return Cause{Kind: s.Kind, Name: s.Name}
	}
	return Cause{Kind: s.Kind, Process: s.Process}
}

// String says in a few words what the time went to, as "waiting in the mailbox of queue_2".
func (c Cause) String() string { return c.share(Doubt{}).What() }

// share returns what goes to a cause in the form in which it goes to one of an instance.
func (c Cause) share(d Doubt) *trace.Share {
	return &trace.Share{Kind: c.Kind, Own: c.Own, Name: c.Name, Process: c.Process, Mark: d.Mark, Reason: d.Reason}
}

// A Share is what part of the time of a window's explained instances went to a cause.
type Share struct {
	Cause Cause
	Time  time.Duration
	Of    float64 // of the time of all
	Usual float64 // likewise, in the quiet windows before; 0 where there were none

	Doubt
}

// A Doubt says what is not certain of time that went to a cause.
type Doubt struct {
	Mark trace.Mark // that of the least certain part

	// Reason says why nothing better is known of the longest part, and whether that is not
	// the reason of all others too; "" where there is nothing to say.
	Reason string
}

// String says in a few words what the time went to, and what is not certain of that, as
// "waiting in the mailbox of queue_2 (inferred)".
func (s *Share) String() string { return s.Cause.share(s.Doubt).Brief() }

// Explained says where the time of the instances of a window went, as far as these have
// a trace: the worst ones. A window is quiet where no trigger of the probe fires or is
// active.
type Explained struct {
	Instances int           // that have a trace
	Total     time.Duration // of them all

	// Shares are the largest, the largest first; what further causes come to is Others.
	// All of them add up to Total.
	Shares []Share
	Others time.Duration
	Causes int // that Others is of

	Quiet int    // windows before that had explained instances: what is usual is of them
	Shift *Shift // nil where nothing has grown for some windows in a row
}

// UsualOthers returns what share all causes without a share of their own had in the quiet
// windows before; 0 where there were none.
func (x *Explained) UsualOthers() float64 {
	if x.Quiet == 0 {
		return 0
	}
	rest := 1.0
	for i := range x.Shares {
		rest -= x.Shares[i].Usual
	}
	return max(rest, 0) // rounding
}

// A Shift is the cause whose share has grown most against the quiet windows before. One that is
// part of [Explained] has shown in several windows in a row, and stays until it is over.
type Shift struct {
	Cause    Cause
	Since    time.Time // wall time of the end of the window from which on it is closer to To
	From, To float64   // shares in the quiet windows before that one, and now: the median of the last windows

	Doubt // about what it is now
}

// String says in a sentence what has grown, and since when in UTC: frames, and what is kept
// of them, say the same wherever they are read.
func (s *Shift) String() string {
	what := s.Cause.share(s.Doubt).Brief()
	return fmt.Sprintf("since %s %s grew from %s to %s", s.Since.UTC().Format("15:04:05 UTC"), what, Percent(s.From), Percent(s.To))
}

// Sentence says in a sentence where the time went: what has grown or, where nothing has,
// the largest share.
func (x *Explained) Sentence() string {
	switch {
	case x.Shift != nil:
		return x.Shift.String()
	case len(x.Shares) == 0:
		return ""
	}
	largest := &x.Shares[0]
	instances := "1 instance"
	if x.Instances > 1 {
		instances = fmt.Sprintf("%d instances", x.Instances)
	}
	return fmt.Sprintf("%s of the time of %s %s", Percent(largest.Of), instances, largest.Cause.share(largest.Doubt).Clause())
}

// clone returns a copy that holds for good; nil of nil.
func (x *Explained) clone() *Explained {
	if x == nil {
		return nil
	}
	c := *x
	c.Shares = slices.Clone(x.Shares)
	if x.Shift != nil {
		shift := *x.Shift
		c.Shift = &shift
	}
	return &c
}

// Percent shows a share in percent, without decimals.
func Percent(share float64) string {
	const whole = 1e9
	return trace.Percent(int64(share*whole), whole)
}

// WorstExplained returns the worst of the instances that has a trace, nil where none has.
func (p *Probe) WorstExplained() *outcome.Instance {
	at := slices.IndexFunc(p.Instances, func(i outcome.Instance) bool { return i.Trace != nil })
	if at < 0 {
		return nil
	}
	return &p.Instances[at]
}

// explanation says why the instances of the window took so long: what has grown, nil where
// nothing has, and then what the worst one's time went to.
func (p *Probe) explanation(grown *Shift) string {
	var parts []string
	if grown != nil {
		parts = append(parts, grown.String())
	}
	if i := p.WorstExplained(); i != nil {
		parts = append(parts, i.Trace.Sentence(i.Name()))
	}
	return strings.Join(parts, "; ")
}
