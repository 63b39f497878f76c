//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
)

const (
	sustainedRate = 1_000_000 // spans a second
	exactSpans    = 1_000_000 // duration of a run
	burners       = 2         // other processes that keep the processors busy
)

// benchRing measures how many recorded spans are counted while other processes keep the processors
// busy: at a million spans a second, and at the VM's highest rate. It also measures the collector's
// processor time for each record. It returns an error if spans are neither counted nor reported as
// lost.
func benchRing(ctx context.Context, rounds int, length time.Duration) error {
	otp, err := erlang.FindOTP(ctx)
	if err != nil {
		return err
	}
	beam, err := erlang.StartVM(ctx, otp, erlang.Options{Carrier: erlang.Ring})
	if err != nil {
		return err
	}
	defer beam.Stop()
	if err := endFirstLease(ctx, beam); err != nil {
		return err
	}
	vms, _, err := vm.Find(ctx, vm.Target{PID: beam.PID()})
	if err != nil {
		return err
	}
	millis := length.Milliseconds()
	paced := ringLoad{fmt.Sprintf("%d a second for %v", sustainedRate, length), uint64(millis) * sustainedRate / 1000, func() error { return paceSpans(ctx, beam, millis) }}
	if err := paced.count(ctx, beam, vms[0]); err != nil {
		return err
	}
	stop, err := burn(ctx, burners)
	if err != nil {
		return err
	}
	defer stop()
	for round := range rounds {
		fast := ringLoad{fmt.Sprintf("run %d of %d, of 4 processes beside %d busy ones", round+1, rounds, burners), exactSpans, func() error {
			_, err := beam.Call(ctx, "span_load", "run", fmt.Sprintf("[#{procs => 4, spans => %d, name => <<%q>>}]", exactSpans, spanName))
			return err
		}}
		if err := fast.count(ctx, beam, vms[0]); err != nil {
			return err
		}
	}
	return nil
}

// A ringLoad is a load with a number of spans.
type ringLoad struct {
	what  string
	spans uint64
	run   func() error
}

// count prints how many spans of a load are counted and lost.
func (l *ringLoad) count(ctx context.Context, beam *erlang.VM, v vm.VM) error {
	const warmUp = 1 // span
	end, err := attachRing(planOf(spanSpec(spanName, outcome.CountsOnly)))(ctx, v, func() error {
		_, err := loadSpans(ctx, beam, "run", warmUp)
		return err
	})
	if err != nil {
		return err
	}
	start, before := time.Now(), ownTime()
	err = l.run()
	took, processor := time.Since(start), ownTime()-before
	got, derr := end()
	if err := errors.Join(err, derr); err != nil {
		return err
	}
	fmt.Printf("%s: %d spans in %.2f s, %d counted, %d lost; collector %.1f ns of processor time a record\n",
		l.what, l.spans, took.Seconds(), got.instances-warmUp, got.lost, float64(processor)/float64(2*l.spans))
	// A span has two records. If the number of lost records is odd, one more span counts as lost.
	if all := got.instances + got.lost; all < l.spans+warmUp || all > l.spans+warmUp+got.lossy {
		return fmt.Errorf("%s: %d spans counted or lost, %d started", l.what, all-warmUp, l.spans)
	}
	return nil
}

// paceSpans starts a new process in a VM each millisecond. The process starts and ends a thousandth
// of sustainedRate spans. A process that is late starts at once.
func paceSpans(ctx context.Context, beam *erlang.VM, millis int64) error {
	_, err := beam.Call(ctx, "span_load", "paced", fmt.Sprintf("[#{procs => 1, spans => %d, name => <<%q>>}, %d]", sustainedRate/1000, spanName, millis))
	return err
}

// burn starts processes that each keep a processor busy, and returns a function that ends them.
func burn(ctx context.Context, n int) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var all []*exec.Cmd
	stop = func() {
		cancel()
		for _, c := range all {
			_ = c.Wait() // killed
		}
	}
	for range n {
		c := exec.CommandContext(ctx, "sh", "-c", "while :; do :; done")
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := c.Start(); err != nil {
			stop()
			return nil, err
		}
		all = append(all, c)
	}
	return stop, nil
}

// ownTime returns the user and system time of this process.
func ownTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
