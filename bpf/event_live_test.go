package bpf_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
	"github.com/beamscope/beamscope/internal/testing/vmtest/layout"
	"github.com/beamscope/beamscope/usdt"
)

// These tests compare the recorded events of spans with the known courses of events in vm_spans.

func explained(o bpf.Outcome) bpf.Outcome {
	o.Explain = true
	return o
}

// A recorder is a collector with its events.
type recorder struct {
	*vmtest.Collector
	t  *testing.T
	vm *erlang.VM
}

// explaining records the spans load and brief of a VM.
func explaining(t *testing.T, vm *erlang.VM, opts bpf.Options) (*recorder, *bpf.Attachment) {
	t.Helper()
	opts.Outcomes = append(opts.Outcomes, explained(load(endless)), explained(named("brief", 100*time.Millisecond)))
	opts.Window = int64(time.Second)
	c := vmtest.NewCollector(t, opts)
	return &recorder{c, t, vm}, attachExplained(t, c, vm)
}

func attachExplained(t *testing.T, c *vmtest.Collector, vm *erlang.VM) *bpf.Attachment {
	t.Helper()
	target := vmtest.Target(t, vm)
	target.Layout = layout.Of(t, vm)
	a, err := c.Attach(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Missing(); err != nil {
		t.Error(err)
	}
	return a
}

// call calls a function of vm_spans, and returns its result with the recorded events.
func (r *recorder) call(function, args string) (*answer, []bpf.Event) {
	r.t.Helper()
	r.all()
	a := newAnswer(r.t, vmtest.Call(r.t, r.vm, "vm_spans", function, args))
	events, lost := r.all()
	if lost > 0 {
		r.t.Fatalf("%d events lost", lost)
	}
	return a, events
}

// all returns the events recorded up to the present.
func (r *recorder) all() (events []bpf.Event, lost uint64) {
	r.t.Helper()
	vmtest.WaitUntil(monotonic.Now() + int64(2*time.Millisecond)) // Events leaves the last millisecond to the next call
	loss, err := r.Events(math.MaxInt, func(batch []bpf.Event) { events = append(events, batch...) })
	if err != nil {
		r.t.Fatal(err)
	}
	if !slices.IsSortedFunc(events, func(a, b bpf.Event) int { return int(a.Time - b.Time) }) {
		r.t.Error("events are not in the order of time")
	}
	return events, loss.Events
}

// of returns the events of a process, except those about its neighbours.
func of(events []bpf.Event, process uint64) []bpf.Event {
	var own []bpf.Event
	for _, e := range events {
		if e.Process == process && e.Kind != bpf.EventNeighbour {
			own = append(own, e)
		}
	}
	return own
}

func ofKind(events []bpf.Event, kind bpf.EventKind) []bpf.Event {
	var some []bpf.Event
	for _, e := range events {
		if e.Kind == kind {
			some = append(some, e)
		}
	}
	return some
}

// kindNames are the tests' names of kinds.
var kindNames = map[bpf.EventKind]string{
	bpf.EventWatch: "watch", bpf.EventUnwatched: "unwatched", bpf.EventSpanStart: "start", bpf.EventSpanEnd: "end",
	bpf.EventIn: "in", bpf.EventOut: "out", bpf.EventGCStart: "gc", bpf.EventGCEnd: "gc-end",
	bpf.EventNIFStart: "nif", bpf.EventNIFEnd: "nif-end", bpf.EventSend: "send", bpf.EventQueued: "queued",
	bpf.EventReceive: "receive", bpf.EventSuspend: "suspend", bpf.EventExit: "exit", bpf.EventReady: "ready", bpf.EventMonitor: "monitor",
	bpf.EventResume: "resume", bpf.EventHold: "hold", bpf.EventRelease: "release",
}

func kindsOf(events []bpf.Event) string {
	var names []string
	for _, e := range events {
		names = append(names, kindNames[e.Kind])
	}
	return strings.Join(names, " ")
}

func checkKinds(t *testing.T, who string, events []bpf.Event, want string) {
	t.Helper()
	if got := kindsOf(events); got != want {
		t.Errorf("%s:\n got %s\nwant %s", who, got, want)
	}
}

// oneScheduler uses one scheduler of each kind, so that events have a fixed order.
func oneScheduler() erlang.Options { return oneClock("+S", "1:1", "+SDcpu", "1:1", "+SDio", "1") }

// All events of a process during its open span are recorded in order, and also those of processes
// to which it sends messages. Events before and after, and of other processes, are not recorded.
func TestEvents(t *testing.T) {
	vmtest.NeedNames(t)
	vm := vmtest.Start(t, oneScheduler())
	r, _ := explaining(t, vm, bpf.Options{})
	r.call("story", "[1]") // the start of threads that waited when we attached is not seen

	t.Run("story", func(t *testing.T) { testStory(t, r) })
	t.Run("congestion", func(t *testing.T) {
		a, events := r.call("congestion", "[]")
		own := of(events, a.process())
		// A message from the port may follow.
		if got := kindsOf(own); !strings.HasPrefix(got, "watch start suspend out resume in ") || !strings.HasSuffix(got, " end") {
			t.Fatalf("owner: %s", got)
		}
		if port := uint64(a.number()); own[2].Other != port || !own[2].Port {
			t.Errorf("suspended: %+v, want by port %d", own[2], port)
		}
		if want := uint8(bpf.StateKnown | bpf.StateActive | bpf.StateSuspended); own[3].State != want {
			t.Errorf("state %b, want %b", own[3].State, want)
		}
	})
	t.Run("suspensions", func(t *testing.T) { testSuspensions(t, r) })
	t.Run("nested", func(t *testing.T) {
		a, events := r.call("nested", "[300]")
		checkKinds(t, "owner", of(events, a.process()), "watch start start gc gc-end end gc gc-end end gc gc-end out")
	})
	t.Run("chain", func(t *testing.T) { testChain(t, r) })
	t.Run("waits", func(t *testing.T) { testWaits(t, r) })
	for label, want := range map[int]int32{77: 77, -3: -3, 1 << 40: -1 << 31} {
		t.Run(fmt.Sprintf("tokens %d", label), func(t *testing.T) { testTokens(t, r, label, want) })
	}
	t.Run("contention", func(t *testing.T) {
		a, events := r.call("contention", "[100]")
		outs := ofKind(of(events, a.process()), bpf.EventOut)
		if len(outs) < 3 {
			t.Fatalf("%d slices", len(outs))
		}
		for _, e := range outs {
			if e.State != bpf.StateKnown|bpf.StateActive || e.Reductions < 3900 {
				t.Errorf("it was preempted with state %b and %d reductions", e.State, e.Reductions)
			}
		}
		if other := of(events, a.process()); len(other) > 0 {
			t.Errorf("of the process without a span: %s", kindsOf(other))
		}
	})
	t.Run("neighbour", func(t *testing.T) {
		a, events := r.call("neighbour", "[20]")
		process, other := a.process(), a.process()
		own := of(events, process)
		checkKinds(t, "owner", own, "watch start send out in end")
		from, to := own[3].Time, own[4].Time
		var ran int64
		for _, e := range ofKind(events, bpf.EventNeighbour) {
			if e.Process != process {
				continue // the other one has a neighbour too
			}
			if e.Other != other || e.Time != to || e.From < from || e.To > to || e.To-e.From < 200_000 {
				t.Errorf("neighbour %+v", e)
			}
			from = e.To
			ran += e.To - e.From
		}
		if waited := to - own[3].Time; ran < waited/2 {
			t.Errorf("of %d ns the other one ran %d", waited, ran)
		}
	})
}

// A process is suspended by the VM while it changes a persistent term, and by another process. The
// handling of signals to a process that does not run is not seen.
func testSuspensions(t *testing.T, r *recorder) {
	a, events := r.call("suspensions", "[]")
	process, holder := a.process(), a.process()
	own := slices.DeleteFunc(of(events, process), func(e bpf.Event) bool { return e.Kind == bpf.EventReady })
	kinds := kindsOf(own)
	const until, then = "watch start suspend out resume in out hold release resume ", " hold release resume in "
	if !strings.HasPrefix(kinds, until) || !strings.Contains(kinds[len(until):], then) {
		t.Fatalf("owner: %s", kinds)
	}
	term := own[2]
	// OTP 29 has a function in between.
	if name := functionOf(t, r.vm, term.Caller); term.Port || term.Other != 0 || name != "persistent_term_put_2" && name != "put_common" {
		t.Errorf("suspended by %q: %+v", name, term)
	}
	if want := uint8(bpf.StateKnown | bpf.StateActive | bpf.StateSuspended); own[3].State != want {
		t.Errorf("state %b, want %b", own[3].State, want)
	}
	for _, e := range own {
		switch {
		case (e.Kind == bpf.EventHold || e.Kind == bpf.EventRelease) && e.Other != holder:
			t.Errorf("%s by %x, want %x", kindNames[e.Kind], e.Other, holder)
		case e.Kind == bpf.EventResume && e.Other != 1:
			t.Errorf("resumed of %d suspensions", e.Other)
		}
	}
}

// functionOf returns the function of a VM that contains a return address, given by its distance
// from the probe process__suspend.
func functionOf(t *testing.T, vm *erlang.VM, caller int64) string {
	t.Helper()
	target := vmtest.Target(t, vm)
	i := slices.IndexFunc(target.Probes, func(p usdt.Probe) bool { return p.Name == "process__suspend" })
	file, err := usdt.Open(target.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	name, err := file.Function(target.Probes[i].Sites[0].Address + uint64(caller) - 1)
	if err != nil {
		t.Error(err)
	}
	return name
}

func testStory(t *testing.T, r *recorder) {
	a, events := r.call("story", "[1]")
	owner, server, other, stranger := a.process(), a.process(), a.process(), a.process()

	own := of(events, owner)
	checkKinds(t, "owner", own, "watch start gc gc-end monitor send out ready queued in receive out in nif nif-end out in out ready in end")
	checkKinds(t, "server", of(events, server), "watch queued in receive send out")
	for who, process := range map[string]uint64{"other": other, "stranger": stranger} {
		if of := of(events, process); len(of) > 0 {
			t.Errorf("%s: %s", who, kindsOf(of))
		}
	}
	if t.Failed() {
		return
	}
	if first := own[0]; first.VM != r.vm.PID() || first.Other != 0 || own[1].ID == 0 || own[1].ID != own[len(own)-1].ID || own[1].Outcome != 0 {
		t.Errorf("watch %+v, start %+v, end %+v", first, own[1], own[len(own)-1])
	}
	var states []uint8
	for _, e := range ofKind(own, bpf.EventOut) {
		states = append(states, e.State)
	}
	const known, timer = bpf.StateKnown, bpf.StateTimer
	want := []uint8{known | timer, known | bpf.StateActive | bpf.StateDirty, known | bpf.StateActive, known | timer}
	if diff := cmp.Diff(want, states); diff != "" {
		t.Errorf("states, -want +got:\n%s", diff)
	}
	if nif := ofKind(own, bpf.EventNIFStart)[0]; nif.Text != "prim_file:pread_nif/3" || nif.Thread == own[1].Thread || nif.Thread != ofKind(own, bpf.EventNIFEnd)[0].Thread {
		t.Errorf("nif %+v, end %+v", nif, ofKind(own, bpf.EventNIFEnd)[0])
	}
	call, reply := own[5], of(events, server)[4]
	if call.Other != server || call.Alias || call.Size == 0 {
		t.Errorf("call %+v", call)
	}
	if reply.Other != owner || !reply.Alias || reply.Size != 0 || reply.Time > own[8].Time {
		t.Errorf("reply %+v", reply)
	}
	if taken := of(events, server)[3]; taken.Size != call.Size || taken.Inner != 1 || taken.Origin != bpf.OriginProcess || taken.Other != owner {
		t.Errorf("sent %+v, taken %+v", call, taken)
	}
	if monitor := own[4]; monitor.Other != server {
		t.Errorf("monitor %+v", monitor)
	}
	if watch := of(events, server)[0]; watch.Other != owner {
		t.Errorf("watch %+v", watch)
	}
}

// The end of a wait is reported, with the sender of the message that ends it.
func testWaits(t *testing.T, r *recorder) {
	a, events := r.call("waits", "[]")
	process := a.process()
	own, echo := of(events, process), a.process()
	port := uint64(a.number())
	monitored, linked := a.process(), a.process()

	const known = bpf.StateKnown
	var timers []uint8
	for _, e := range ofKind(own, bpf.EventOut) {
		if e.State&bpf.StateActive == 0 {
			timers = append(timers, e.State&(known|bpf.StateTimer|bpf.StateTimedOut))
		}
	}
	// A timeout, a message before a timeout, an infinite timeout in a variable, and no timeout.
	want := []uint8{known | bpf.StateTimer, known | bpf.StateTimer, known | bpf.StateTimedOut, known}
	if len(timers) < len(want) || !slices.Equal(timers[:len(want)], want) {
		t.Errorf("it stopped with timers %b, want %b", timers, want)
	}
	timers = nil
	for _, e := range ofKind(own, bpf.EventIn) {
		timers = append(timers, e.State)
	}
	want = []uint8{known | bpf.StateTimedOut, known | bpf.StateTimer, known | bpf.StateTimedOut, known}
	if len(timers) < len(want) || !slices.Equal(timers[:len(want)], want) {
		t.Errorf("it went on with timers %b, want %b", timers, want)
	}
	timers = nil
	for _, e := range ofKind(own, bpf.EventReady) {
		timers = append(timers, e.State)
	}
	want = []uint8{known | bpf.StateTimedOut, known, known, known}
	if len(timers) < len(want) || !slices.Equal(timers[:len(want)], want) {
		t.Errorf("it was ready with timers %b, want %b", timers, want)
	}

	type origin struct {
		Origin bpf.Origin
		Other  uint64
	}
	var origins []origin
	for _, e := range ofKind(own, bpf.EventReceive) {
		o := origin{e.Origin, e.Other}
		if o.Origin == bpf.OriginAtom {
			o.Other = 0
		}
		origins = append(origins, o)
	}
	if diff := cmp.Diff([]origin{
		{bpf.OriginProcess, echo}, {bpf.OriginProcess, echo}, {bpf.OriginAtom, 0}, {bpf.OriginPort, port}, {bpf.OriginProcess, echo},
		{bpf.OriginDown, monitored}, {bpf.OriginProcess, linked}, {bpf.OriginProcess, process},
	}, origins); diff != "" {
		t.Errorf("origins, -want +got:\n%s", diff)
	}
}

// Messages are followed over ten hops. The send of the eleventh is seen, and then again that of the
// message that comes back.
func testChain(t *testing.T, r *recorder) {
	a, events := r.call("chain", "[13]")
	chain := make([]uint64, 14)
	for i := range chain {
		chain[i] = a.process()
	}
	const link = "watch ready in queued receive send exit"
	for i, process := range chain {
		want := link
		switch {
		case i == 0:
			want = "watch start send out ready in queued receive end"
		case i == 13:
			want = "send"
		case i > 10:
			want = ""
		}
		own := of(events, process)
		checkKinds(t, fmt.Sprint(i), own, want)
		for _, e := range own {
			if e.Unwatched != (i == len(chain)-1) {
				t.Errorf("%d: %+v", i, e)
			}
		}
	}
}

// Messages have the same tokens at the send and at the receipt, also messages to aliases.
func testTokens(t *testing.T, r *recorder, label int, want int32) {
	a, events := r.call("tokens", fmt.Sprintf("[%d]", label))
	pair := []uint64{a.process(), a.process()}
	type token struct{ label, prev, cur int32 }
	tokens := make(map[bpf.EventKind][]token)
	for _, e := range events {
		if slices.Contains(pair, e.Process) && e.Label != 0 {
			tokens[e.Kind] = append(tokens[e.Kind], token{e.Label, e.Prev, e.Cur})
		}
	}
	var all []token
	for i := range int32(6) {
		all = append(all, token{want, i, i + 1})
	}
	for _, kind := range []bpf.EventKind{bpf.EventSend, bpf.EventQueued, bpf.EventReceive} {
		if diff := cmp.Diff(all, tokens[kind], cmp.AllowUnexported(token{})); diff != "" {
			t.Errorf("%s, -want +got:\n%s", kindNames[kind], diff)
		}
	}
}

// A process that cannot be tracked for lack of space has one event and counts once, even for many
// messages.
func TestEventsUnwatched(t *testing.T) {
	vmtest.NeedNames(t)
	vm := vmtest.Start(t, oneScheduler())
	r, _ := explaining(t, vm, bpf.Options{Watched: 1})
	a, events := r.call("crowd", "[3]")
	for i, want := range []string{"watch start out ready in queued receive end", "unwatched start end", "unwatched start end"} {
		checkKinds(t, fmt.Sprint(i), of(events, a.process()), want)
	}
	r.ReadTo(monotonic.Now())
	if n := r.Others().Unwatched; n != 2 {
		t.Errorf("%d unwatched", n)
	}
	a, events = r.call("pairs", "[50]")
	if first, other := a.process(), a.process(); len(ofKind(events, bpf.EventUnwatched)) != 1 {
		t.Errorf("of %d, with one that is watched, %s; of %d: %s", first, kindsOf(of(events, first)), other, kindsOf(of(events, other)))
	}
	r.ReadTo(monotonic.Now())
	a, events = r.call("crowd", "[1]") // the room of the first one has been swept
	checkKinds(t, "later", of(events, a.process()), "watch start out ready in queued receive end")
}

// Two VMs are kept apart although their processes have the same pids. A log that is too small, and
// is read while it is written, contains only whole records and reports the number of lost ones.
// Together they are as many as in a log that is large enough, except records of neighbours, which
// depend on when a program ran.
func TestEventsOfTwoVMs(t *testing.T) {
	vmtest.NeedNames(t)
	const n = 5000
	otp := vmtest.Private(t)
	vms := []*erlang.VM{vmtest.StartOn(t, otp, oneScheduler()), vmtest.StartOn(t, otp, oneScheduler())}
	large, _ := explaining(t, vms[0], bpf.Options{})
	small, _ := explaining(t, vms[0], bpf.Options{Events: 512})
	attachExplained(t, large.Collector, vms[1])
	attachExplained(t, small.Collector, vms[1])

	type result struct{ a, b uint64 }
	results := make(chan result, len(vms))
	pairs := make(map[int]result)
	for _, vm := range vms {
		go func() {
			term, err := vm.Call(t.Context(), "vm_spans", "pairs", fmt.Sprintf("[%d]", n))
			if err != nil {
				t.Error(err)
				term = "{<0.0.0>,<0.0.0>}"
			}
			a := newAnswer(t, term)
			results <- result{a.process(), a.process()}
		}()
	}
	var events, some []bpf.Event
	var lost uint64
	for got := 0; got < len(vms); {
		select {
		case r := <-results:
			pairs[got] = r
			got++
		case <-time.After(time.Millisecond):
		}
		more, missed := small.all()
		some, lost = append(some, more...), lost+missed
	}
	more, missed := small.all()
	some, lost = append(some, more...), lost+missed
	events, missed = large.all()
	same := len(events) - len(ofKind(events, bpf.EventNeighbour))
	if all := len(some) + int(lost); missed > 0 || lost == 0 || all < same || all > len(events)+len(events)/1000 {
		t.Errorf("%d events, %d of them lost; %d read and %d lost with little room", len(events), missed, len(some), lost)
	}
	t.Logf("%d events; %d read and %d lost with little room", len(events), len(some), lost)

	if pairs[0] != pairs[1] {
		t.Errorf("the VMs have different processes: %+v", pairs)
	}
	pair := pairs[0]
	for _, vm := range vms {
		sends := 0
		for _, e := range events {
			if e.Kind == bpf.EventSend && e.VM == vm.PID() && (e.Process == pair.a || e.Process == pair.b) {
				sends++
			}
		}
		if sends != 2*n {
			t.Errorf("%d messages in %d, want %d", sends, vm.PID(), 2*n)
		}
	}
	other := map[uint64]uint64{pair.a: pair.b, pair.b: pair.a}
	for _, e := range some {
		if e.Process != pair.a && e.Process != pair.b || e.VM != vms[0].PID() && e.VM != vms[1].PID() ||
			e.Kind == bpf.EventSend && e.Other != other[e.Process] || kindNames[e.Kind] == "" && e.Kind != bpf.EventNeighbour {
			t.Fatalf("event %+v", e)
		}
	}
}

// Nothing is attached for outcomes without explanations, and a collector that was made without room
// for events has none later. The error names what the file lacks.
func TestDetailsAttached(t *testing.T) {
	vmtest.NeedNames(t)
	vm := vmtest.Start(t, oneScheduler())
	plain := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{load(endless)}})
	a := attachExplained(t, plain, vm)
	only := []string{fmt.Sprintf("user_trace__n%d", bpf.Label("load"))}
	if diff := cmp.Diff(only, probeNames(a)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, err := plain.Change(t.Context(), after(plain), plain.Opts.Window, []bpf.Outcome{explained(load(endless))}); !errors.Is(err, bpf.ErrNoRoom) {
		t.Errorf("error %v", err)
	}
	if plain.Explains() {
		t.Error("explains")
	}

	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{explained(load(endless))}})
	target := vmtest.Target(t, vm)
	target.Probes = slices.DeleteFunc(target.Probes, func(p usdt.Probe) bool { return p.Name == "process__suspend" })
	c.While(func() (err error) {
		a, err = c.Attach(t.Context(), target)
		return err
	})
	if err := a.Missing(); !errors.Is(err, bpf.ErrNoProbe) || !strings.Contains(err.Error(), "process__suspend") {
		t.Errorf("missing: %v", err)
	}
	if names := probeNames(a); len(names) != 20 || !slices.Contains(names, "message__send__alias") {
		t.Errorf("attached to %q", names)
	}
	for _, explain := range []bool{false, true, false} {
		out := load(endless)
		out.Explain = explain
		from := after(c)
		c.While(func() error {
			_, err := c.Change(t.Context(), from, c.Opts.Window, []bpf.Outcome{out})
			return err
		})
		c.Call(vm, "span_load", "run", spans(1, 1))
		c.ReadTo(from)
		want := 1
		if explain {
			want = 20
		}
		if names := probeNames(a); len(names) != want || c.Explains() != explain {
			t.Errorf("explain %v: attached to %q", explain, names)
		}
	}
	checkTotal(t, c, 0, vm.PID(), succeeded(3)) // it stays one outcome
}

