package export

import (
	"fmt"
	"io"
	"time"

	"github.com/beamscope/beamscope/internal/figures"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/trace"
)

// WriteTrace writes where the time of an instance went as text, for people: how it
// ended, one sentence, and the tree. start is when it began, by the clock on the wall.
// Spans of less than 1 % of it are folded unless all are wanted.
func WriteTrace(w io.Writer, i *outcome.Instance, start time.Time, all bool) error {
	root := &i.Trace.Spans[0]
	how := i.Status.String()
	if i.Class != "" {
		how += " " + i.Class
	}
	fmt.Fprintf(w, "%s: %s after %s, start %s, %v, %s\n", InstanceName(i), how, figures.Delay(i.Elapsed()),
		start.Format("15:04:05.000"), i.VM, trace.ProcessName(root.Process, root.Name))
	if s := i.Trace.Sentence(InstanceName(i)); s != "" {
		fmt.Fprintln(w, s)
	}
	return i.Trace.WriteText(w, InstanceName(i), all)
}

// InstanceName is what an instance is called: its outcome and the id of its span.
func InstanceName(i *outcome.Instance) string { return fmt.Sprintf("%s #%d", i.Outcome, i.ID) }

// traceLine is the format of `beamscope trace --json`.
type traceLine struct {
	Outcome  string    `json:"outcome"`
	ID       uint64    `json:"id"`
	Parent   uint64    `json:"parent_id,omitempty"`
	VM       vm        `json:"vm"`
	Status   string    `json:"status"`
	Class    string    `json:"class,omitempty"` // of a failure
	Start    time.Time `json:"start"`
	Began    int64     `json:"start_monotonic_ns"`
	Duration int64     `json:"duration_ns"`
	Sentence string    `json:"sentence"`
	Shares   []share   `json:"shares"` // the largest first
	Spans    []span    `json:"spans"`  // the instance itself first
}

type share struct {
	Share     float64 `json:"share"`
	Duration  int64   `json:"duration_ns"`
	Own       bool    `json:"own"` // of the process of the instance itself
	Via       string  `json:"via,omitempty"`
	ViaName   string  `json:"via_name,omitempty"`
	spentTime         // of the longest part
}

// span has its times since the start of the instance.
type span struct {
	Parent int   `json:"parent"` // index among the spans, -1 for the first
	Start  int64 `json:"start_ns"`
	End    int64 `json:"end_ns"`
	Parts  int   `json:"parts,omitempty"` // that it stands for, which took turns with others
	spentTime
	Link *link `json:"link,omitempty"`
}

// spentTime says what time was spent on.
type spentTime struct {
	Kind      string `json:"kind"`
	Process   string `json:"process,omitempty"`
	Name      string `json:"name,omitempty"`
	Mark      string `json:"mark"`
	Other     string `json:"other,omitempty"`
	OtherName string `json:"other_name,omitempty"`
	Behind    int    `json:"behind,omitempty"`
	Detail    string `json:"detail,omitempty"`
	Reason    string `json:"reason,omitempty"`
}

// link is a message, with its times since the start of the instance; they may be
// before it.
type link struct {
	From     string `json:"from"`
	To       string `json:"to"`
	Sent     int64  `json:"sent_ns"`
	Received *int64 `json:"received_ns"` // null where it was not
	Mark     string `json:"mark"`
}

// Trace writes where the time of an instance went, as an object. start is when it
// began, by the clock on the wall.
func (j *JSON) Trace(i *outcome.Instance, start time.Time) error {
	line := traceLine{
		Outcome: i.Outcome, ID: i.ID, Parent: i.Parent, VM: vm{i.VM.PID, i.VM.Node}, Status: i.Status.String(), Class: i.Class,
		Start: start.UTC(), Began: i.Start, Duration: int64(i.Elapsed()), Sentence: i.Trace.Sentence(InstanceName(i)),
		Shares: []share{},
	}
	root := &i.Trace.Spans[0]
	for _, s := range i.Trace.Shares() {
		line.Shares = append(line.Shares, share{
			Share: float64(s.Duration) / float64(root.Duration()), Duration: s.Duration, Own: s.Own, Via: pidOf(s.Via), ViaName: s.ViaName,
			spentTime: spentOn(&s),
		})
	}
	for n := range i.Trace.Spans {
		s, part := &i.Trace.Spans[n], i.Trace.Part(n)
		line.Spans = append(line.Spans, span{
			Parent: s.Parent, Start: s.Start - root.Start, End: s.End - root.Start, Parts: s.Parts, Link: linkOf(s.Link, root.Start),
			spentTime: spentOn(&part),
		})
	}
	return j.enc.Encode(line)
}

func spentOn(s *trace.Share) spentTime {
	return spentTime{s.Kind.Word(), pidOf(s.Process), s.Name, s.Mark.String(), pidOf(s.Other), s.OtherName, s.Behind, s.Detail, s.Reason}
}

// linkOf returns the form of a link, nil for none.
func linkOf(l trace.Link, start int64) *link {
	if l == (trace.Link{}) {
		return nil
	}
	out := &link{From: pidOf(l.From), To: pidOf(l.To), Sent: l.Sent - start, Mark: l.Mark.String()}
	if l.Received != 0 {
		received := l.Received - start
		out.Received = &received
	}
	return out
}

// pidOf writes a process; "" for none.
func pidOf(p trace.PID) string {
	if p == 0 {
		return ""
	}
	return p.String()
}
