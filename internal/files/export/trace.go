package export

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/beamscope/beamscope/internal/beam/modname"
	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/worst"
	"github.com/beamscope/beamscope/internal/explain/trace"
	"github.com/beamscope/beamscope/internal/host/safetext"
)

// WriteTrace writes where the time of an instance went: how it ended, one sentence, and the tree.
// fitted means that beamscope chose dMax. start is the wall time of its start. It folds spans of less than
// 1 % unless all is set.
func WriteTrace(w io.Writer, i *outcome.Instance, fitted bool, start time.Time, all bool) error {
	root := &i.Trace.Spans[0]
	line := fmt.Sprintf("%s: %s, start %s, %v, %s", i.Name(), howEnded(i, fitted), start.Format("15:04:05.000"), i.VM, trace.ProcessName(root.Process, root.Name))
	safetext.Fprintln(w, line)
	if s := i.Trace.Sentence(i.Name()); s != "" {
		safetext.Fprintln(w, s)
	}
	return i.Trace.WriteText(w, i.Name(), all)
}

// howEnded describes how an instance ended, and after which time.
func howEnded(i *outcome.Instance, fitted bool) string {
	took := figures.Delay(i.Elapsed())
	switch {
	case fitted && i.Status == outcome.Timeout:
		return fmt.Sprintf("took longer than %s, a limit that beamscope chose", took)
	case i.Class != "":
		return fmt.Sprintf("%v %s after %s", i.Status, modname.Readable(i.Class), took)
	}
	return fmt.Sprintf("%v after %s", i.Status, took)
}

// traceLine is the format of `beamscope trace --json`.
type traceLine struct {
	Outcome  string    `json:"outcome"`
	ID       uint64    `json:"id"`
	Parent   uint64    `json:"parent_id,omitempty"`
	VM       vm        `json:"vm"`
	Status   string    `json:"status"`
	Class    string    `json:"class,omitempty"`         // class of a failure
	Fitted   float64   `json:"fitted_dmax_s,omitempty"` // dMax if beamscope chose it and a timeout took longer: it may have succeeded
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
	Own       bool    `json:"own"` // time of the instance's own process
	Via       string  `json:"via,omitempty"`
	ViaName   string  `json:"via_name,omitempty"`
	spentTime         // describes the longest part
}

// span contains times relative to the start of the instance.
type span struct {
	Parent int   `json:"parent"` // index among the spans, -1 for the first
	Start  int64 `json:"start_ns"`
	End    int64 `json:"end_ns"`
	Parts  int   `json:"parts,omitempty"` // number of parts that it combines, which alternated with others
	spentTime
	Link *link `json:"link,omitempty"`
}

// spentTime describes where time was spent.
type spentTime struct {
	Kind      string `json:"kind"`
	Process   string `json:"process,omitempty"`
	Name      string `json:"name,omitempty"`
	Mark      string `json:"mark"`
	Other     string `json:"other,omitempty"`
	OtherName string `json:"other_name,omitempty"`
	Behind    int    `json:"behind,omitempty"`
	Overtaken int    `json:"overtaken,omitempty"`
	Detail    string `json:"detail,omitempty"`
	Reason    string `json:"reason,omitempty"`
}

// link is a message. Its times are relative to the start of the instance, and may be negative.
type link struct {
	From     string `json:"from"`
	To       string `json:"to"`
	Sent     *int64 `json:"sent_ns"`     // null if unknown
	Received *int64 `json:"received_ns"` // null if unknown
	Mark     string `json:"mark"`
}

// Trace writes where the time of an instance went, as an object. start is the wall time of its
// start.
func (j *JSON) Trace(i *outcome.Instance, fitted bool, start time.Time) error {
	line := traceLine{
		Outcome: i.Outcome, ID: i.ID, Parent: i.Parent, VM: vm{i.VM.PID, i.VM.Node}, Status: i.Status.String(), Class: i.Class,
		Start: start.UTC(), Began: i.Start, Duration: int64(i.Elapsed()), Sentence: i.Trace.Sentence(i.Name()),
		Shares: []share{},
	}
	if fitted && i.Status == outcome.Timeout {
		line.Fitted = i.Elapsed().Seconds()
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
	return spentTime{s.Kind.Word(), pidOf(s.Process), s.Name, s.Mark.String(), pidOf(s.Other), s.OtherName, s.Behind, s.Overtaken, s.Detail, s.Reason}
}

// mostTotal is the largest number of shares of a total in a text, and leastTotal the least share.
const (
	mostTotal  = 5
	leastTotal = 0.01
)

// WriteTotals writes where the time of all explained instances went, in one line for each
// outcome, or for each outcome and VM if there are several VMs.
func WriteTotals(w io.Writer, totals []*worst.Total) error {
	several := slices.ContainsFunc(totals, func(t *worst.Total) bool { return t.VM != totals[0].VM })
	var b strings.Builder
	for _, t := range totals {
		name := t.Outcome
		if several {
			name += fmt.Sprintf(" of %v", t.VM)
		}
		writeTotal(&b, name, &t.Tally)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeTotal writes a total with this name on one line.
func writeTotal(b *strings.Builder, name string, t *scope.Tally) {
	shares, _ := t.Shares()
	var parts []string
	rest := 1.0
	for _, s := range shares {
		if len(parts) < mostTotal && s.Of >= leastTotal {
			parts = append(parts, scope.Percent(s.Of)+" "+s.String())
			rest -= s.Of
		}
	}
	if len(parts) < t.Causes() && rest > 1e-9 { // tolerates rounding
		parts = append(parts, scope.Percent(rest)+" other")
	}
	instances := "1 instance"
	if t.Instances != 1 {
		instances = fmt.Sprintf("%d instances", t.Instances)
	}
	safetext.Fprintf(b, "%s, %s explained, %s: %s\n", name, instances, figures.Delay(t.Total), strings.Join(parts, ", "))
}

// totalLine is the format of the last lines of `beamscope trace --json`.
type totalLine struct {
	Outcome string      `json:"outcome"`
	VM      vm          `json:"vm"`
	N       int         `json:"n"` // number of explained instances
	Total   int64       `json:"total_ns"`
	Shares  []timeShare `json:"shares"` // the largest first; they add up to the total
}

// Total writes where the time of all explained instances of an outcome in a VM went, as
// an object.
func (j *JSON) Total(t *worst.Total) error {
	shares, others := t.Shares()
	return j.enc.Encode(totalLine{
		Outcome: t.Outcome, VM: vm{t.VM.PID, t.VM.Node}, N: t.Instances, Total: int64(t.Total), Shares: timeShares(shares, others, t.Total),
	})
}

// linkOf converts a link, or returns nil for none.
func linkOf(l trace.Link, start int64) *link {
	if l == (trace.Link{}) {
		return nil
	}
	out := &link{From: pidOf(l.From), To: pidOf(l.To), Mark: l.Mark.String()}
	since := func(at int64) *int64 {
		if at == 0 {
			return nil
		}
		at -= start
		return &at
	}
	out.Sent, out.Received = since(l.Sent), since(l.Received)
	return out
}

// pidOf formats a process, or returns "" for none.
func pidOf(p trace.PID) string {
	if p == 0 {
		return ""
	}
	return p.String()
}
