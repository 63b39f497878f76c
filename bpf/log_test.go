package bpf

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A fakeLog is a log that the test writes as the programs do.
type fakeLog struct {
	eventLog
}

func newFakeLog(stripes, perStripe int) *fakeLog {
	l := new(fakeLog)
	l.open(make([]kernelRecord, stripes*perStripe), make([]kernelLogHead, stripes), textReader{known: map[uint64]string{}})
	return l
}

// begin takes a place, as begin_record does; place is 0 if another program is still writing there.
func (l *fakeLog) begin(stripe int) (to *kernelRecord, place uint64) {
	size := uint64(len(l.records) / len(l.heads))
	place = atomic.AddUint64(&l.heads[stripe].Next, 1) - 1
	to = &l.records[uint64(stripe)*size+place%size]
	if atomic.SwapUint64(&to.Place, 0) == 0 && place >= size {
		return nil, 0
	}
	return to, place + 1
}

func (l *fakeLog) write(stripe int, r kernelRecord) {
	to, place := l.begin(stripe)
	if to == nil {
		return
	}
	fill(to, r)
	atomic.StoreUint64(&to.Place, place)
}

// fill writes all but the place, word by word.
func fill(to *kernelRecord, r kernelRecord) {
	const words = unsafe.Sizeof(r) / 8
	from, target := (*[words]uint64)(unsafe.Pointer(&r)), (*[words]uint64)(unsafe.Pointer(to))
	for i := 1; i < len(from); i++ {
		atomic.StoreUint64(&target[i], from[i])
	}
}

// times returns the times of the events that were logged before a time.
func (l *fakeLog) times(t testing.TB, before int64) (times []int64, lost uint64) {
	t.Helper()
	loss, err := l.read(before, math.MaxInt, func(batch []Event) {
		for _, e := range batch {
			times = append(times, e.Time)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return times, loss.Events
}

func at(now uint64) kernelRecord {
	return kernelRecord{Now: now, Kind: uint8(EventIn), Process: now}
}

// Logged events are passed on once, in order of time, and none newer than requested.
func TestLogOrder(t *testing.T) {
	l := newFakeLog(2, 8)
	l.write(0, at(10))
	l.write(1, at(5))
	l.write(0, at(30))
	l.write(1, at(20))
	l.write(1, at(15)) // took its time before the one ahead of it
	for _, test := range []struct {
		before int64
		want   []int64
	}{{5, nil}, {20, []int64{5, 10, 15}}, {20, nil}, {100, []int64{20, 30}}, {100, nil}} {
		got, lost := l.times(t, test.before)
		if diff := cmp.Diff(test.want, got); diff != "" || lost > 0 {
			t.Errorf("before %d: %d lost, -want +got:\n%s", test.before, lost, diff)
		}
	}
}

// A record that is being written is left to a later call, together with all after it in its stripe,
// unless it is overwritten by then.
func TestLogBeingWritten(t *testing.T) {
	l := newFakeLog(2, 4)
	l.write(0, at(1))
	to, place := l.begin(0)
	l.write(0, at(3))
	l.write(1, at(4))
	got, lost := l.times(t, 100)
	if diff := cmp.Diff([]int64{1, 4}, got); diff != "" || lost > 0 {
		t.Errorf("%d lost, -want +got:\n%s", lost, diff)
	}
	fill(to, at(2))
	atomic.StoreUint64(&to.Place, place)
	got, lost = l.times(t, 100)
	if diff := cmp.Diff([]int64{2, 3}, got); diff != "" || lost > 0 {
		t.Errorf("%d lost, -want +got:\n%s", lost, diff)
	}

	l.begin(0) // and never written
	for n := range uint64(5) {
		l.write(0, at(10+n))
	}
	got, lost = l.times(t, 100)
	if diff := cmp.Diff([]int64{11, 12}, got); diff != "" || lost != 2 {
		t.Errorf("%d lost, -want +got:\n%s", lost, diff)
	}
	got, lost = l.times(t, 100) // 13 would have been where something is being written still
	if diff := cmp.Diff([]int64{14}, got); diff != "" || lost != 1 {
		t.Errorf("%d lost, -want +got:\n%s", lost, diff)
	}
}

// However much is logged between calls, the newest records of each stripe are passed on, and all
// others are reported as lost, with the right time.
func TestLogLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stripes := rapid.IntRange(1, 3).Draw(t, "stripes")
		size := 1 << rapid.IntRange(0, 4).Draw(t, "size")
		l := newFakeLog(stripes, size)
		now, before := int64(0), int64(0)
		for range rapid.IntRange(1, 5).Draw(t, "calls") {
			written := make([][]int64, stripes)
			for range rapid.IntRange(0, 60).Draw(t, "events") {
				s := rapid.IntRange(0, stripes-1).Draw(t, "stripe")
				now++
				l.write(s, at(uint64(now)))
				written[s] = append(written[s], now)
			}
			held := len(l.found)
			want, wantLoss := 0, Loss{From: before}
			for _, times := range written {
				n := max(len(times)-size, 0)
				want += len(times) - n
				if n > 0 {
					wantLoss.Events += uint64(n)
					wantLoss.To = max(wantLoss.To, times[n])
				}
			}
			if wantLoss.Events == 0 {
				wantLoss = Loss{}
			}
			before = now + 1 - rapid.Int64Range(0, max(0, min(now-before, 5))).Draw(t, "left")
			events := 0
			loss, err := l.read(before, math.MaxInt, func(batch []Event) { events += len(batch) })
			if events += len(l.found) - held; err != nil || events != want || loss != wantLoss {
				t.Fatalf("%d events and %+v lost, want %d and %+v; error %v", events, loss, want, wantLoss, err)
			}
		}
	})
}

