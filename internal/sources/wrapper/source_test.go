package wrapper

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/monotonic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is the beginning of the first window of the tests, on the tests' own clock. Instances are
// sent one hour later, and the wall clock shows the same time.
const start = int64(time.Hour)

// A rig is a source with a test clock, and with test functions for the owners of its peers.
type rig struct {
	*Source
	t    *testing.T
	now  atomic.Int64
	seen []string // notices

	mu    sync.Mutex
	user  string                                  // user at the other end of new connections
	owner func(net.Conn) (vm outcome.VM, ok bool) // VM at the other end, if any
}

// newRig listens, and connects to these wrappers.
func newRig(t *testing.T, p outcome.Plan, wrappers ...*fake) *rig {
	t.Helper()
	r := &rig{t: t}
	r.now.Store(2 * start)
	c := clock{now: r.now.Load, offset: func() int64 { return 0 }}
	cfg := Config{Listen: "127.0.0.1:0", Plan: p}
	for _, f := range wrappers {
		cfg.Connect = append(cfg.Connect, f.address())
	}
	var err error
	if r.Source, err = newSource(cfg, c, r.ownerOf, func(conn net.Conn) string { return r.peerOf(conn) }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// as makes new connections belong to a user.
func (r *rig) as(user string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.user = user
}

// hostile is the address of a user who connects again and again.
const hostile = "127.0.0.2"

func (r *rig) peerOf(conn net.Conn) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if addrPort(conn.RemoteAddr()).Addr().String() == hostile {
		return "user 61234"
	}
	return r.user
}

// ownedBy sets the owner of new connections.
func (r *rig) ownedBy(owner func(net.Conn) (outcome.VM, bool)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.owner = owner
}

func (r *rig) ownerOf(_ context.Context, conn net.Conn) (outcome.VM, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owner == nil {
		return outcome.VM{}, false
	}
	return r.owner(conn)
}

// awaitLines waits until all connections together have received n lines.
func (r *rig) awaitLines(n uint64) {
	r.t.Helper()
	await(r.t, fmt.Sprintf("%d lines", n), func() bool {
		var lines uint64
		for _, p := range r.Peers() {
			lines += p.Lines
		}
		return lines >= n
	})
}

// awaitPeers waits until n wrappers are connected.
func (r *rig) awaitPeers(n int) {
	r.t.Helper()
	await(r.t, fmt.Sprintf("%d peers", n), func() bool {
		connected := 0
		for _, p := range r.Peers() {
			if p.Direction == Inbound {
				connected++
			}
		}
		return connected == n
	})
}

func (r *rig) collect(w outcome.Window) outcome.Batch {
	r.t.Helper()
	b, err := r.Collect(r.t.Context(), w)
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

// noticed waits for a notice that matches.
func (r *rig) noticed(pattern string) {
	r.t.Helper()
	re := regexp.MustCompile(pattern)
	await(r.t, fmt.Sprintf("%q", pattern), func() bool {
		for _, n := range r.Watch(r.t.Context()) {
			r.seen = append(r.seen, n.Text)
		}
		return slices.ContainsFunc(r.seen, re.MatchString)
	})
}

var here = outcome.VM{Node: "127.0.0.1"}

// A wrapper gets commands on its own listener, as the published one does.
func TestOwnListener(t *testing.T) {
	f := newFake(t)
	r := newRig(t, plan(start, spec("a", 20)), f)
	await(t, "commands", f.ready(map[string]int64{"a": 20}))
	f.connect(r.Source)
	sendsAndCounts(t, r, f)
}

// A wrapper gets commands on the connection on which it sends.
func TestSameSocket(t *testing.T) {
	f := newFake(t)
	r := newRig(t, plan(start, spec("a", 20)))
	f.connect(r.Source)
	f.listen()
	await(t, "commands", f.ready(map[string]int64{"a": 20}))
	sendsAndCounts(t, r, f)
}

func sendsAndCounts(t *testing.T, r *rig, f *fake) {
	t.Helper()
	f.span(f.conn, "a", start, start+5*ms, outcome.Success)
	f.span(f.conn, "a", start, start+6*ms, outcome.Failure)
	f.span(f.conn, "a", start, start+90*ms, outcome.Success) // has timed out
	if f.span(f.conn, "b", start, start+ms, outcome.Success) {
		t.Error("a span without a timeout was sent")
	}
	r.awaitLines(3)
	want := outcome.Counts{Outcome: "a", VM: here, Ends: 3, Successes: 1, Failures: 1, Timeouts: 1, Bins: make([]uint64, 20)}
	want.Bins[5] = 1
	got := r.collect(plan(start).At(0))
	if diff := cmp.Diff([]outcome.Counts{want}, got.Counts); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	next := plan(start+100*ms, spec("a", 20), outcome.Spec{Name: "c", Wrapper: "c", BinWidth: 1500 * time.Microsecond, Bins: 3})
	if err := r.Plan(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	await(t, "new timeouts", f.ready(map[string]int64{"a": 20, "c": 5}))
	r.Stop()
	await(t, "the end", func() bool { return !f.ready(nil)() })
	r.Start()
	await(t, "another start", f.ready(nil))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, "the last command", func() bool { return !f.ready(nil)() })
}

// A truth counts what was sent, independently.
type truth struct {
	mu     sync.Mutex
	counts map[string]map[int64]*outcome.Counts // by outcome and window
}

// add counts an instance according to the rules, with bins of 1 ms.
func (tr *truth) add(name string, dMax int, begin, end int64, s outcome.Status) {
	delay := end - begin
	if delay > int64(dMax)*ms {
		delay, s = int64(dMax)*ms, outcome.Timeout
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	window := (begin + delay - start) / (100 * ms)
	c := tr.counts[name][window]
	if c == nil {
		c = &outcome.Counts{Outcome: name, Bins: make([]uint64, dMax)}
		tr.counts[name][window] = c
	}
	c.Ends++
	switch s {
	case outcome.Success:
		c.Successes++
		c.Bins[min(delay/ms, int64(dMax)-1)]++
	case outcome.Failure:
		c.Failures++
	case outcome.Timeout:
		c.Timeouts++
	}
}

// rubbish are lines that must be rejected without any effect on others.
var rubbish = []string{
	"n:a;b:1,5;e:2,5;s:ok\n", "n:a;b:5;e:2;s:ok\r\n", "n:a;b:5;e:7;s:no\n", "\n", "n:x\x00;b:5;e:7;s:ok\n",
	"n:" + strings.Repeat("x", 3000) + ";b:5;e:7;s:ok\n", strings.Repeat("y", 1<<20) + "\n",
}

// 300 000 instances arrive over three connections as fast as possible, with rubbish in between
// and with connections that end and come back. All are counted, in the right window, bin and
// outcome.
func TestCountsAllInstances(t *testing.T) {
	const each, rounds, windows = 20_000, 5, 10
	outcomes := map[string]int{"a": 20, "a;b:1;e:2": 30, "with spaces": 7}
	var specs []outcome.Spec
	sent := &truth{counts: make(map[string]map[int64]*outcome.Counts)}
	for name, bins := range outcomes {
		specs = append(specs, spec(name, bins))
		sent.counts[name] = make(map[int64]*outcome.Counts)
	}
	r := newRig(t, plan(start, specs...))
	var clients sync.WaitGroup
	var bad atomic.Uint64
	for seed := range uint64(3) {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(seed, 0))
			for range rounds {
				f := newFake(t)
				f.connect(r.Source)
				out := bufio.NewWriterSize(f.conn, 1000+random.IntN(50_000))
				for range each {
					name := specs[random.IntN(len(specs))].Wrapper
					begin := start + random.Int64N(100*(windows-1)*ms)
					end := begin + min(random.Int64N(40), int64(outcomes[name]))*ms + random.Int64N(3) - 1
					end = max(end, begin)
					s := outcome.Status(random.IntN(2))
					sent.add(name, outcomes[name], begin, end, s)
					out.Write(format(line{name: []byte(name), begin: begin, end: end, status: s}))
					out.WriteString([]string{"\n", "\r\n"}[random.IntN(2)])
					if random.IntN(1000) == 0 {
						bad.Add(1)
						out.WriteString(rubbish[random.IntN(len(rubbish))])
					}
				}
				if random.IntN(2) == 0 {
					bad.Add(1)
					out.WriteString("n:a;b:5;e:7;s:o") // the line ends here
				}
				if err := out.Flush(); err != nil {
					t.Error(err)
				}
				f.conn.(*net.TCPConn).CloseWrite() // the connection has unread commands, so Close would drop data that is not sent yet
			}
		})
	}
	clients.Wait()
	r.awaitPeers(0)

	got := make(map[string]map[int64]*outcome.Counts)
	var rejected, owned uint64
	for n := range int64(windows) {
		b := r.collect(plan(start).At(uint64(n)))
		rejected += b.Rejected.Count
		for _, c := range b.Counts {
			owned += c.Loss.Rejected
			c.Loss.Rejected = 0
			addTo(got, n, c)
		}
	}
	if diff := cmp.Diff(sent.counts, got); diff != "" {
		t.Errorf("-sent +counted:\n%s", diff)
	}
	if rejected != bad.Load() || owned == 0 || owned > rejected {
		t.Errorf("%d rejected, %d of them of an outcome; want %d and some", rejected, owned, bad.Load())
	}
}

