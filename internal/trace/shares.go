package trace

import (
	"cmp"
	"slices"
)

// A Share is the part of an instance's time that was spent in one way: by one process,
// on one kind of thing, for one reason.
type Share struct {
	Kind    Kind
	Process PID    // as of the spans
	Name    string // "" where it is not known
	Own     bool   // Process is that of the instance itself

	// Via is the last process, neither Process nor that of the instance, over which one
	// comes there, of the longest part; 0 where there is none.
	Via     PID
	ViaName string

	// Other is that of the longest part.
	Other     PID
	OtherName string

	Behind    int // the most of any part
	Overtaken int // the most of any part
	Detail    string
	Reason    string
	Mark      Mark // that of the least certain part
	Duration  int64
}

// Shares returns what the time of the instance was spent on, the largest part first.
// The durations, in nanoseconds, are greater than 0 and add up to that of the root.
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

// Part returns what a span's time was, as if it were all that was spent so.
func (t *Trace) Part(i int) Share {
	s := &t.Spans[i]
	return Share{
		Kind: s.Kind, Process: s.Process, Name: s.Name, Own: t.own(i), Other: s.Other, OtherName: s.OtherName,
		Behind: s.Behind, Overtaken: s.Overtaken, Detail: s.Detail, Reason: s.Reason, Mark: s.Mark, Duration: s.Duration(),
	}
}

// own tells whether the process of a span is that of the instance itself.
func (t *Trace) own(i int) bool {
	return t.Spans[i].Process != 0 && t.Spans[i].Process == t.Spans[0].Process
}

// via returns the last process on the way from the root to a span that is neither that
// of the root nor its own.
func (t *Trace) via(i int) (PID, string) {
	own := t.Spans[i].Process
	for p := t.Spans[i].Parent; p > 0; p = t.Spans[p].Parent {
		if s := &t.Spans[p]; s.Process != 0 && s.Process != own && s.Process != t.Spans[0].Process {
			return s.Process, s.Name
		}
	}
	return 0, ""
}
