//go:build linux

package main

import (
	"iter"

	"github.com/beamscope/beamscope/internal/explain/trace"
)

// An accuracy compares inferred senders with the certain senders of the same messages.
type accuracy struct {
	messages  int // with a certain sender
	right     int // with the right inferred sender
	wrong     int // with a wrong inferred sender
	ambiguous int
	none      int // without an inferred sender
}

// precision returns the share of inferred senders that are right.
func (a accuracy) precision() float64 { return float64(a.right) / float64(max(1, a.right+a.wrong)) }

// recall returns the share of all messages with the right inferred sender.
func (a accuracy) recall() float64 { return float64(a.right) / float64(max(1, a.messages)) }

// A receipt is the receipt of a message: a process takes one message at a time.
type receipt struct {
	by trace.PID
	at int64
}

// compare returns the accuracy of inferred edges. It compares them with the exact edges of the same
// messages.
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