// addTo adds the counts of a VM to the total.
func addTo(all map[string]map[int64]*outcome.Counts, n int64, c outcome.Counts) {
	if all[c.Outcome] == nil {
		all[c.Outcome] = make(map[int64]*outcome.Counts)
	}
	sum := all[c.Outcome][n]
	if sum == nil {
		sum = &outcome.Counts{Outcome: c.Outcome, Bins: make([]uint64, len(c.Bins))}
		all[c.Outcome][n] = sum
	}
	bins := sum.Bins
	for i := range bins {
		bins[i] += c.Bins[i]
	}
	c.VM = outcome.VM{}
	*sum = sum.Add(c)
	sum.VM, sum.Bins = outcome.VM{}, bins
	if sum.Ends == 0 && sum.Loss == (outcome.Loss{}) {
		delete(all[c.Outcome], n)
	}
}

// Rejected lines are counted, also for their outcome if that is certain, and the last one is
// shown.
func TestRejected(t *testing.T) {
	f := newFake(t)
	r := newRig(t, plan(start, spec("a", 20)))
	f.connect(r.Source)
	f.send("n:a;b:7;e:5;s:ok\nn:b;b:7;e:5;s:ok\nn:a;b:1;e:2\nn:a;b:1;e:%d;s:maybe\n", start)
	r.awaitLines(4)
	r.noticed(`^127.0.0.1: [1-4] lines rejected, the last one "n:a;b:1;e:3600000000000;s:maybe": the status is not ok, fa or to$`)
	if p := r.Peers(); len(p) != 1 || p[0].Lines != 4 || p[0].Rejected != 4 || p[0].VM != here {
		t.Errorf("peers %+v", p)
	}
	b := r.collect(plan(start).At(0))
	want := outcome.Rejected{Count: 4, Last: `"n:a;b:1;e:3600000000000;s:maybe": the status is not ok, fa or to`}
	if diff := cmp.Diff(want, b.Rejected); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := b.Counts[0].Loss; got != (outcome.Loss{Rejected: 2}) {
		t.Errorf("loss %+v", got)
	}
	if b := r.collect(plan(start).At(1)); b.Rejected != (outcome.Rejected{}) {
		t.Errorf("rejected lines counted again: %+v", b.Rejected)
	}
}