// A call passes on only a limited number of events, the newest of each stripe, however many were logged.
func TestLogLimit(t *testing.T) {
	l := newFakeLog(2, 64)
	for now := range uint64(60) {
		l.write(int(now%2), at(now+1))
	}
	var got []int64
	loss, err := l.read(100, 8, func(batch []Event) {
		for _, e := range batch {
			got = append(got, e.Time)
		}
	})
	if diff := cmp.Diff([]int64{53, 54, 55, 56, 57, 58, 59, 60}, got); diff != "" || err != nil {
		t.Errorf("error %v, -want +got:\n%s", err, diff)
	}
	if want := (Loss{Events: 52, To: 54}); loss != want {
		t.Errorf("loss %+v, want %+v", loss, want)
	}
}

// DropEvents reports the dropped events once. The next read reports no loss.
func TestLogDrop(t *testing.T) {
	l := newFakeLog(2, 4)
	for now := range uint64(20) {
		l.write(int(now%2), at(now+1))
	}
	if got, _ := l.times(t, 19); len(got) != 6 {
		t.Errorf("%v", got)
	}
	l.write(0, at(25))
	for _, want := range []Loss{{Events: 3, From: 19, To: 30}, {}} {
		if got, err := l.drop(30); got != want || err != nil {
			t.Errorf("dropped %+v, want %+v; error %v", got, want, err)
		}
	}
	l.write(1, at(31))
	if got, lost := l.times(t, 40); !slices.Equal(got, []int64{31}) || lost != 0 {
		t.Errorf("%v, and %d are lost", got, lost)
	}
}

// The loss of one stripe extends to its oldest remaining record, although the other stripe has lost
// nothing.
func TestLossOfOneStripe(t *testing.T) {
	l := newFakeLog(2, 4)
	l.write(0, at(10))
	l.write(1, at(12))
	l.times(t, 20)
	l.write(1, at(21)) // the other stripe has all of its records
	for now := uint64(22); now <= 40; now++ {
		l.write(0, at(now)) // 37 to 40 are left
	}
	l.write(1, at(39))
	var first int64
	loss, err := l.read(50, math.MaxInt, func(batch []Event) { first = batch[0].Time })
	if want := (Loss{Events: 15, From: 20, To: 37}); err != nil || loss != want || first != 21 {
		t.Errorf("lost %+v, want %+v; the first event is at %d; error %v", loss, want, first, err)
	}
	if loss, err := l.read(60, math.MaxInt, nil); err != nil || loss != (Loss{}) {
		t.Errorf("lost again: %+v, error %v", loss, err)
	}
}

