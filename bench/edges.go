//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"text/tabwriter"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/procname"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/explain"
	"github.com/beamscope/beamscope/internal/host/monotonic"
)

// A chatter is a synthetic system whose processes send each other messages with tokens
// of seq_trace, as part of spans.
type chatter struct {
	name    string
	spans   []string
	module  string
	options string // in the syntax of an Erlang map
}

// chatters are the systems for measuring the accuracy of inferred edges. They are busy enough for
// queues.
func chatters() []chatter {
	return []chatter{
		{"M/M/1/K", []string{"probe"}, "mm1k", "rate => 600, loops => auto, seq_trace => true"},
		{"gen_server pool", []string{"request"}, "server_pool", "rate => 1000, loops => auto, seq_trace => true"},
	}
}

// A rabbitScenario is one of the spans of RabbitMQ, with a number of messages a second. 0 means as
// many as possible.
type rabbitScenario struct {
	name string
	rate int
}

func rabbitScenarios() []rabbitScenario {
	return []rabbitScenario{{"plain", 1000}, {"slow-consumer", 200}, {"disk", 0}}
}

// benchEdges measures how many messages get the right inferred sender.
func benchEdges(ctx context.Context, length time.Duration) error {
	otp, err := erlang.FindOTP(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("messages with tokens of seq_trace in %v, and what is inferred of them without\n\n", length)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "system\tmessages\tright\twrong\tambiguous\tnone\tprecision\trecall\tevents\tlost\t")
	report := func(name string, c *chat) {
		a := c.accuracy()
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%.2f %%\t%.2f %%\t%d\t%d\t\n", name,
			a.messages, a.right, a.wrong, a.ambiguous, a.none, 100*a.precision(), 100*a.recall(), c.events, c.lost)
	}
	for _, system := range chatters() {
		c, err := system.listen(ctx, otp, length)
		if err != nil {
			return fmt.Errorf("%s: %w", system.name, err)
		}
		report(system.name, c)
	}
	if err := listenToRabbitMQ(ctx, length, report); err != nil {
		return fmt.Errorf("RabbitMQ: %w", err)
	}
	return w.Flush()
}

// listen runs the system for some time in a VM of this OTP.
func (s chatter) listen(ctx context.Context, otp erlang.OTP, length time.Duration) (_ *chat, err error) {
	beam, err := erlang.StartVM(ctx, otp, erlang.Options{Carrier: erlang.Probes})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, beam.Stop()) }()
	vms, _, err := vm.Find(ctx, vm.Target{PID: beam.PID()})
	if err != nil {
		return nil, err
	}
	c := newChat(vms[0])
	return c, listen(ctx, vms[0], s.spans, c.hear, func() error {
		_, err := beam.Call(ctx, "erlang", "apply", fmt.Sprintf(
			"[fun() -> {ok, _} = %s:start(#{%s}), timer:sleep(%d), ok = %[1]s:stop() end, []]", s.module, s.options, length.Milliseconds()))
		return err
	})
}

// listenToRabbitMQ records a server under all kinds of load.
func listenToRabbitMQ(ctx context.Context, length time.Duration, report func(string, *chat)) (err error) {
	v, stop, err := startRabbitMQ(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for _, s := range rabbitScenarios() {
		c := newChat(v)
		err := listen(ctx, v, rabbitSpans(), c.hear, func() error {
			_, err := rabbitSpansOf(ctx, s.name, length, s.rate, true)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		report("RabbitMQ, "+s.name, c)
	}
	return nil
}

// A chat contains the records of the processes that take part in spans: once with the tokens of
// messages, and once without.
type chat struct {
	vm        int
	told      explain.Log
	overheard explain.Log
	events    int
	lost      uint64
}

func newChat(v vm.VM) *chat {
	return &chat{vm: v.PID(), overheard: explain.Log{IgnoreTokens: true}}
}

// hear keeps the records, and what is missing in them.
func (c *chat) hear(events []bpf.Event, missing bpf.Loss) {
	c.told.Add(events, missing)
	c.overheard.Add(events, missing)
	c.events += len(events)
	c.lost += missing.Events
}

// accuracy compares the inferred senders of messages with their tokens.
func (c *chat) accuracy() accuracy { return compare(c.told.Edges(c.vm), c.overheard.Edges(c.vm)) }

// listenPeriod is the interval between reads of events. The buffer has room for the events of a
// longer time.
const listenPeriod = 20 * time.Millisecond

// listen passes on the records of the processes that take part in spans while a load runs, and what
// is missing in them.
func listen(ctx context.Context, v vm.VM, spans []string, hear func(events []bpf.Event, missing bpf.Loss), load func() error) (err error) {
	const window = int64(time.Second)
	opts := bpf.Options{Window: window, Start: monotonic.Now()}
	for _, span := range spans {
		opts.Outcomes = append(opts.Outcomes, bpf.Outcome{Name: span, DMax: 2 * window, BinWidth: window, Bins: 2, Explain: true})
	}
	c, err := bpf.New(opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	target, err := targetOf(ctx, v)
	if err != nil {
		return err
	}
	if err := c.ObserveThreads(v.PID()); err != nil {
		return err
	}
	if _, err := c.Attach(ctx, target); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- load() }()
	for n := uint64(0); ; {
		select {
		case err := <-done:
			time.Sleep(listenPeriod) // the last events arrive a moment later
			return errors.Join(err, read(c, hear))
		case <-time.After(listenPeriod):
		}
		err := read(c, hear)
		if _, to := c.Window(n); err == nil && monotonic.Now() > to+window {
			err = end(c, n, to)
			n++
		}
		if err != nil {
			return errors.Join(err, <-done)
		}
	}
}

func read(c *bpf.Collector, hear func([]bpf.Event, bpf.Loss)) error {
	var all []bpf.Event
	missing, err := c.Events(math.MaxInt, func(batch []bpf.Event) { all = append(all, batch...) })
	hear(all, missing)
	return err
}

// end ends window n and ignores its counts.
func end(c *bpf.Collector, n uint64, to int64) error {
	if _, err := c.Sweep(to); err != nil {
		return err
	}
	_, _, err := c.Read(n)
	return err
}

// targetOf returns the target for observing a VM.
func targetOf(ctx context.Context, v vm.VM) (bpf.Target, error) {
	image, err := v.Image()
	if err != nil {
		return bpf.Target{}, err
	}
	f, err := v.Exe.Open()
	if err != nil {
		return bpf.Target{}, err
	}
	defer f.Close()
	var layouts procname.Layouts
	members, err := layouts.Process(ctx, v.Process, f)
	if err != nil {
		return bpf.Target{}, err
	}
	return bpf.Target{
		Path:    v.Exe.Path,
		Inode:   v.Exe.Inode,
		PID:     v.PID(),
		Probes:  image.Probes,
		Release: image.Release,
		Terms:   bpf.Terms(image.Terms),
		NoTerms: image.NoTerms,
		Layout:  bpf.ProcessLayout(members),
	}, nil
}