// Spans that belong to no outcome are counted for the peer, with one notice.
func TestUnwanted(t *testing.T) {
	f := newFake(t)
	r := newRig(t, plan(start, spec("a", 20)))
	f.connect(r.Source)
	for range 3 {
		f.send("n:other;b:%d;e:%d;s:ok\n", start, start)
	}
	r.awaitLines(3)
	r.noticed(`^127.0.0.1 sends spans named "other", which no outcome observes$`)
	if p := r.Peers(); p[0].Unwanted != 3 || p[0].Rejected != 0 {
		t.Errorf("peers %+v", p)
	}
}

// Instances that end in the future, or too long ago, are missed, with a notice.
func TestClockOff(t *testing.T) {
	f, g := newFake(t), newFake(t)
	r := newRig(t, plan(start, spec("a", 20)))
	r.collect(plan(start).At(0))
	f.connect(r.Source)
	f.send("n:a;b:%d;e:%d;s:ok\n", 2*start+2300*ms, 2*start+2300*ms)
	r.noticed(`^the clock of 127.0.0.1 is 2.3s ahead`)
	g.connect(r.Source)
	g.send("n:a;b:%d;e:%d;s:ok\n", start+45*ms, start+50*ms)
	r.noticed(`^instances of 127.0.0.1 \(2\) come 50ms too late to be counted`)
	b := r.collect(plan(start).At(1))
	for _, c := range b.Counts {
		if c.Instances() != 0 || c.Loss != (outcome.Loss{Missed: 1}) {
			t.Errorf("%+v", c)
		}
	}
}

