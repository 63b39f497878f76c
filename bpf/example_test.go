package bpf_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/usdt"
)

// Count the garbage collections of a VM for a second, as root. 1234 is the PID of a VM with probes.
func Example() {
	const path = "/proc/1234/exe"
	file, err := usdt.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	probes, err := file.Probes("erlang")
	if err != nil {
		log.Fatal(err)
	}

	now := func() int64 {
		var t unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
			log.Fatal(err)
		}
		return t.Nano()
	}
	gc, _ := dtrace.LookupBuiltin("gc")
	window := time.Second
	c, err := bpf.New(bpf.Options{
		Start:  now(),
		Window: window.Nanoseconds(),
		Outcomes: []bpf.Outcome{{
			Name: "gc", Rule: &gc.Rule,
			DMax: gc.DMax.Nanoseconds(), Bins: gc.Bins, BinWidth: gc.DMax.Nanoseconds() / int64(gc.Bins),
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Attach(context.Background(), bpf.Target{Path: path, PID: 1234, Release: 25, Probes: probes}); err != nil {
		log.Fatal(err)
	}

	// Wait until the window has ended.
	_, to := c.Window(0)
	time.Sleep(time.Duration(to - now()))
	if _, err := c.Sweep(to); err != nil {
		log.Fatal(err)
	}
	counts, _, err := c.Read(0)
	if err != nil {
		log.Fatal(err)
	}
	for _, n := range counts {
		fmt.Printf("pid %d: %d collections, by bins of %v: %v\n", n.PID, n.Successes, gc.DMax/time.Duration(gc.Bins), n.Bins)
	}
}
