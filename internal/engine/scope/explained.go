package scope

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/explain/trace"
)

// MaxShares is the largest number of shares of a window. Further ones are summed.
const MaxShares = 16

// A Cause is a kind of activity of a process: the process of the instance, or another one. A
// process with a name is identified by the name, because several processes may serve one request.
type Cause struct {
	Kind    trace.Kind
	Own     bool
	Name    string    // name of another process
	Process trace.PID // pid of another process without a name; 0 if unknown
}

// causeOf returns the cause of a share of an instance's time.
func causeOf(s *trace.Share) Cause {
	switch {
	case s.Own:
		return Cause{Kind: s.Kind, Own: true}
	case s.Name != "":
		return Cause{Kind: s.Kind, Name: s.Name}
	}
	return Cause{Kind: s.Kind, Process: s.Process}
}

// String describes the cause in a few words, such as "waiting in the mailbox of queue_2".
func (c Cause) String() string { return c.share(Doubt{}).What() }

// share returns the cause as a share of an instance.
func (c Cause) share(d Doubt) *trace.Share {
	return &trace.Share{Kind: c.Kind, Own: c.Own, Name: c.Name, Process: c.Process, Mark: d.Mark, Reason: d.Reason}
}

// A Share is the part of the time of a window's explained instances that went to one cause.
type Share struct {
	Cause Cause
	Time  time.Duration
	Of    float64 // part of the total time
	Usual float64 // share in the quiet windows before; 0 if there were none

	Doubt
}

// A Doubt describes the uncertainty of the time of a cause.
type Doubt struct {
	Mark trace.Mark // mark of the least certain part

	// Reason explains why nothing better is known about the longest part, and mentions if other
	// parts have other reasons. It is "" without a reason.
	Reason string
}

// String describes the cause and its uncertainty in a few words, such as "waiting in the mailbox
// of queue_2 (inferred)".
func (s *Share) String() string { return s.Cause.share(s.Doubt).Brief() }

// Explained describes where the time of the explained instances of a window went. These are the
// worst ones, which have a trace. A window is quiet if no trigger of the outcome fires or is
// active.
type Explained struct {
	Instances int           // number of instances with a trace
	Total     time.Duration // time of all instances

	// Shares are the largest shares, the largest first. Others is the sum of all further causes.
	// Together they add up to Total.
	Shares []Share
	Others time.Duration
	Causes int // number of causes in Others

	Quiet int    // number of earlier quiet windows with explained instances, from which the usual shares come
	Shift *Shift // nil if no share has grown for some windows in a row
}

// UsualOthers returns the share, in the quiet windows before, of all causes without a share of
// their own; 0 if there were no such windows.
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

// A Shift is the cause whose share has grown most compared with the quiet windows before. A Shift
// in [Explained] has shown in several windows in a row, and stays until it is over.
type Shift struct {
	Cause    Cause
	Since    time.Time // wall time of the end of the first window whose share is closer to To
	From, To float64   // shares in the quiet windows before that one, and now: the median of the last windows

	Doubt // uncertainty of the present share
}

// String describes in a sentence which share has grown, and since when in UTC, so that the text
// of a frame is the same everywhere.
func (s *Shift) String() string {
	what := s.Cause.share(s.Doubt).Brief()
	return fmt.Sprintf("since %s %s grew from %s to %s", s.Since.UTC().Format("15:04:05 UTC"), what, Percent(s.From), Percent(s.To))
}

// Sentence describes in a sentence where the time went: the share that has grown or, if none has,
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

// clone returns a copy that stays valid, or nil for nil.
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

// Percent formats a share in percent, without decimals.
func Percent(share float64) string {
	const whole = 1e9
	return trace.Percent(int64(share*whole), whole)
}

// WorstExplained returns the worst instance with a trace, or nil.
func (p *Outcome) WorstExplained() *outcome.Instance {
	at := slices.IndexFunc(p.Instances, func(i outcome.Instance) bool { return i.Trace != nil })
	if at < 0 {
		return nil
	}
	return &p.Instances[at]
}

// explanation explains why the instances of the window took so long: first which share has grown,
// if any, and then where the time of the worst one went.
func (p *Outcome) explanation(grown *Shift) string {
	var parts []string
	if grown != nil {
		parts = append(parts, grown.String())
	}
	if i := p.WorstExplained(); i != nil {
		parts = append(parts, i.Trace.Sentence(i.NameAndEnd()))
	}
	return strings.Join(parts, "; ")
}
