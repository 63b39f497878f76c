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

	"github.com/beamscope/beamscope/internal/sources/vmsource"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/monotonic"
)

// A crowdLoad is a load of many processes.
type crowdLoad struct {
	name     string
	prepare  string // argument of vm_load:crowd/1, "" for none
	function string // of vm_load, with its approximate duration
	args     func(length time.Duration) string
}

// crowdLoads are loads of many processes, one after the other or at a time.
var crowdLoads = []crowdLoad{
	{"1,900 short-lived processes a second", "", "short_receivers", func(length time.Duration) string {
		const each, pause = 19, 10 // milliseconds
		return fmt.Sprintf("[#{rounds => %d, each => %d, pause_ms => %d}]", length.Milliseconds()/pause, each, pause)
	}},
	{"100,000 processes that live", "[100000]", "tell_crowd", func(length time.Duration) string {
		return fmt.Sprintf("[#{times => %d, pause_ms => 1000}]", max(1, int(length.Seconds()/10)))
	}},
}

// crowdOutcomes are the outcomes that follow messages by their receivers.
var crowdOutcomes = []string{"hop", "mailbox", "message"}

// benchCrowds observes many receivers, and reports the share of their events that is counted.
func benchCrowds(ctx context.Context, length time.Duration) error {
	otp, err := erlang.FindOTP(ctx)
	if err != nil {
		return err
	}
	for _, load := range crowdLoads {
		seen, err := observeCrowd(ctx, otp, load, length)
		if err != nil {
			return fmt.Errorf("%s: %w", load.name, err)
		}
		fmt.Printf("%s, for %v\n\n", load.name, seen.took.Round(time.Second))
		w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "outcome\tinstances\ttimeouts\tunpaired\tfound no room\tin windows\t")
		for i, name := range crowdOutcomes {
			c := seen.outcomes[i]
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d of %d\t\n", name,
				c.Instances(), c.Timeouts, c.Loss.Unpaired, c.Loss.NoRoom, seen.crowded[i], seen.windows)
		}
		if err := w.Flush(); err != nil {
			return err
		}
		fmt.Println()
	}
	return nil
}

// crowdSeen contains the observations of a crowd.
type crowdSeen struct {
	took     time.Duration
	windows  int
	outcomes []outcome.Counts // sums, in the order of crowdOutcomes
	crowded  []int            // windows with dropped events for lack of room, in the same order
}

func observeCrowd(ctx context.Context, otp erlang.OTP, load crowdLoad, length time.Duration) (seen crowdSeen, err error) {
	beam, err := erlang.StartVM(ctx, otp, erlang.Options{Carrier: erlang.Probes})
	if err != nil {
		return seen, err
	}
	defer beam.Stop()
	if load.prepare != "" {
		if _, err := beam.Call(ctx, "vm_load", "crowd", load.prepare); err != nil {
			return seen, err
		}
	}
	var builtins []dtrace.Builtin
	for _, name := range crowdOutcomes {
		b, ok := dtrace.LookupBuiltin(name)
		if !ok {
			return seen, fmt.Errorf("there is no built-in outcome %s", name)
		}
		builtins = append(builtins, b)
	}
	plan := outcome.Plan{From: monotonic.Now() + int64(time.Second), Window: time.Second, Specs: builtinSpecs(builtins...)}
	source, err := vmsource.New(ctx, vmsource.Config{Target: vm.Target{PID: beam.PID()}, Plan: plan})
	if err != nil {
		return seen, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	seen.outcomes, seen.crowded = make([]outcome.Counts, len(builtins)), make([]int, len(builtins))
	done := make(chan error, 1)
	begin := time.Now()
	go func() {
		_, err := beam.Call(ctx, "vm_load", load.function, load.args(length))
		seen.took = time.Since(begin)
		done <- err
	}()
	err = seen.collect(ctx, source, plan, done)
	return seen, err
}

// collect adds up windows until the load has ended.
func (s *crowdSeen) collect(ctx context.Context, source *vmsource.Source, plan outcome.Plan, done <-chan error) error {
	end := int64(math.MaxInt64)
	for n := uint64(0); ; n++ {
		w := plan.At(n)
		if w.From > end {
			return nil
		}
		time.Sleep(time.Duration(w.To + int64(plan.Window) - monotonic.Now()))
		b, err := source.Collect(ctx, w)
		if err != nil {
			return err
		}
		for _, notice := range source.Watch(ctx) {
			fmt.Fprintln(os.Stderr, notice.Text)
		}
		s.windows++
		for i := range b.Counts {
			s.outcomes[i] = s.outcomes[i].Add(b.Counts[i])
			if b.Counts[i].Loss.NoRoom > 0 {
				s.crowded[i]++
			}
		}
		select {
		case err := <-done:
			if err != nil {
				return err
			}
			end = monotonic.Now()
		default:
		}
	}
}
