package session_test

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// twoSourcesScope composes spans that are observed in the kernel with instances that a wrapper
// sends over TCP to an address.
const twoSourcesScope = `
window: 1s
wrapper: {listen: "%s"}
diagram: |
  both = worker_1 -> second;
outcomes:
  worker_1: {dmax: 100ms, bins: 100}
  second: {wrapper: second, dmax: 100ms, bins: 100}
  both: {dmax: 200ms, bins: 200}
`

// An outcome of a VM that is observed with eBPF and an outcome that a peer sends are composed, in
// the same windows.
func TestOneDiagramTwoSources(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	r := start(t, []string{"ftf"}, fmt.Sprintf(twoSourcesScope, address), session.Options{})
	p := newPeer(t, address)
	frames := r.next(4)
	sent := p.stop()

	for _, f := range frames {
		second := outcomeOf(f, "second")
		lo, hi := ended(sent, f.Window)
		if n := second.Counts.Successes; n < lo || n > hi {
			t.Errorf("frame %d: %d instances over TCP, want %d to %d", f.Number, n, lo, hi)
		}
		both, first := outcomeOf(f, "both"), outcomeOf(f, "worker_1")
		if want := min(first.Counts.Instances(), second.Counts.Instances()); both.CalculatedFrom != want || want == 0 {
			t.Errorf("frame %d: calculated from %d instances, want %d", f.Number, both.CalculatedFrom, want)
		}
		// The delay of the second outcome is always in its bin from 5 to 6 ms. So the composition
		// equals the first one, shifted by 5 to 6 bins.
		for k, within := range first.Observed.AppendECDF(nil) {
			if got := both.Calculated.At(k + peerDelayBins); !got.Contains(within) {
				t.Fatalf("frame %d: %.3f to %.3f of both within %d ms, want the %.3f of the first within %d", f.Number,
					got.Lo, got.Hi, k+peerDelayBins, within, k)
			}
		}
	}
}

// threeSourcesScope composes a span in the ring, a garbage collection that programs in the kernel
// see, and an instance that the VM sends over TCP. The triggers never fire: they request single
// instances.
const threeSourcesScope = `
window: 1s
wrapper: {listen: "%s"}
diagram: |
  request = asked -> collected -> answered;
outcomes:
  request: {dmax: 60s, bins: 600, triggers: {load: 100000}}
  asked: {dmax: 60s, bins: 600, triggers: {load: 100000}}
  collected: {vm: gc, dmax: 60s, bins: 600, triggers: {load: 100000}}
  answered: {wrapper: answered, dmax: 60s, bins: 600, triggers: {load: 100000}}
`

// oneRequest evaluates a request in a process of its own, which connects to the port of the wrappers:
// the span asked, then a collection of its large heap, and then an instance over TCP, within the span
// request. Between them it pauses for longer than the clocks of the sources may differ. It returns
// the pid, and the times before and after each of the three by the VM's clock.
const oneRequest = `
	{ok, Socket} = gen_tcp:connect("127.0.0.1", %d, [binary]),
	{_, Monitor} = spawn_monitor(fun() ->
		Heap = lists:seq(1, 200000), Clock = fun os:perf_counter/0, Pause = fun() -> timer:sleep(30) end,
		exit(beamscope:with_span(<<"request">>, fun() ->
			A = Clock(), beamscope:with_span(<<"asked">>, fun() -> Pause() end), B = Clock(), Pause(),
			C = Clock(), true = erlang:garbage_collect(), D = Clock(), Pause(),
			E = Clock(), Begin = os:system_time(nanosecond), Pause(), End = os:system_time(nanosecond), F = Clock(), Pause(),
			ok = gen_tcp:send(Socket, io_lib:format("n:answered;b:~b;e:~b;s:ok~n", [Begin, End])),
			{self(), A, B, C, D, E, F, length(Heap)}
		end))
	end),
	receive {'DOWN', Monitor, process, _, Times} -> Times end`

// A request has the times of oneRequest.
type request struct {
	pid   string
	times []int64
}

// request makes the VM do a request.
func (r *rig) request(port int) request {
	r.t.Helper()
	term := vmtest.Eval(r.t, r.vm, fmt.Sprintf(oneRequest, port))
	pid, rest, found := strings.Cut(strings.TrimPrefix(term, "{"), ">,")
	if !found {
		r.t.Fatal(term)
	}
	return request{pid + ">", vmtest.Integers(r.t, rest)[:6]}
}