// If one of the details cannot be attached, the others are, and the error names it. It is still
// reported after later changes.
func TestDetailsOneFails(t *testing.T) {
	vmtest.NeedNames(t)
	vm := vmtest.Start(t, oneScheduler())
	o := explained(load(endless))
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{o}})
	target := vmtest.Target(t, vm)
	target.Layout = layout.Of(t, vm)
	target.Probes = slices.Clone(target.Probes)
	for i := range target.Probes {
		if p := &target.Probes[i]; p.Name == "process__suspend" {
			p.Sites = slices.Clone(p.Sites)
			p.Sites[0].Offset = 1 << 40 // after the end of the file
		}
	}
	a, err := c.Attach(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	missing := func() {
		t.Helper()
		if err := a.Missing(); err == nil || !strings.Contains(err.Error(), "process__suspend") {
			t.Errorf("missing: %v", err)
		}
	}
	missing()
	from := after(c)
	c.While(func() error {
		again, err := c.Change(t.Context(), from, c.Opts.Window, []bpf.Outcome{o, named("brief", time.Second)})
		if again != nil {
			t.Errorf("the change says again what is missing: %v", again)
		}
		return err
	})
	missing()
	r := &recorder{c, t, vm}
	answer, events := r.call("chain", "[1]")
	checkKinds(t, "owner", of(events, answer.process()), "watch start send out ready in queued receive end")
}

