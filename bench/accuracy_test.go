//go:build linux

package main

import (
	"slices"
	"testing"

	"github.com/beamscope/beamscope/internal/explain/trace"
)

func TestCompare(t *testing.T) {
	truth := []trace.Link{
		{From: 1, To: 9, Sent: 10, Received: 20, Mark: trace.Exact},
		{From: 2, To: 9, Sent: 11, Received: 21, Mark: trace.Exact},
		{From: 1, To: 9, Sent: 12, Received: 22, Mark: trace.Exact},
		{From: 1, To: 8, Sent: 13, Received: 22, Mark: trace.Exact},
		{From: 1, To: 8, Sent: 14, Received: 23, Mark: trace.Exact},
		{From: 1, To: 8, Sent: 15, Mark: trace.Exact},                   // was not received
		{From: 1, To: 7, Sent: 16, Received: 24, Mark: trace.Inferred},  // had no token
		{From: 1, To: 7, Sent: 17, Received: 25, Mark: trace.Ambiguous}, // two had one
	}
	inferred := []trace.Link{
		{From: 1, To: 9, Sent: 10, Received: 20, Mark: trace.Inferred},
		{From: 1, To: 9, Sent: 12, Received: 21, Mark: trace.Inferred},
		{To: 9, Received: 22, Mark: trace.Ambiguous},
		{From: 1, To: 8, Sent: 13, Received: 22, Mark: trace.Inferred},
		{From: 1, To: 8, Sent: 15, Mark: trace.Inferred},
		{From: 1, To: 7, Sent: 16, Received: 24, Mark: trace.Inferred},
	}
	got := compare(slices.Values(truth), slices.Values(inferred))
	want := accuracy{messages: 5, right: 2, wrong: 1, ambiguous: 1, none: 1}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if p, r := got.precision(), got.recall(); p != 2.0/3 || r != 0.4 {
		t.Errorf("precision %v, recall %v; want 2/3 and 0.4", p, r)
	}
	if nothing := (accuracy{}); nothing.precision() != 0 || nothing.recall() != 0 {
		t.Error("nothing is not nothing")
	}
}