// A span of the ring, an outcome of the VM, and an instance that comes over TCP are composed in one
// diagram. All have the same clock: the single instances of a request are in the order in which they
// happened, and each is within the times that the VM measured.
func TestOneDiagramThreeSources(t *testing.T) {
	vmtest.NeedEvents(t)
	for _, vm := range []struct {
		what string
		otp  func(*testing.T) erlang.OTP
	}{
		{"probes", func(t *testing.T) erlang.OTP { return vmtest.Private(t) }},
		{"stand-ins", func(t *testing.T) erlang.OTP { return vmtest.Stock(t, 25) }},
	} {
		t.Run(vm.what, func(t *testing.T) {
			t.Parallel()
			vmtest.NeedEBPF(t)
			address := freeAddress(t)
			kept := &keptInstances{observerLog: newObserverLog()}
			beam := vmtest.StartOn(t, vm.otp(t), erlang.Options{Carrier: erlang.Ring})
			r := observe(t, beam, fmt.Sprintf(threeSourcesScope, address), session.Options{Observers: []scope.Observer{kept}})
			r.next(1)
			_, port, err := net.SplitHostPort(address)
			if err != nil {
				t.Fatal(err)
			}
			number, err := strconv.Atoi(port)
			if err != nil {
				t.Fatal(err)
			}
			const wanted, most = 3, 30 // requests; some may be in windows that were not observed, or in two windows
			for complete, all := 0, 0; complete < wanted || !composed(t, r.allFrames()); all++ {
				if all == most {
					t.Fatalf("%d of %d requests are complete: %+v\n%v", complete, all, kept.all, r)
				}
				done := r.request(number)
				r.next(1)
				if kept.compare(t, done) {
					complete++
				}
			}
		})
	}
}

// composed reports whether the parts of the request are composed in any frame.
func composed(t *testing.T, frames frameList) bool {
	t.Helper()
	return slices.ContainsFunc(frames, func(f *scope.Frame) bool {
		least := min(outcomeOf(f, "asked").Counts.Instances(), outcomeOf(f, "collected").Counts.Instances(), outcomeOf(f, "answered").Counts.Instances())
		if from := outcomeOf(f, "request").CalculatedFrom; from != least {
			t.Errorf("frame %d: calculated from %d instances, want %d", f.Number, from, least)
		}
		return least > 0
	})
}

// A keptInstances is an observer that keeps single instances by outcome.
type keptInstances struct {
	*observerLog
	all map[string][]outcome.Instance
}

// Framed implements [scope.Observer].
func (k *keptInstances) Framed(b *outcome.Batch, _ *scope.Frame) error {
	k.add(func() {
		if k.all == nil {
			k.all = make(map[string][]outcome.Instance)
		}
		for _, i := range b.Instances {
			k.all[i.Outcome] = append(k.all[i.Outcome], i)
		}
	})
	return nil
}

// compare compares the instances of a request with its times. It returns false if not all are there:
// a window may not have been observed.
func (k *keptInstances) compare(t *testing.T, done request) bool {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	const (
		fine   = int64(time.Millisecond)      // kernel and VM read the same clock
		coarse = int64(20 * time.Millisecond) // over TCP there is a wall clock between
	)
	within := func(name string, from, to, doubt int64) *outcome.Instance {
		for i := range k.all[name] {
			one := &k.all[name][i]
			if one.Start >= from-doubt && one.End <= to+doubt && (one.Process == 0 || one.Process.String() == done.pid) {
				return one
			}
		}
		return nil
	}
	at := done.times
	whole := within("request", at[0]-int64(time.Hour), at[5]+int64(time.Hour), 0)
	asked, collected, answered := within("asked", at[0], at[1], 0), within("collected", at[2], at[3], fine), within("answered", at[4], at[5], coarse)
	if whole == nil || asked == nil || collected == nil || answered == nil {
		return false
	}
	if asked.Parent != whole.ID || whole.Start > asked.Start || asked.End > collected.Start || collected.End > answered.Start || answered.End > whole.End {
		t.Errorf("request %v: %+v contains %+v, %+v and %+v", done, whole, asked, collected, answered)
	}
	return true
}

// Instances that a peer sends: their delay is 5.5 ms, the middle of a bin.
const (
	peerDelay     = 5500 * time.Microsecond
	peerDelayBins = 5
)

// A peer sends instances as a wrapper does, one after the other.
type peer struct {
	ends    []int64 // ends of the sent instances, nanoseconds of CLOCK_MONOTONIC
	quit    chan struct{}
	sending sync.WaitGroup
}

func newPeer(t *testing.T, address string) *peer {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{quit: make(chan struct{})}
	p.sending.Go(func() {
		defer conn.Close()
		p.send(t, conn)
	})
	t.Cleanup(func() { p.stop() })
	return p
}

func (p *peer) send(t *testing.T, conn net.Conn) {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-p.quit:
			return
		}
		p.ends = append(p.ends, monotonic.Now())
		end := time.Now().UnixNano()
		if _, err := fmt.Fprintf(conn, "n:second;b:%d;e:%d;s:ok\n", end-int64(peerDelay), end); err != nil {
			t.Error(err)
			return
		}
	}
}

// stop stops the peer, and returns the ends of all instances that it sent.
func (p *peer) stop() []int64 {
	select {
	case <-p.quit:
	default:
		close(p.quit)
	}
	p.sending.Wait()
	return p.ends
}

// ended returns the least and the largest number of instances that can have ended in a window,
// because two clocks are not read at the same time.
func ended(ends []int64, w outcome.Window) (lo, hi uint64) {
	const doubt = int64(20 * time.Millisecond)
	for _, at := range ends {
		if at >= w.From+doubt && at < w.To-doubt {
			lo++
		}
		if at >= w.From-doubt && at < w.To+doubt {
			hi++
		}
	}
	return lo, hi
}

// freeAddress returns an unused TCP address of this host.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
