package main

import (
	"iter"

	"github.com/beamscope/beamscope/internal/trace"
)

// An accuracy says how many messages of which the sender is certain are found to be
// sent by it when that is inferred.
type accuracy struct {
	messages  int // of which the sender is certain
	right     int // that are inferred to be what they are
	wrong     int // that are inferred to be another message
	ambiguous int
	none      int // of which nothing is inferred
}

// precision returns the share of what is inferred that is right.
func (a accuracy) precision() float64 { return float64(a.right) / float64(max(1, a.right+a.wrong)) }

// recall returns the share of all messages that are inferred rightly.
func (a accuracy) recall() float64 { return float64(a.right) / float64(max(1, a.messages)) }

// A receipt is a message that was received: a process takes one at a time.
type receipt struct {
	by trace.PID
	at int64
}

// compare says how good inferred edges are, by others of the same messages of which the
// exact ones are true.
func compare(truth, inferred iter.Seq[trace.Link]) accuracy {
	found := make(map[receipt]trace.Link)
	for l := range inferred {
		if l.Received != 0 {
			found[receipt{l.To, l.Received}] = l
		}
	}
	var a accuracy
	for l := range truth {
		if l.Mark != trace.Exact || l.Received == 0 {
			continue
		}
		a.messages++
		got, any := found[receipt{l.To, l.Received}]
		switch {
		case !any:
			a.none++
		case got.Mark == trace.Ambiguous:
			a.ambiguous++
		case got.From == l.From && got.Sent == l.Sent:
			a.right++
		default:
			a.wrong++
		}
	}
	return a
}