// No process stays watched through a time without explanations, because events in that time are
// unknown.
func TestEventsAfterDarkTime(t *testing.T) {
	vmtest.NeedNames(t)
	vm := vmtest.Start(t, oneScheduler())
	r, _ := explaining(t, vm, bpf.Options{})
	vmtest.Eval(t, vm, `register(sleeper, spawn(fun() ->
		_ = beamscope:start_span(<<"load">>),
		[receive collect -> erlang:garbage_collect() end || _ <- [1, 2]]
	end))`)
	collect := func() []bpf.Event {
		t.Helper()
		r.all()
		vmtest.Eval(t, vm, `sleeper ! collect, receive after 10 -> ok end`)
		events, _ := r.all()
		return events
	}
	if n := len(ofKind(collect(), bpf.EventGCStart)); n != 1 {
		t.Fatalf("%d collections", n)
	}
	for _, o := range []bpf.Outcome{load(endless), explained(load(endless))} {
		from := after(r.Collector)
		r.While(func() error {
			_, err := r.Change(t.Context(), from, r.Opts.Window, []bpf.Outcome{o})
			return err
		})
		r.ReadTo(from)
	}
	if events := collect(); len(events) > 0 {
		t.Errorf("events of those that were watched before: %s", kindsOf(events))
	}
	_, events := r.call("chain", "[1]")
	if n := len(ofKind(events, bpf.EventWatch)); n != 2 {
		t.Errorf("%d are watched, want 2", n)
	}
}