// If nothing follows lost records, the loss continues until there is a record, even in a call that
// loses nothing else. Nothing is passed on as long as all remaining records are being written.
func TestLossUntilTheNextRecord(t *testing.T) {
	l := newFakeLog(1, 2)
	l.write(0, at(1))
	l.times(t, 10)
	l.begin(0) // and never written
	for _, step := range []struct {
		before int64
		write  uint64
		want   Loss
	}{
		{before: 20},
		{before: 30, want: Loss{Events: 1, From: 10, To: 30}}, // it is given up
		{before: 40, want: Loss{From: 30, To: 40}},
		{before: 50, write: 44, want: Loss{From: 40, To: 44}},
		{before: 60, write: 55}, // where a record is still being written: it is not known yet
		{before: 70, want: Loss{Events: 1, From: 50, To: 70}},
	} {
		if step.write != 0 {
			l.write(0, at(step.write))
		}
		loss, err := l.read(step.before, math.MaxInt, func([]Event) {})
		if err != nil || loss != step.want {
			t.Errorf("before %d: lost %+v, want %+v; error %v", step.before, loss, step.want, err)
		}
	}
}

// While the log is written as fast as possible, only whole records are passed on, each once, and
// together with the lost ones they are all.
func TestLogReadWhileWritten(t *testing.T) {
	const writers, each = 4, 20000
	l := newFakeLog(2, 64)
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range uint64(each) {
				n := uint64(w)<<32 | i + 1
				l.write(w%2, kernelRecord{Now: n, Process: n, Other: n, Kind: uint8(EventNeighbour), Details: [2]uint64{n, n}})
			}
		})
	}
	done := make(chan struct{})
	go func() { writing.Wait(); close(done) }()
	seen := make(map[int64]bool)
	var lost uint64
	check := func(batch []Event) {
		for _, e := range batch {
			if n := uint64(e.Time); e.Process != n || e.Other != n || e.From != e.Time || e.To != e.Time || seen[e.Time] {
				t.Errorf("event %+v, seen before: %v", e, seen[e.Time])
			}
			seen[e.Time] = true
		}
	}
	for last := false; !last; {
		select {
		case <-done:
			last = true
		default:
		}
		more, err := l.read(math.MaxInt64, math.MaxInt, check)
		if err != nil {
			t.Fatal(err)
		}
		lost += more.Events
	}
	if uint64(len(seen))+lost != writers*each {
		t.Errorf("%d events and %d lost, want %d together", len(seen), lost, writers*each)
	}
}

// A closed log returns an error, and a missing one is empty.
func TestLogClosed(t *testing.T) {
	var none eventLog
	if loss, err := none.read(100, math.MaxInt, func([]Event) { t.Error("events") }); loss != (Loss{}) || err != nil {
		t.Errorf("lost %+v, error %v", loss, err)
	}
	l := newFakeLog(1, 1)
	l.close()
	if _, err := l.read(100, math.MaxInt, nil); err != ErrClosed {
		t.Errorf("error %v", err)
	}
}

// Kinds equal those of the programs.
func TestEventKinds(t *testing.T) {
	for kind, want := range map[EventKind]kernelLogged{
		EventWatch: kernelLoggedLOG_WATCH, EventUnwatched: kernelLoggedLOG_UNWATCHED,
		EventSpanStart: kernelLoggedLOG_SPAN_START, EventSpanEnd: kernelLoggedLOG_SPAN_END,
		EventIn: kernelLoggedLOG_IN, EventOut: kernelLoggedLOG_OUT,
		EventGCStart: kernelLoggedLOG_GC_START, EventGCEnd: kernelLoggedLOG_GC_END,
		EventNIFStart: kernelLoggedLOG_NIF_START, EventNIFEnd: kernelLoggedLOG_NIF_END,
		EventSend: kernelLoggedLOG_SEND, EventQueued: kernelLoggedLOG_QUEUED, EventReceive: kernelLoggedLOG_RECEIVE,
		EventSuspend: kernelLoggedLOG_SUSPEND, EventExit: kernelLoggedLOG_EXIT,
		EventOffCPU: kernelLoggedLOG_OFF_CPU, EventNeighbour: kernelLoggedLOG_NEIGHBOUR,
		EventReady: kernelLoggedLOG_READY, EventMonitor: kernelLoggedLOG_MONITOR,
		EventResume: kernelLoggedLOG_RESUME, EventHold: kernelLoggedLOG_HOLD, EventRelease: kernelLoggedLOG_RELEASE,
	} {
		if uint8(kind) != uint8(want) {
			t.Errorf("kind %d is %d to the programs", kind, want)
		}
	}
}

