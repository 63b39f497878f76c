package dashboard

import (
	"context"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/gdamore/tcell/v2/terminfo"
	_ "github.com/gdamore/tcell/v2/terminfo/x/xterm" // the terminals of the benchmark

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/config"
)

// A countingTTY is a terminal that counts the bytes written to it.
type countingTTY struct {
	width, height int
	written       atomic.Int64
	closed        chan struct{}
}

func (t *countingTTY) Start() error        { return nil }
func (t *countingTTY) Stop() error         { return nil }
func (t *countingTTY) Drain() error        { close(t.closed); return nil }
func (t *countingTTY) Close() error        { return nil }
func (t *countingTTY) NotifyResize(func()) {}
func (t *countingTTY) Read([]byte) (int, error) {
	<-t.closed
	return 0, io.EOF
}

func (t *countingTTY) Write(p []byte) (int, error) {
	t.written.Add(int64(len(p)))
	return len(p), nil
}

func (t *countingTTY) WindowSize() (tcell.WindowSize, error) {
	return tcell.WindowSize{Width: t.width, Height: t.height}, nil
}

// sixOutcomes is a system of six outcomes with 1000 bins each. One outcome is calculated and has a
// requirement.
const sixOutcomes = `
diagram: |
  e = a -> b -> c;
  f = f:f(a, d);
outcomes:
  a: {span: a, dmax: 100ms, bins: 1000}
  b: {span: b, dmax: 100ms, bins: 1000}
  c: {span: c, dmax: 100ms, bins: 1000}
  d: {span: d, dmax: 100ms, bins: 1000}
  e: {span: e, dmax: 100ms, bins: 1000, qta: {p25: 20ms, p50: 60ms, p75: 80ms, failure: 0.05}}
  f: {span: f, dmax: 100ms, bins: 1000}
`

// sixFrames returns n frames of that system. Each frame has different instances.
func sixFrames(tb testing.TB, n int) (*scope.System, []*outcome.Batch, []*scope.Frame) {
	tb.Helper()
	c, err := config.Parse("six.yaml", []byte(sixOutcomes))
	if err != nil {
		tb.Fatal(err)
	}
	system, err := c.System()
	if err != nil {
		tb.Fatal(err)
	}
	engine, err := scope.NewEngine(system)
	if err != nil {
		tb.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var batches []*outcome.Batch
	var frames []*scope.Frame
	for i := range n {
		b := batchOf(system, random, int64(i))
		f, err := engine.Step(b)
		if err != nil {
			tb.Fatal(err)
		}
		batches, frames = append(batches, b), append(frames, f.Clone())
	}
	return system, batches, frames
}

// batchOf returns a simulated second of 2000 requests.
func batchOf(s *scope.System, random *rand.Rand, second int64) *outcome.Batch {
	w := outcome.Window{From: second * int64(time.Second), To: (second + 1) * int64(time.Second)}
	b := &outcome.Batch{Window: w, Time: time.Unix(second, 0)}
	for _, p := range s.Outcomes {
		c := outcome.Counts{Outcome: p.Spec.Name, VM: outcome.VM{PID: 1}, Bins: make([]uint64, p.Spec.Bins)}
		for range 2000 {
			delay := time.Duration(random.ExpFloat64() * float64(15*time.Millisecond))
			if bin := int(delay / p.Spec.BinWidth); bin < p.Spec.Bins {
				c.Bins[bin]++
				c.Successes++
			} else {
				c.Timeouts++
			}
		}
		c.Starts, c.Ends = 2000, c.Successes
		b.Counts = append(b.Counts, c)
	}
	return b
}

// BenchmarkFrame shows frames of six plots of 1000 bins at 200×60, from the scope to the
// terminal. It reports how many bytes the terminal gets for each frame, and the share of a core
// that five frames a second take.
func BenchmarkFrame(b *testing.B) {
	for _, term := range []string{"xterm", "xterm-256color"} {
		b.Run(term, func(b *testing.B) { benchmarkFrame(b, term) })
	}
}

func benchmarkFrame(b *testing.B, term string) {
	ti, err := terminfo.LookupTerminfo(term)
	if err != nil {
		b.Fatal(err)
	}
	tty := &countingTTY{width: 200, height: 60, closed: make(chan struct{})}
	screen, err := tcell.NewTerminfoScreenFromTtyTerminfo(tty, ti)
	if err != nil {
		b.Fatal(err)
	}
	system, batches, frames := sixFrames(b, 16)
	d := New(Options{Title: "benchmark", Screen: screen})
	if err := d.Configured(system, system.Plan(0)); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error)
	ready := make(chan struct{})
	go func() {
		done <- d.Run(ctx, &control{}, func(ctx context.Context) error {
			close(ready)
			<-ctx.Done()
			return nil
		})
	}()
	<-ready
	number := uint64(0)
	show := func() {
		i := int(number) % len(frames)
		f := *frames[i]
		f.Number = number
		number++
		if err := d.Framed(batches[i], &f); err != nil {
			b.Fatal(err)
		}
		d.update(d.refresh)
	}
	show()
	before := tty.written.Load()
	b.ReportAllocs()
	for b.Loop() {
		show()
	}
	perFrame := b.Elapsed() / time.Duration(b.N)
	b.ReportMetric(float64(tty.written.Load()-before)/float64(b.N)/1024, "KiB/frame")
	b.ReportMetric(perFrame.Seconds()*5*100, "%core-at-5/s")
	cancel()
	if err := <-done; err != nil {
		b.Error(err)
	}
}
