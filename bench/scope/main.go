// Command scope measures the oscilloscope's own share of a core. It observes 100 outcomes of 1000
// bins in windows of 100 ms. Every window has instances of each outcome, and 40 outcomes are also
// calculated from the others. The command prints the median share of a core, the allocations for a
// window, and whether memory grows.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/files/config"
)

func main() {
	duration := flag.Duration("for", 30*time.Second, "how long to measure, after as long a warm-up")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *duration, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, duration time.Duration, w io.Writer) (err error) {
	otp, err := erlang.FindOTP(ctx)
	if err != nil {
		return err
	}
	beam, err := erlang.StartVM(ctx, otp, erlang.Options{Carrier: erlang.Probes})
	if err != nil {
		return err
	}
	defer beam.Stop()
	c, err := config.Parse("scope.yaml", []byte(scopeFile()))
	if err != nil {
		return err
	}
	c.Target = vm.Target{PID: beam.PID()}
	m := &meter{from: duration}
	s, err := session.Open(ctx, c, session.Options{Observers: []scope.Observer{m}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if _, err := beam.Call(ctx, "erlang", "apply", strings.Join(strings.Fields(load), " ")); err != nil {
		return err
	}
	if err := s.Run(ctx, 2*duration); err != nil {
		return err
	}
	return m.report(w)
}

// outcomes are observed; for each pair, two outcomes are calculated.
const outcomes, pairs = 60, 20

func scopeFile() string {
	var b strings.Builder
	b.WriteString("window: 100ms\ndiagram: |\n")
	for i := range pairs {
		fmt.Fprintf(&b, "  seq_%d = leaf_%d -> leaf_%d;\n", i, 2*i, 2*i+1)
		fmt.Fprintf(&b, "  par_%d = a:par_%d(leaf_%d, leaf_%d);\n", i, i, i, i+pairs)
	}
	b.WriteString("outcomes:\n")
	add := func(name string, i int) {
		fmt.Fprintf(&b, "  %s_%d: {dmax: 100ms, bins: 1000, qta: {p50: 50ms, failure: 0.1}, triggers: {loss: true}}\n", name, i)
	}
	for i := range outcomes {
		add("leaf", i)
	}
	for i := range pairs {
		add("seq", i)
		add("par", i)
	}
	return b.String()
}

// load runs ten processes forever. Each starts a span of every name, waits for some milliseconds
// and ends the spans: about a thousand spans a second for a tenth of the names, with delays in all
// bins.
const load = `[fun() ->
	Names = [iolist_to_binary(io_lib:format("~s_~b", [Kind, I])) ||
		{Kind, N} <- [{"leaf", 60}, {"seq", 20}, {"par", 20}], I <- lists:seq(0, N - 1)],
	Loop = fun(Again) ->
		Spans = [beamscope:start_span(Name) || Name <- Names],
		timer:sleep(20 + rand:uniform(60)),
		[beamscope:end_span(Ctx, Span) || {Ctx, Span} <- Spans],
		Again(Again)
	end,
	[spawn(fun() -> Loop(Loop) end) || _ <- lists:seq(1, 10)],
	ok
end, []]`

// A meter is an observer that measures the second half of a run.
type meter struct {
	from      time.Duration // since the first window
	begin     int64
	shares    []float64
	instances uint64
	lost      uint64
	warm, end memory
}

// memory contains memory figures of the process.
type memory struct {
	live    uint64 // bytes in use after a garbage collection
	mallocs uint64 // objects allocated so far
	bytes   uint64
}

func measured() memory {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return memory{live: m.HeapAlloc, mallocs: m.Mallocs, bytes: m.TotalAlloc}
}

// Configured implements [scope.Observer].
func (m *meter) Configured(_ *scope.System, p outcome.Plan) error {
	m.begin = p.From
	return nil
}

// Noticed implements [scope.Observer].
func (m *meter) Noticed(n outcome.Notice) error {
	_, err := fmt.Fprintln(os.Stderr, n.Text)
	return err
}

// Framed implements [scope.Observer].
func (m *meter) Framed(b *outcome.Batch, f *scope.Frame) error {
	if f.Window.From-m.begin < int64(m.from) {
		return nil
	}
	if m.shares == nil {
		m.warm = measured()
	}
	m.shares = append(m.shares, float64(f.Cost.Collector)/float64(f.Window.Duration()))
	for i := range f.Outcomes {
		m.instances += f.Outcomes[i].Counts.Instances()
		m.lost += f.Outcomes[i].Counts.Loss.Total()
	}
	return nil
}

func (m *meter) report(w io.Writer) error {
	if len(m.shares) < 2 {
		return errors.New("nothing was measured: give it more time")
	}
	m.end = measured()
	m.shares = m.shares[1:] // the first one includes a garbage collection
	slices.Sort(m.shares)
	n := len(m.shares)
	windows := float64(n)
	_, err := fmt.Fprintf(w, `100 probes of 1000 bins, 40 of them calculated, in windows of 100 ms: %d windows

instances a second        %.0f (%d lost)
share of a core           %.1f %% (median; 90th percentile %.1f %%)
allocated for a window    %.1f objects, %.1f KiB
memory in use             %.1f MiB after the warm-up, %.1f MiB at the end
`, n, float64(m.instances)/windows*10, m.lost, m.shares[n/2]*100, m.shares[n*9/10]*100,
		float64(m.end.mallocs-m.warm.mallocs)/windows, float64(m.end.bytes-m.warm.bytes)/windows/1024,
		float64(m.warm.live)/(1<<20), float64(m.end.live)/(1<<20))
	return err
}