// Reasons equal those of the programs.
func TestOffReasons(t *testing.T) {
	for reason, want := range map[OffReason]kernelOffReason{
		OffReady: kernelOffReasonOFF_READY, OffBlocked: kernelOffReasonOFF_BLOCKED, OffStopped: kernelOffReasonOFF_STOPPED,
		OffTraced: kernelOffReasonOFF_TRACED, OffFrozen: kernelOffReasonOFF_FROZEN,
	} {
		if uint8(reason) != uint8(want) {
			t.Errorf("reason %d is %d to the programs", reason, want)
		}
	}
}

// Each kind has what it says, and nothing else.
func TestDecodeEvent(t *testing.T) {
	texts := textReader{known: map[uint64]string{77: "prim_file:read_nif/2"}}
	minusOne, two := uint64(math.MaxUint32), uint64(2)
	record := func(kind EventKind) kernelRecord {
		return kernelRecord{Place: 1, Now: 100, Process: 5, Other: 77, Pid: 42, Tid: 43, Kind: uint8(kind),
			Flags: logAlias | logStranger, Size: 9, Details: [2]uint64{minusOne<<32 | 3, two<<32 | 4}}
	}
	event := func(kind EventKind, change func(*Event)) Event {
		e := Event{Time: 100, VM: 42, Thread: 43, Kind: kind, Process: 5, Other: 77}
		change(&e)
		return e
	}
	for kind, change := range map[EventKind]func(*Event){
		EventWatch:     func(*Event) {},
		EventSpanStart: func(e *Event) { e.Outcome, e.ID, e.Other, e.Unwatched = 9, 77, 0, true },
		EventOut:       func(e *Event) { e.State, e.Reductions = 3, 4 },
		EventNIFStart:  func(e *Event) { e.Text, e.Other = "prim_file:read_nif/2", 0 },
		EventSend: func(e *Event) {
			e.Size, e.Label, e.Prev, e.Cur, e.Inner, e.Alias, e.Unwatched = 9, 3, -1, 4, 2, true, true
		},
		EventNeighbour: func(e *Event) { e.From, e.To = int64(minusOne<<32|3), int64(two<<32|4) },
		EventSuspend:   func(e *Event) { e.Caller = int64(minusOne<<32 | 3) },
	} {
		r := record(kind)
		got, ok := decodeEvent(&r, &texts)
		if diff := cmp.Diff(event(kind, change), got); diff != "" || !ok {
			t.Errorf("kind %d: -want +got:\n%s", kind, diff)
		}
	}
	for _, kind := range []EventKind{0, EventMonitor + 1, 255} {
		r := record(kind)
		if e, ok := decodeEvent(&r, &texts); ok {
			t.Errorf("kind %d: %+v", kind, e)
		}
	}
}

// Nothing is passed on if there are no events.
func TestNoEvents(t *testing.T) {
	l := newFakeLog(1, 4)
	l.write(0, kernelRecord{Now: 5})
	if _, err := l.read(100, math.MaxInt, func(batch []Event) { t.Errorf("%d events", len(batch)) }); err != nil {
		t.Fatal(err)
	}
}

// Losses of several parts are merged into one, with all their events and all the time between them.
func TestSumOfLosses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.Custom(func(t *rapid.T) Loss {
			from := rapid.Int64Range(1, 20).Draw(t, "from")
			return Loss{rapid.Uint64Range(0, 5).Draw(t, "events"), from, from + rapid.Int64Range(0, 9).Draw(t, "time")}
		})
		all := rapid.SliceOfN(draw, 0, 4).Draw(t, "losses")
		var got, want Loss
		lost := map[int64]bool{}
		for _, l := range all {
			got.Add(Loss{})
			got.Add(l)
			want.Events += l.Events
			lost[l.From], lost[l.To] = true, true
		}
		if times := slices.Sorted(maps.Keys(lost)); len(times) > 0 {
			want.From, want.To = times[0], times[len(times)-1]
		}
		if got != want {
			t.Fatalf("%+v make %+v, want %+v", all, got, want)
		}
	})
}

