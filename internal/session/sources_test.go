package session_test

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/session"
)

// twoSourcesScope composes spans that are seen in the kernel with instances that a
// wrapper sends over TCP to an address.
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

// An outcome of a VM that is watched with eBPF and one of a peer that sends its
// instances are composed, in windows of one and the same time.
func TestOneDiagramTwoSources(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	r := start(t, []string{"ftf"}, fmt.Sprintf(twoSourcesScope, address), session.Options{})
	p := newPeer(t, address)
	frames := r.next(4)
	sent := p.stop()

	for _, f := range frames {
		second := probe(f, "second")
		lo, hi := ended(sent, f.Window)
		if n := second.Counts.Successes; n < lo || n > hi {
			t.Errorf("frame %d: %d instances over TCP, want %d to %d", f.Number, n, lo, hi)
		}
		both, first := probe(f, "both"), probe(f, "worker_1")
		if want := min(first.Counts.Instances(), second.Counts.Instances()); both.CalculatedFrom != want || want == 0 {
			t.Errorf("frame %d: calculated from %d instances, want %d", f.Number, both.CalculatedFrom, want)
		}
		// The delay of the second is always in its bin from 5 to 6 ms: both together
		// are the first, 5 to 6 bins later.
		for k, within := range first.Observed.AppendECDF(nil) {
			if got := both.Calculated.At(k + peerDelayBins); !got.Contains(within) {
				t.Fatalf("frame %d: %.3f to %.3f of both within %d ms, want the %.3f of the first within %d", f.Number,
					got.Lo, got.Hi, k+peerDelayBins, within, k)
			}
		}
	}
}

// What a peer sends: instances of 5.5 ms, in the middle of a bin.
const (
	peerDelay     = 5500 * time.Microsecond
	peerDelayBins = 5
)

// A peer sends instances as a wrapper does, one after the other.
type peer struct {
	ends    []int64 // of what was sent, nanoseconds of CLOCK_MONOTONIC
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

// stop ends it, and returns when what it sent had ended.
func (p *peer) stop() []int64 {
	select {
	case <-p.quit:
	default:
		close(p.quit)
	}
	p.sending.Wait()
	return p.ends
}

// ended returns how many instances ended in a window at least and at most, as two
// clocks are not read at the same time.
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

// freeAddress returns an address of this host where nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
