package trace

import (
	"cmp"
	"slices"
)

// A Share is the part of an instance's time that one process spent on one kind of activity for one
// reason.
type Share struct {
	Kind    Kind
	Process PID    // as in spans
	Name    string // "" if unknown
	Own     bool   // Process is the process of the instance

	// Via is the last process on the way to the longest part, other than Process and the process of
	// the instance; 0 if there is none.
	Via     PID
	ViaName string

	// Other is the other process of the longest part.
	Other     PID
	OtherName string

	Behind    int // the most of any part
	Overtaken int // the most of any part
	Detail    string
	Reason    string
	Mark      Mark // mark of the least certain part
	Duration  int64
}

// Shares returns where the time of the instance went, the largest part first. The durations, in
// nanoseconds, are greater than 0 and add up to that of the root.
func (t *Trace) Shares() []Share {
	type key struct {
		kind           Kind
		process        PID
		detail, reason string
	}
	var shares []Share
	index := make(map[key]int)
	longest := make(map[int]int64) // of the parts of a share
	for i, s := range t.Leaves() {
		if s.Duration() <= 0 {
			continue
		}
		k := key{s.Kind, s.Process, s.Detail, s.Reason}
		at, known := index[k]
		if !known {
			at = len(shares)
			index[k] = at
			shares = append(shares, Share{
				Kind: s.Kind, Process: s.Process, Own: t.own(i),
				Detail: s.Detail, Reason: s.Reason,
			})
		}
		share := &shares[at]
		share.Duration += s.Duration()
		share.Behind = max(share.Behind, s.Behind)
		share.Overtaken = max(share.Overtaken, s.Overtaken)
		share.Mark = max(share.Mark, s.Mark)
		share.Name = cmp.Or(share.Name, s.Name)
		if s.Duration() > longest[at] {
			longest[at] = s.Duration()
			share.Other, share.OtherName = s.Other, s.OtherName
			share.Via, share.ViaName = t.via(i)
		}
	}
	slices.SortStableFunc(shares, func(a, b Share) int { return -cmp.Compare(a.Duration, b.Duration) })
	return shares
}

// Part returns a span as a share, as if it were the only part of that kind.
func (t *Trace) Part(i int) Share {
	s := &t.Spans[i]
	return Share{
		Kind: s.Kind, Process: s.Process, Name: s.Name, Own: t.own(i), Other: s.Other, OtherName: s.OtherName,
		Behind: s.Behind, Overtaken: s.Overtaken, Detail: s.Detail, Reason: s.Reason, Mark: s.Mark, Duration: s.Duration(),
	}
}

// own reports whether the process of a span is the instance's own process.
func (t *Trace) own(i int) bool {
	return t.Spans[i].Process != 0 && t.Spans[i].Process == t.Spans[0].Process
}

// via returns the last process on the way from the root to a span that is neither the root's
// process nor the span's own.
func (t *Trace) via(i int) (PID, string) {
	own := t.Spans[i].Process
	for p := t.Spans[i].Parent; p > 0; p = t.Spans[p].Parent {
		if s := &t.Spans[p]; s.Process != 0 && s.Process != own && s.Process != t.Spans[0].Process {
			return s.Process, s.Name
		}
	}
	return 0, ""
}