// Each flag of a record has one meaning, for the kinds that have it.
func TestFlagsOfEvents(t *testing.T) {
	type flags struct{ Alias, Unwatched, Again, Port, Unfetched bool }
	for kind, has := range map[EventKind]flags{
		EventSpanStart: {Unwatched: true}, EventSpanEnd: {Unwatched: true}, EventIn: {Again: true}, EventSuspend: {Port: true},
		EventSend: {Alias: true, Unwatched: true, Unfetched: true}, EventQueued: {Alias: true, Unwatched: true, Unfetched: true},
		EventReceive: {Alias: true, Unwatched: true, Unfetched: true},
		EventOut:     {}, EventExit: {},
	} {
		for flag, set := range map[uint8]flags{0: {}, 1: {Alias: true}, 2: {Unwatched: true}, 4: {Again: true}, 8: {Port: true}, 64: {Unfetched: true}} {
			e, _ := decodeEvent(&kernelRecord{Kind: uint8(kind), Flags: flag}, nil)
			want := flags{has.Alias && set.Alias, has.Unwatched && set.Unwatched, has.Again && set.Again, has.Port && set.Port, has.Unfetched && set.Unfetched}
			if got := (flags{e.Alias, e.Unwatched, e.Again, e.Port, e.Unfetched}); got != want {
				t.Errorf("kind %d with flag %d: %+v, want %+v", kind, flag, got, want)
			}
		}
	}
}

// A message has its address or its token, according to the record.
func TestMessageOrToken(t *testing.T) {
	for _, kind := range []EventKind{EventSend, EventQueued, EventReceive} {
		r := kernelRecord{Kind: uint8(kind), Details: [2]uint64{7 | 8<<32, 9 | 10<<32}}
		want := Event{Kind: kind, Label: 7, Prev: 8, Cur: 9, Inner: 10}
		if got, ok := decodeEvent(&r, nil); got != want || !ok {
			t.Errorf("%+v, want %+v", got, want)
		}
		r.Flags = 16
		want.Message, want.Label, want.Prev = 7|8<<32, 0, 0
		if got, ok := decodeEvent(&r, nil); got != want || !ok {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

// Whatever is in the log, reading it gives events of known kinds.
func FuzzLog(f *testing.F) {
	const size = int(unsafe.Sizeof(kernelRecord{}))
	good := make([]byte, 2*size)
	binary.NativeEndian.PutUint64(good, 1)
	good[48] = uint8(EventSend)
	f.Add(uint64(1), good)
	f.Add(uint64(math.MaxUint64), good)
	f.Add(uint64(1)<<40, []byte{})
	f.Fuzz(func(t *testing.T, head uint64, data []byte) {
		l := newFakeLog(1, 4)
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&l.records[0])), len(l.records)*size), data)
		l.heads[0].Next = head
		for _, kind := range l.records {
			if EventKind(kind.Kind) == EventNIFStart {
				return // its text is the kernel's
			}
		}
		events := 0
		loss, err := l.read(math.MaxInt64, math.MaxInt, func(batch []Event) {
			for _, e := range batch {
				if e.Kind < EventWatch || e.Kind > EventNeighbour {
					t.Errorf("event %+v", e)
				}
			}
			events += len(batch)
		})
		if err != nil || uint64(events) > min(head, 4) || loss.Events > head || loss.From > loss.To {
			t.Errorf("%d events and %+v lost of %d, error %v", events, loss, head, err)
		}
	})
}

// A message from the VM or another node has the atom of its sender and the atom at its beginning.
func TestDecodeTag(t *testing.T) {
	r := kernelRecord{Kind: uint8(EventReceive), Origin: uint16(OriginAtom), Other: 7<<32 | 649}
	e, ok := decodeEvent(&r, new(textReader))
	if !ok || e.Other != 649 || e.Tag != 7 {
		t.Errorf("other %d, tag %d, want 649 and 7", e.Other, e.Tag)
	}
	r.Origin, r.Other = uint16(OriginProcess), 1<<33|5
	if e, ok = decodeEvent(&r, new(textReader)); !ok || e.Other != 1<<33|5 || e.Tag != 0 {
		t.Errorf("other %d, tag %d, want %d and 0", e.Other, e.Tag, 1<<33|5)
	}
}