// The programs that fill the log are attached only while an outcome has Explain, also with the option
// Explain: before and after that they cost nothing.
func TestLogOnlyWhileExplained(t *testing.T) {
	vm := vmtest.Start(t, oneScheduler())
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{load(endless)}, Explain: true})
	c.Observe(vm)
	const probe = "message__queued" // no outcome has it
	checkSemaphore := func(when string, want uint16) {
		t.Helper()
		if got := vmtest.Semaphore(t, vm.PID(), probe); got != want {
			t.Errorf("%s: the semaphore of %s is %d, want %d", when, probe, got, want)
		}
	}
	change := func(o bpf.Outcome) {
		t.Helper()
		for {
			from := after(c)
			_, err := c.Change(t.Context(), from, c.Opts.Window, []bpf.Outcome{o})
			c.ReadTo(max(from, monotonic.Now()))
			if !errors.Is(err, bpf.ErrLate) { // loading the programs takes longer than a window
				if err != nil {
					t.Fatal(err)
				}
				return
			}
		}
	}
	checkSemaphore("before", 0)
	change(explained(load(endless)))
	checkSemaphore("explained", 1)
	change(load(endless))
	checkSemaphore("afterwards", 0)
}

// If the layout of processes is unknown, their states are unknown too, and only the label of the
// token is known for a message to an alias.
func TestEventsWithoutLayout(t *testing.T) {
	vm := vmtest.Start(t, oneScheduler())
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{explained(load(endless))}, Window: int64(time.Second)})
	c.Observe(vm)
	r := &recorder{c, t, vm}
	a, events := r.call("tokens", "[77]")
	a.process()
	server := of(events, a.process())
	for _, e := range ofKind(server, bpf.EventSend) {
		if !e.Alias || e.Label != 77 || e.Prev != 0 || e.Cur != 0 {
			t.Errorf("reply %+v", e)
		}
	}
	for _, e := range ofKind(server, bpf.EventOut) {
		if e.State != 0 {
			t.Errorf("out %+v", e)
		}
	}
	if len(ofKind(server, bpf.EventSend)) != 3 || len(ofKind(server, bpf.EventOut)) == 0 {
		t.Errorf("server: %s", kindsOf(server))
	}
}

