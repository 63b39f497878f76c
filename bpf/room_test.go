package bpf_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/otheruser"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// A room has a VM of the test's user and one of another user, and room for few open spans.
type room struct {
	*vmtest.Collector
	t          *testing.T
	own, other *erlang.VM
}

const (
	placesInAll   = 1600 // of a room, for open spans of load
	placesReserve = placesInAll / 16
	placesOfOne   = placesInAll - placesReserve // of a single user
	placesOfTwo   = placesOfOne / 2             // of each of two users
)

// newRoom observes the VMs of two users. Spans of another outcome already have the places that no
// share limits.
func newRoom(t *testing.T, dMax, window time.Duration) room {
	t.Helper()
	const recent = 1 << 14 // RECENT of open.bpf.h
	ownOTP, otherOTP := vmtest.OfTwoUsers(t)
	own := vmtest.StartOn(t, ownOTP, erlang.Options{Carrier: erlang.Probes})
	other := vmtest.StartOn(t, otherOTP, erlang.Options{Carrier: erlang.Probes})
	c := vmtest.NewCollector(t, bpf.Options{
		Outcomes:  []bpf.Outcome{load(dMax), named("filler", endless)},
		Window:    int64(window),
		OpenSpans: placesInAll,
	})
	c.Observe(own, other)
	emit(t, own, "filler", "start", recent, recent) // no two ids share a place
	return room{c, t, own, other}
}

// share shares the room among users.
func (r room) share(users ...int) {
	r.t.Helper()
	accounts := make(map[int]int)
	for _, user := range users {
		accounts[user] = user
	}
	if err := r.ShareRoom(accounts); err != nil {
		r.t.Fatal(err)
	}
}

// start and end start and end n spans from this id on.
func (r room) start(vm *erlang.VM, first, n int) {
	r.t.Helper()
	emit(r.t, vm, "load", "start", first, n)
}
func (r room) end(vm *erlang.VM, first, n int) { r.t.Helper(); emit(r.t, vm, "load", "end", first, n) }

// check reads windows up to the present, and compares all counts of a VM.
func (r room) check(vm *erlang.VM, want bpf.Counters) {
	r.t.Helper()
	r.ReadTo(monotonic.Now())
	checkTotal(r.t, r.Collector, 0, vm.PID(), vmtest.Total{Counters: want, Binned: want.Successes})
}

// The spans of a VM that exceed the share of its user find no room. Those of another user's VM have
// room nevertheless. Instances that have ended leave their room to others of the same user.
func TestRoomOfUsers(t *testing.T) {
	const share = placesOfTwo
	r := newRoom(t, endless, time.Second)
	r.share(os.Getuid(), otheruser.User)

	r.start(r.other, 1, share+300)
	r.start(r.own, 1, share)
	r.check(r.other, bpf.Counters{Starts: share + 300, MapFull: 300})
	r.check(r.own, bpf.Counters{Starts: share})

	r.end(r.other, 1, share+300)
	r.start(r.other, 2001, share+1)
	r.end(r.own, 1, share)
	r.check(r.other, bpf.Counters{Starts: 2*share + 301, Ends: share + 300, Successes: share, Orphans: 300, MapFull: 301})
	r.check(r.own, bpf.Counters{Starts: share, Ends: share, Successes: share})
}

// Spans that have timed out leave their room when it is needed. Those of another user are
// remembered: their ends are late.
func TestRoomOfTimedOut(t *testing.T) {
	const share, rounds = placesOfTwo, 3
	r := newRoom(t, 10*time.Millisecond, time.Second)
	r.share(os.Getuid(), otheruser.User)

	r.start(r.own, 1, 10)
	for i := range rounds {
		r.start(r.other, 1+i*share, share)
		r.ReadTo(monotonic.Now())
	}
	r.end(r.own, 1, 10)
	r.end(r.other, 1, 1)
	r.check(r.other, bpf.Counters{Starts: rounds * share, Timeouts: rounds * share, Ends: 1, Orphans: 1})
	r.check(r.own, bpf.Counters{Starts: 10, Timeouts: 10, Ends: 10, Lates: 10})
}

// The number of open spans in a share stays right while sweeps count them and spans start and end.
func TestRoomStaysRight(t *testing.T) {
	const share, n = placesOfTwo, 100_000
	r := newRoom(t, endless, 200*time.Millisecond)
	r.share(os.Getuid(), otheruser.User)

	r.Call(r.other, "span_load", "run", spans(8, n))
	r.check(r.other, bpf.Counters{Starts: n, Ends: n, Successes: n})
	r.start(r.other, 1, share+1)
	r.check(r.other, bpf.Counters{Starts: n + share + 1, Ends: n, Successes: n, MapFull: 1})
}

