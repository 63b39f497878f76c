package main

import (
	"encoding/gob"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/trace"
)

func loadGob(name string) []bpf.Event {
	f, err := os.Open(name)
	if err != nil {
		panic(err)
	}
	var ev []bpf.Event
	gob.NewDecoder(f).Decode(&ev)
	return ev
}

var kinds = []string{"", "Watch", "Unwatched", "SpanStart", "SpanEnd", "In", "Out", "GC+", "GC-", "NIF+", "NIF-", "Send", "Queued", "Receive", "Suspend", "Exit", "OSWait", "Neighbour"}

func TestTmpLook(t *testing.T) {
	in := os.Getenv("IN")
	if in == "" {
		t.Skip()
	}
	ev := loadGob(in)
	n := map[string]int{}
	type tok struct {
		to      uint64
		l, p, c int32
	}
	sends := map[tok]int{}
	var matched, recvTok, recvNo, dup int
	for _, e := range ev {
		n[kinds[e.Kind]]++
		switch e.Kind {
		case bpf.EventSend:
			if e.Label != 0 || e.Cur != 0 {
				n["send+tok"]++
				k := tok{e.Other, e.Label, e.Prev, e.Cur}
				if sends[k] > 0 {
					dup++
				}
				sends[k]++
			}
			if e.Alias {
				n["send alias"]++
			}
		case bpf.EventReceive:
			k := tok{e.Process, e.Label, e.Prev, e.Cur}
			if e.Label != 0 || e.Cur != 0 {
				recvTok++
				if sends[k] > 0 {
					matched++
				}
			} else {
				recvNo++
			}
		}
	}
	fmt.Println(n, "recv with token", recvTok, "matched", matched, "dup sends", dup, "without", recvNo)
	from, _ := strconv.Atoi(os.Getenv("FROM"))
	cnt, _ := strconv.Atoi(os.Getenv("N"))
	if cnt == 0 {
		return
	}
	// from'th span start
	k := 0
	for i, e := range ev {
		if e.Kind == bpf.EventSpanStart {
			if k++; k >= from {
				t0 := e.Time
				for _, e := range ev[i:min(len(ev), i+cnt)] {
					fmt.Printf("%9.1f t%d %-9s %-12v o=%-12v sz=%d tok=%x/%d/%d in=%d al=%v st=%d red=%d id=%d %s\n", float64(e.Time-t0)/1000, e.Thread, kinds[e.Kind], trace.PID(e.Process), trace.PID(e.Other), e.Size, e.Label, e.Prev, e.Cur, e.Inner, e.Alias, e.State, e.Reductions, e.ID, e.Text)
				}
				return
			}
		}
	}
}