// after returns the beginning of the window after the next one.
func after(c *vmtest.Collector) int64 {
	_, to := c.Window(uint64(c.Number(monotonic.Now()) + 1))
	return to
}

func probeNames(a *bpf.Attachment) []string {
	var names []string
	for _, p := range a.Probes() {
		names = append(names, p.Name)
	}
	return names
}

// schedulerName matches the names of threads of schedulers, up to OTP 25 and since.
var schedulerName = regexp.MustCompile(`^\d+_(scheduler|dirty_)|^erts_(sched|dcpus|dios)_`)

// Waits of schedulers' threads for a processor equal the instances of the outcome os-wait, except
// short ones and those of a VM without spans.
func TestEventsWaitForProcessor(t *testing.T) {
	vmtest.NeedNames(t)
	otp := vmtest.Private(t)
	vm, rival := vmtest.StartOn(t, otp, oneClock("+S", "2:2")), vmtest.StartOn(t, otp, oneClock("+S", "2:2"))
	pin(t, vm.PID())
	pin(t, rival.PID())
	r, _ := explaining(t, vm, bpf.Options{Outcomes: []bpf.Outcome{streamed(builtin(t, "os-wait", ""))}, RingBytes: 1 << 24})
	attachExplained(t, r.Collector, rival)
	for _, pid := range []int{vm.PID(), rival.PID()} {
		if err := r.ObserveThreads(pid); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error, 1)
	go func() {
		_, err := rival.Call(t.Context(), "vm_load", "busy", "[#{procs=>2,for_ms=>300,cells=>1000}]")
		done <- err
	}()
	stop := r.Streamed()
	_, events := r.call("contention", "[300]")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	instances := stop()
	begin, end := ofKind(events, bpf.EventSpanStart)[0].Time, events[len(events)-1].Time // the outcome continues meanwhile
	schedulers, initial := tasks(t, vm.PID()), inInitialNamespace(t)

	own, unseen := make(map[int][]interval), 0
	for _, e := range ofKind(events, bpf.EventOffCPU) {
		if e.Unseen {
			unseen++ // the kernel's tracepoints missed a switch
			continue
		}
		if e.Off == bpf.OffBlocked {
			continue // before anything is known of a thread
		}
		if e.Off != bpf.OffReady || e.From != e.To || e.Time-e.From < 10_000 || e.VM != vm.PID() || e.Process != 0 {
			t.Fatalf("%+v", e)
		}
		if initial && !schedulerName.MatchString(schedulers[e.Thread]) {
			t.Fatalf("%+v of thread %s", e, schedulers[e.Thread])
		}
		own[e.Thread] = append(own[e.Thread], interval{e.From, e.Time})
	}
	var ours, theirs int64
	for tid, waits := range own {
		var all []interval
		for _, i := range chosen(instances, func(i bpf.Instance) bool {
			return i.ID == uint64(tid) && i.End > begin && i.End <= end && i.End-i.Start >= 10_000
		}) {
			all = append(all, interval{i.Start, i.End})
			theirs += i.End - i.Start
		}
		ours += overlap(waits, all)
	}
	t.Logf("%d ns of waits of %d threads are in both; the outcome has %d; %d were not seen", ours, len(slices.Collect(maps.Keys(own))), theirs, unseen)
	if len(own) == 0 || ours < theirs/20*19 {
		t.Errorf("%d ns in both, and the outcome has %d", ours, theirs)
	}
}

