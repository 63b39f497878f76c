package ring

import (
	"math"
	"runtime"
	"testing"
)

// A countingSink accepts spans with name 1, which time out 100 ns after their start.
type countingSink struct {
	asked, timedOuts, noRooms int
}

func (*countingSink) started(*span)          {}
func (*countingSink) ended(*ended)           {}
func (*countingSink) stray(*record, fate)    {}
func (s *countingSink) timedOut(*span, bool) { s.timedOuts++ }
func (s *countingSink) noRoom(*span)         { s.noRooms++ }
func (s *countingSink) deadline(sp *span) (int64, bool) {
	s.asked++
	return sp.start + 100, sp.name == 1
}

// startMany starts spans in each of 255 rings.
func startMany(p *pairer, name uint16, spans uint64) {
	for ring := range uint64(maxRings) {
		for slot := uint64(name) * spans; slot < uint64(name+1)*spans; slot++ {
			p.add(&record{kind: start, name: name, time: 5, span: SpanID(1<<classShift | ring<<ringShift | slot)})
		}
	}
}

// The open spans of all VMs of a user take bounded memory, whatever the VMs write. Spans without
// room are counted, and spans that end or time out free their room.
func TestOpenSpansTakeBoundedMemory(t *testing.T) {
	const vms, spans = 30, 600
	for name := range uint16(2) {
		room := newRoom(nil, maxRoom)
		sink := &countingSink{}
		var all []*pairer
		before := heap()
		for range vms {
			p := newPairer(func(SpanID) fate { return gone }, sink, room, recentSlots)
			startMany(p, name, spans)
			all = append(all, p)
		}
		if grown := heap() - before; grown > 100<<20 {
			t.Errorf("name %d: %d MiB for %d VMs", name, grown>>20, vms)
		}
		for _, p := range all {
			p.sweep(1000)
		}
		if got := sink.timedOuts + sink.noRooms; name == 1 && got != vms*maxRings*spans {
			t.Errorf("%d timed out and %d had no room, of %d", sink.timedOuts, sink.noRooms, vms*maxRings*spans)
		}
		for _, p := range all {
			p.abandon()
		}
		if left := room.left.Load(); left != maxRoom {
			t.Errorf("name %d: room for %d of %d spans at the end", name, left, maxRoom)
		}
		runtime.KeepAlive(all)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A sweep does not examine rings without open spans.
func TestSweepOfQuietRings(t *testing.T) {
	sink := &countingSink{}
	p := newPairer(func(SpanID) fate { return gone }, sink, newRoom(nil, maxRoom), recentSlots)
	startMany(p, 1, 10)
	startMany(p, 0, 10)
	p.sweep(50)
	sink.asked = 0
	p.sweep(60)
	if sink.asked != 0 || sink.timedOuts != 0 {
		t.Errorf("asked for %d deadlines, %d timed out", sink.asked, sink.timedOuts)
	}
	p.sweep(math.MaxInt64)
	if sink.timedOuts != 10*maxRings {
		t.Errorf("%d of %d timed out", sink.timedOuts, 10*maxRings)
	}
}