// Instances that ended before the observation began are not late if they arrive before the first
// window is collected.
func TestEndedBeforeTheObservation(t *testing.T) {
	f := newFake(t)
	r := newRig(t, plan(start, spec("a", 20)))
	r.now.Store(start - 300*ms)
	f.connect(r.Source)
	f.send("n:a;b:%d;e:%d;s:ok\n", start-320*ms, start-310*ms)
	r.awaitLines(1)
	r.now.Store(start + 20*ms)
	f.send("n:a;b:%d;e:%d;s:ok\n", start-30*ms, start-10*ms)
	r.awaitLines(2)
	if notices := r.Watch(t.Context()); slices.ContainsFunc(notices, func(n outcome.Notice) bool { return strings.Contains(n.Text, "too late") }) {
		t.Errorf("%v", notices)
	}
	r.collect(plan(start).At(0))
	f.send("n:a;b:%d;e:%d;s:ok\n", start-30*ms, start-10*ms)
	r.noticed(`^instances of 127.0.0.1 come 110ms too late to be counted`)
}

// An end slightly in the future counts as the present. The delay does not change.
func TestClockSlightlyAhead(t *testing.T) {
	f := newFake(t)
	everything := spec("a", 20)
	everything.Detail = outcome.Everything
	r := newRig(t, plan(start, everything))
	r.now.Store(start + 50*ms)
	f.connect(r.Source)
	f.send("n:a;b:%d;e:%d;s:ok\n", start+120*ms, start+130*ms)
	r.awaitLines(1)
	b := r.collect(plan(start).At(0))
	want := []outcome.Instance{{Outcome: "a", VM: here, Start: start + 40*ms, End: start + 50*ms}}
	if diff := cmp.Diff(want, b.Instances); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Instances of all outcomes and VMs are sorted by their ends.
func TestInstances(t *testing.T) {
	f, g := newFake(t), newFake(t)
	a, b, c := spec("a", 20), spec("b", 20), spec("c", 20)
	a.Detail, b.Detail = outcome.Everything, outcome.Worst
	r := newRig(t, plan(start, a, b, c))
	f.connect(r.Source)
	r.awaitPeers(1)
	g.connect(r.Source)
	for n := range int64(30) {
		f.send("n:a;b:%d;e:%d;s:ok\n", start, start+(29-n)*ms/2)
		g.send("n:b;b:%d;e:%d;s:fa\nn:c;b:1;e:%d;s:ok\n", start, start+n*ms/2+1, start)
	}
	r.awaitLines(90)
	batch := r.collect(plan(start).At(0))
	worst := 0
	for _, i := range batch.Instances {
		if i.Outcome == "b" {
			worst++
			if i.Elapsed() < 7*time.Millisecond || i.VM.Node != "127.0.0.1 (2)" || i.Status != outcome.Failure {
				t.Errorf("%+v is among the worst", i)
			}
		}
	}
	if len(batch.Instances) != 30+outcome.MaxWorst || worst != outcome.MaxWorst {
		t.Errorf("%d instances, %d of b", len(batch.Instances), worst)
	}
	if !slices.IsSortedFunc(batch.Instances, func(a, b outcome.Instance) int { return int(a.End - b.End) }) {
		t.Error("not in the order of their ends")
	}
}

// A VM has counts while it is connected. If it has sent an instance, it has counts until its last
// window was collected. A VM that comes back is the same, and a second one is different.
func TestVMsWithCounts(t *testing.T) {
	f, g := newFake(t), newFake(t)
	r := newRig(t, plan(start, spec("a", 20)))
	n := uint64(0)
	check := func(want ...string) {
		t.Helper()
		r.now.Store(plan(start).At(n).From + 50*ms)
		var got []string
		for _, c := range r.collect(plan(start).At(n)).Counts {
			got = append(got, c.VM.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("window %d: %q, want %q", n, got, want)
		}
		n++
	}
	check("no VM")
	f.connect(r.Source)
	r.awaitPeers(1)
	g.connect(r.Source)
	r.awaitPeers(2)
	check("127.0.0.1", "127.0.0.1 (2)")
	f.send("n:a;b:%d;e:%d;s:ok\n", start, start)
	r.awaitLines(1)
	f.conn.Close()
	r.noticed(`^127.0.0.1 has disconnected$`)
	check("127.0.0.1", "127.0.0.1 (2)")
	check("127.0.0.1 (2)")
	f.connect(r.Source)
	r.awaitPeers(2)
	check("127.0.0.1", "127.0.0.1 (2)")
	f.conn.Close() // has sent nothing this time
	r.awaitPeers(1)
	check("127.0.0.1 (2)")
}

// A batch names the peers of its VMs.
func TestOwners(t *testing.T) {
	r := newRig(t, plan(start, spec("a", 20)))
	for i, user := range []string{"user 1", "user 2"} {
		r.as(user)
		newFake(t).connect(r.Source)
		r.awaitPeers(i + 1)
	}
	got := r.collect(plan(start).At(0)).Owners
	want := map[outcome.VM]string{here: "user 1", {Node: "127.0.0.1 (2)"}: "user 2"}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// If a wrapper's listener goes away, the source connects again and sends all commands.
func TestConnectsAgain(t *testing.T) {
	f := newFake(t)
	r := newRig(t, plan(start, spec("a", 20)), f)
	for range 3 {
		await(t, "commands", f.ready(map[string]int64{"a": 20}))
		f.mu.Lock()
		f.active, f.timeouts = false, make(map[string]int64)
		f.mu.Unlock()
		f.hangUp()
	}
	r.noticed("^disconnected from " + f.address())
	r.noticed("^connected to " + f.address())
}

// A listener that does not exist gives one notice, and does not delay Close.
func TestConnectsToMissingListener(t *testing.T) {
	f := newFake(t)
	f.listener.Close()
	r := newRig(t, plan(start, spec("a", 20)), f)
	r.noticed(`connection refused: trying again$`)
	want := Peer{Address: f.address(), Direction: Outbound}
	if diff := cmp.Diff([]Peer{want}, r.Peers()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A wrapper that never reads its socket gets more commands than fit into all buffers. Nothing
// waits for it: neither its own instances, nor other wrappers, nor Close.
func TestPeerThatNeverReads(t *testing.T) {
	var specs []outcome.Spec
	for n := range 3000 {
		specs = append(specs, spec(strings.Repeat("x", 200)+fmt.Sprint(n), 20))
	}
	f, g := newFake(t), newFake(t)
	r := newRig(t, plan(start, specs...))
	f.connect(r.Source)
	g.connect(r.Source)
	r.awaitPeers(2)
	for range 50 {
		r.Stop()
		r.Start()
	}
	f.send("n:%s;b:%d;e:%d;s:ok\n", specs[0].Wrapper, start, start)
	r.awaitLines(1)
	g.listen()
	await(t, "the commands of another", g.ready(map[string]int64{specs[2999].Wrapper: 20}))
}

// A wrapper closes its connection without reading its commands, so that the connection is reset.
// Everything that was received before counts.
func TestReset(t *testing.T) {
	f := newFake(t)
	r := newRig(t, plan(start, spec("a", 20)))
	f.connect(r.Source)
	r.awaitPeers(1)
	f.send("%s", strings.Repeat(fmt.Sprintf("n:a;b:%d;e:%d;s:fa\n", start, start), 100))
	f.conn.Close()
	r.awaitPeers(0)
	if got := r.collect(plan(start).At(0)).Counts[0].Failures; got != 100 {
		t.Errorf("%d instances, want 100", got)
	}
}

// The number of connected wrappers is limited. When one leaves, there is room again.
func TestTooManyPeers(t *testing.T) {
	r := newRig(t, plan(start, spec("a", 20)))
	var all []*fake
	for range MaxPeers {
		f := newFake(t)
		f.connect(r.Source)
		all = append(all, f)
	}
	r.awaitPeers(MaxPeers)
	one := newFake(t)
	one.connect(r.Source)
	if _, err := one.conn.Read(make([]byte, 1)); err == nil {
		t.Error("one more is served")
	}
	r.noticed(`^refused a connection from 127.0.0.1: 64 wrappers are connected already$`)
	all[0].conn.Close()
	r.awaitPeers(MaxPeers - 1)
	await(t, "room", func() bool {
		one.connect(r.Source)
		_, err := one.conn.Read(make([]byte, 1))
		return err == nil
	})
}

// A user who takes all slots does not lock out others. The oldest idle connection of that user is
// closed, and never one of a user with fewer connections.
func TestIdlePeersMakeRoom(t *testing.T) {
	r := newRig(t, plan(start, spec("a", 20)))
	r.as("user 7")
	busy := newFake(t)
	busy.connect(r.Source)
	r.awaitPeers(1)
	r.as("user 61234")
	for range MaxPeers - 1 {
		newFake(t).connect(r.Source)
	}
	r.awaitPeers(MaxPeers)
	r.as("user 7")
	for n := range 20 {
		f := newFake(t)
		f.connect(r.Source)
		f.send("n:a;b:%d;e:%d;s:ok\n", start, start+ms)
		r.awaitLines(uint64(n + 1))
		r.awaitPeers(MaxPeers)
	}
	r.noticed(`^closed the connection from 127\.0\.0\.1:\d+ of user 61234, to make room for one of user 7: 64 are served at a time$`)
	busy.send("n:a;b:%d;e:%d;s:ok\n", start, start+ms)
	r.awaitLines(21)
}

// If each user has one connection, a new user takes the slot of an idle one. If all are in use,
// the new user gets none.
func TestManyPeers(t *testing.T) {
	r := newRig(t, plan(start, spec("a", 20)))
	for n := range MaxPeers {
		r.as(fmt.Sprintf("192.0.2.%d", n))
		newFake(t).connect(r.Source)
		r.awaitPeers(n + 1)
	}
	r.as("198.51.100.1")
	one := newFake(t)
	one.connect(r.Source)
	if _, err := one.conn.Read(make([]byte, 1)); err == nil {
		t.Error("one more is served while no other has been idle for long")
	}
	r.now.Add(idle)
	one.connect(r.Source)
	one.send("n:a;b:%d;e:%d;s:ok\n", start, start+ms)
	r.awaitLines(1)
	r.awaitPeers(MaxPeers)
}

// A connection that has been idle for long makes room for another one of the same user.
func TestIdleConnectionOfTheSameUserMakesRoom(t *testing.T) {
	r := newRig(t, plan(start, spec("a", 20)))
	var all []*fake
	for range MaxPeers {
		f := newFake(t)
		f.connect(r.Source)
		all = append(all, f)
	}
	r.awaitPeers(MaxPeers)
	r.now.Add(idle)
	for n, f := range all[1:] { // all except one are in use
		f.send("n:a;b:%d;e:%d;s:ok\n", start, start+ms)
		r.awaitLines(uint64(n + 1))
	}
	one := newFake(t)
	one.connect(r.Source)
	one.send("n:a;b:%d;e:%d;s:ok\n", start, start+ms)
	r.awaitLines(MaxPeers)
	if _, err := io.Copy(io.Discard, all[0].conn); err != nil {
		t.Error(err)
	}
}

// Addresses and peers of other hosts are refused unless they are allowed.
func TestRemote(t *testing.T) {
	p := plan(start, spec("a", 20))
	for _, cfg := range []Config{
		{Listen: ":0", Plan: p},
		{Listen: "0.0.0.0:0", Plan: p},
		{Listen: "[::]:0", Plan: p},
		{Listen: "127.0.0.1:0", Connect: []string{"192.0.2.1:8081"}, Plan: p},
	} {
		if _, err := New(cfg); !errors.Is(err, ErrRemote) {
			t.Errorf("%v, %v: error %v, want %v", cfg.Listen, cfg.Connect, err, ErrRemote)
		}
	}
	s, err := New(Config{Listen: "0.0.0.0:0", Remote: true, Plan: p})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.admit(elsewhere{})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Error(err)
	}
	if _, err := newRig(t, p).admit(elsewhere{}); !errors.Is(err, ErrRemote) {
		t.Errorf("error %v, want %v", err, ErrRemote)
	}
}

// elsewhere is a connection from another host.
type elsewhere struct{ net.Conn }

func (elsewhere) LocalAddr() net.Addr { return elsewhere{}.RemoteAddr() }

func (elsewhere) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.1:40000"))
}

// Invalid addresses, and addresses on which listening is impossible, give an error.
func TestBadAddress(t *testing.T) {
	r := newRig(t, plan(start))
	for _, address := range []string{"", "127.0.0.1", "127.0.0.1:x", r.Addr().String()} {
		if _, err := New(Config{Listen: address, Plan: plan(start)}); err == nil {
			t.Errorf("%q is accepted", address)
		}
	}
	if _, err := New(Config{Listen: "127.0.0.1:0"}); !errors.Is(err, ErrPlan) {
		t.Errorf("error %v, want %v", err, ErrPlan)
	}
}

// With the machine's clocks a new instance belongs to the present window.
func TestPresent(t *testing.T) {
	p := outcome.Plan{From: monotonic.Now(), Window: time.Hour, Specs: []outcome.Spec{spec("a", 20)}}
	s, err := New(Config{Listen: "127.0.0.1:0", Plan: p})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f := newFake(t)
	f.connect(s)
	now := time.Now().UnixNano()
	f.send("n:a;b:%d;e:%d;s:ok\n", now-3*ms, now)
	await(t, "the line", func() bool { p := s.Peers(); return len(p) == 1 && p[0].Lines == 1 })
	b, err := s.Collect(t.Context(), p.At(0))
	if err != nil || b.Counts[0].Successes != 1 || b.Counts[0].Bins[3] != 1 {
		t.Errorf("%+v, %v", b.Counts, err)
	}
}

// Windows are collected in order, and none after the end.
func TestCollectInOrder(t *testing.T) {
	r := newRig(t, plan(start, spec("a", 20)))
	for _, n := range []uint64{1, 3} {
		if _, err := r.Collect(t.Context(), plan(start).At(n)); err == nil {
			t.Errorf("window %d was collected as the first", n)
		}
	}
	r.collect(plan(start).At(0))
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Error(err)
	}
	r.Stop()
	if _, err := r.Collect(t.Context(), plan(start).At(1)); !errors.Is(err, outcome.ErrEnded) {
		t.Errorf("error %v, want %v", err, outcome.ErrEnded)
	}
	if err := r.Plan(t.Context(), plan(start+100*ms)); !errors.Is(err, outcome.ErrEnded) {
		t.Errorf("error %v, want %v", err, outcome.ErrEnded)
	}
}

// Directions have the expected names.
func TestDirections(t *testing.T) {
	for d, want := range map[Direction]string{Inbound: "inbound", Outbound: "outbound", 7: "Direction(7)"} {
		if d.String() != want {
			t.Errorf("got %q, want %q", d, want)
		}
	}
}

// BenchmarkSocket measures receiving a line over a connection within this machine.
func BenchmarkSocket(b *testing.B) {
	p := outcome.Plan{From: monotonic.Now(), Window: time.Hour, Specs: []outcome.Spec{spec("worker_1", 50)}}
	s, err := New(Config{Listen: "127.0.0.1:0", Plan: p})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	conn, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	now := time.Now().UnixNano()
	const lines = 1000
	text := bytes.Repeat(append(format(line{name: []byte("worker_1"), begin: now - 3*ms, end: now}), '\n'), lines)
	b.ReportAllocs()
	sent := uint64(0)
	for b.Loop() {
		if sent++; sent%lines == 1 {
			if _, err := conn.Write(text); err != nil {
				b.Fatal(err)
			}
		}
	}
	await(b, "the last line", func() bool { p := s.Peers(); return p[0].Lines >= (sent+lines-1)/lines*lines })
}