// The log has an event with a reason for a scheduler's thread that is stopped, or sleeps while it
// runs a process: meanwhile, and when it continues. It has none for an idle thread.
func TestEventsOffCPU(t *testing.T) {
	vmtest.NeedNames(t)
	vm := vmtest.Start(t, oneScheduler())
	r, _ := explaining(t, vm, bpf.Options{})
	if err := r.ObserveThreads(vm.PID()); err != nil {
		t.Fatal(err)
	}
	r.call("story", "[1]") // from now on idle threads are known

	_, events := r.call("asleep", "[50]")
	start, end := ofKind(events, bpf.EventSpanStart)[0], ofKind(events, bpf.EventSpanEnd)[0]
	var slept int64
	for _, e := range ofKind(events, bpf.EventOffCPU) {
		if e.Thread != start.Thread || e.Off == bpf.OffReady || e.From > end.Time {
			continue
		}
		if e.Off != bpf.OffBlocked || e.From < start.Time || e.From > e.To || e.To > e.Time || e.Time > end.Time && !e.Unseen {
			t.Errorf("span from %d to %d, and %+v", start.Time, end.Time, e)
		}
		if e.Text == "pselect6" || e.Text == "clock_nanosleep" {
			slept += e.To - e.From
		}
	}
	if took := end.Time - start.Time; slept < 50_000_000 || slept > took {
		t.Errorf("it slept for %d of %d ns", slept, took)
	}

	waits := r.during("asleep", "[1000]", bpf.OffBlocked)
	if waits.Thread != start.Thread || waits.VM != vm.PID() || waits.From == 0 || waits.To != 0 || waits.Text == "" {
		t.Errorf("meanwhile: %+v", waits)
	}
	signal := func(s syscall.Signal) {
		if err := syscall.Kill(vm.PID(), s); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP)
	stops := r.until(bpf.OffStopped)
	signal(syscall.SIGCONT)
	r.call("story", "[1]")
	if stops.VM != vm.PID() || stops.Text != "" {
		t.Errorf("stopped: %+v", stops)
	}
	for _, e := range r.absent() {
		if e.Off == bpf.OffStopped {
			t.Errorf("still stopped: %+v", e)
		}
	}
}

