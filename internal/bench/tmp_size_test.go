package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/beamscope/beamscope/bpf"
)

func TestTmpSize(t *testing.T) {
	in := os.Getenv("IN")
	if in == "" {
		t.Skip()
	}
	ev := loadGob(in)
	type tok struct {
		to      uint64
		l, p, c int32
	}
	sends := map[tok]bpf.Event{}
	diff := map[int]int{}
	neg := map[string]int{}
	qr := map[tok]uint32{}
	qrdiff := map[int]int{}
	for _, e := range ev {
		k := tok{e.Other, e.Label, e.Prev, e.Cur}
		switch e.Kind {
		case bpf.EventSend:
			if e.Cur != 0 {
				sends[k] = e
			}
		case bpf.EventQueued:
			k.to = e.Process
			qr[k] = e.Size
		case bpf.EventReceive:
			k.to = e.Process
			if s, ok := sends[k]; ok {
				d := int(e.Size) - int(s.Size)
				diff[d]++
				if d < 0 {
					neg[fmt.Sprintf("%d->%d", s.Size, e.Size)]++
				}
			}
			if q, ok := qr[k]; ok && e.Cur != 0 {
				qrdiff[int(e.Size)-int(q)]++
			}
		}
	}
	fmt.Println("diff", diff, "neg", neg, "queued-receive", qrdiff)
}