// A span with the id of an open one replaces it and takes no further place, also in a full room. If its
// user has another share by then, it takes a place there from the next sweep on.
func TestRoomOfReplaced(t *testing.T) {
	const share = placesOfTwo
	r := newRoom(t, endless, time.Second)
	r.share(os.Getuid(), otheruser.User)

	r.start(r.other, 1, share-1)
	for range 3 {
		r.start(r.other, 1, share-1)
		r.start(r.other, 1, share)
	}
	want := bpf.Counters{Starts: 7*share - 4}
	r.check(r.other, want)

	r.share(os.Getuid())
	r.start(r.other, 1, placesReserve-10)
	r.ReadTo(monotonic.Now())
	r.start(r.other, 2001, 11)
	want.Starts, want.MapFull = want.Starts+placesReserve+1, 1
	r.check(r.other, want)
	r.end(r.other, 1, share)
	want.Ends, want.Successes = share, share
	r.check(r.other, want)
	r.start(r.other, 3001, placesReserve-10) // beside the ten
	want.Starts += placesReserve - 10
	r.check(r.other, want)
}

// A single user has all of the room except a reserve. That is for VMs of users without a share, which have
// all of the room if nobody has a share.
func TestRoomOfOneUser(t *testing.T) {
	r := newRoom(t, endless, time.Second)
	r.start(r.other, 1, placesInAll+1)
	r.check(r.other, bpf.Counters{Starts: placesInAll + 1, MapFull: 1})
	r.end(r.other, 1, placesInAll)

	r.share(otheruser.User)
	r.start(r.other, 2001, placesOfOne+1)
	r.start(r.own, 1, placesReserve+1)
	want := bpf.Counters{Starts: placesInAll + placesOfOne + 2, Ends: placesInAll, Successes: placesInAll, MapFull: 2}
	r.check(r.other, want)
	r.check(r.own, bpf.Counters{Starts: placesReserve + 1, MapFull: 1})

	r.end(r.other, 2001, placesOfOne)
	r.share(os.Getuid()) // what its VM has in the reserve stays there
	r.start(r.own, 2001, placesOfOne+1)
	r.start(r.other, 4001, 1)
	want.Starts, want.Ends, want.Successes, want.MapFull = want.Starts+1, placesInAll+placesOfOne, placesInAll+placesOfOne, 3
	r.check(r.other, want)
	r.check(r.own, bpf.Counters{Starts: placesReserve + placesOfOne + 2, MapFull: 2})
}

// A VM with messages for very many receivers loses those that exceed the share of its user in the room for
// queues. A VM of another user loses none.
func TestRoomForQueues(t *testing.T) {
	const all, receivers, told = 640, 1000, 40
	ownOTP, otherOTP := vmtest.OfTwoUsers(t)
	own := vmtest.StartOn(t, ownOTP, erlang.Options{Carrier: erlang.Probes})
	other := vmtest.StartOn(t, otherOTP, erlang.Options{Carrier: erlang.Probes})
	c := vmtest.NewCollector(t, bpf.Options{
		Outcomes: messageOutcomes(t, 10*time.Minute)[:1],
		Window:   int64(time.Second / 4),
		Queues:   all,
	})
	c.Observe(own, other)
	r := room{c, t, own, other}
	r.share(os.Getuid(), otheruser.User)

	tellSuspended(t, other, receivers)
	tellSuspended(t, own, told)
	c.ReadTo(monotonic.Now())
	if lost := c.Total(0, own.PID()).MapFull; lost > 0 {
		t.Errorf("%d messages in the VM of another user found no room", lost)
	}
	if got := c.Total(0, other.PID()); got.MapFull < receivers-all/2 || got.MapFull >= receivers {
		t.Errorf("%+v, want about %d without room", got.Counters, receivers-all/2)
	}
}

// tellSuspended sends a message to each of n new processes that do not fetch it.
func tellSuspended(t *testing.T, vm *erlang.VM, n int) {
	t.Helper()
	vmtest.Eval(t, vm, fmt.Sprintf(`
		Self = self(),
		spawn(fun() ->
			Receivers = [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, %d)],
			[erlang:suspend_process(R) || R <- Receivers],
			[R ! hello || R <- Receivers],
			Self ! told,
			receive stop -> ok end
		end),
		receive told -> ok end`, n))
}