// If the kernel counted more switches of a scheduler's thread than the programs saw, the log
// reports that the thread did not run for an unknown part of the time. A sleep until a wakeup is
// known even if the programs missed that the thread ran again.
func TestEventsUnseenSwitches(t *testing.T) {
	vmtest.NeedNames(t)
	vm := vmtest.Start(t, oneScheduler())
	r, _ := explaining(t, vm, bpf.Options{})
	observe := func(on bool) {
		t.Helper()
		do := r.ObserveThreads
		if !on {
			do = r.LoseThreads
		}
		if err := do(vm.PID()); err != nil {
			t.Fatal(err)
		}
	}
	observe(true)
	r.call("story", "[1]") // from now on idle threads are known

	// unseen returns the missed part of a span of 300 ms, and the span. lose runs while its thread
	// sleeps.
	unseen := func(lose func(asleep bpf.Event)) (missed []bpf.Event, start, end bpf.Event) {
		t.Helper()
		r.all()
		done := make(chan error, 1)
		go func() {
			_, err := r.vm.Call(t.Context(), "vm_spans", "asleep", "[300]")
			done <- err
		}()
		lose(r.until(bpf.OffBlocked))
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		observe(true)
		events, lost := r.all()
		if lost > 0 {
			t.Fatalf("%d events lost", lost)
		}
		start, end = ofKind(events, bpf.EventSpanStart)[0], ofKind(events, bpf.EventSpanEnd)[0]
		for _, e := range ofKind(events, bpf.EventOffCPU) {
			if e.Unseen && e.Thread == start.Thread && e.Time >= start.Time && e.From < end.Time {
				missed = append(missed, e)
			}
		}
		return missed, start, end
	}

	t.Run("it is not seen that the thread is woken, and runs again", func(t *testing.T) {
		missed, _, end := unseen(func(bpf.Event) { observe(false) })
		if len(missed) != 1 {
			t.Fatalf("missed: %+v", missed)
		}
		if m := missed[0]; m.Off != bpf.OffBlocked || m.From != m.To || m.Time < end.Time || m.Time-m.From < 100_000_000 {
			t.Errorf("it ended at %d, and %+v", end.Time, m)
		}
	})
	t.Run("it is not known since when the thread sleeps", func(t *testing.T) {
		missed, _, end := unseen(func(asleep bpf.Event) {
			if err := r.ForgetOffCPU(asleep.Thread); err != nil {
				t.Error(err)
			}
		})
		if len(missed) != 1 || missed[0].From != 0 || missed[0].To != 0 {
			t.Errorf("it ended at %d, missed: %+v", end.Time, missed)
		}
	})
}

// during calls a function of vm_spans, and returns the first thread that does not run for the given
// reason meanwhile.
func (r *recorder) during(function, args string, why bpf.OffReason) bpf.Event {
	r.t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := r.vm.Call(r.t.Context(), "vm_spans", function, args)
		done <- err
	}()
	found := r.until(why)
	if err := <-done; err != nil {
		r.t.Fatal(err)
	}
	return found
}

// until waits until a thread of a process's scheduler does not run for the given reason, and
// returns it. Idle threads do not count.
func (r *recorder) until(why bpf.OffReason) bpf.Event {
	r.t.Helper()
	for r.t.Context().Err() == nil {
		for _, e := range r.absent() {
			if e.Off == why && e.Text != "futex" && e.Text != "epoll_wait" {
				return e
			}
		}
	}
	r.t.Fatal(r.t.Context().Err())
	return bpf.Event{}
}

func (r *recorder) absent() []bpf.Event {
	r.t.Helper()
	events, err := r.OffCPU()
	if err != nil {
		r.t.Fatal(err)
	}
	return events
}

// inInitialNamespace reports whether thread ids here equal those in events.
func inInitialNamespace(t *testing.T) bool {
	t.Helper()
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	return namespace == "pid:[4026531836]" // PROC_PID_INIT_INO, linux/proc_ns.h
}
