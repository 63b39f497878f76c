package bpf_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// BenchmarkTwins compares the delays of each outcome by probes and by functions that stand in for them.
// An iteration has one way observe a load, and then the other one the same load again. When both observe it
// at once, as in TestTwins, a delay by one way contains the hits of the other one.
func BenchmarkTwins(b *testing.B) {
	dir := filepath.ToSlash(b.TempDir())
	for _, release := range dtrace.Releases() {
		for _, of := range []struct{ outcome, function, args string }{
			{"gc", "equal_collections", "[500]"},
			{"gc-minor", "equal_collections", "[500]"},
			{"gc-major", "equal_collections", "[500]"},
			{"lifetime", "lives", "[[0]]"},
			{"dirty-nif", "reads", fmt.Sprintf("[%q,500]", dir)},
			{"file-io", "reads", fmt.Sprintf("[%q,500]", dir)},
			{"message", "calls", "[lists:duplicate(500,{0,infinity})]"},
			{"hop", "calls", "[lists:duplicate(500,{0,infinity})]"},
			{"mailbox", "calls", "[lists:duplicate(500,{0,infinity})]"},
			{"call", "calls", "[lists:duplicate(500,{0,infinity})]"},
			{"run", "calls", "[lists:duplicate(500,{0,infinity})]"},
		} {
			b.Run(fmt.Sprintf("%s/OTP_%d", of.outcome, release), func(b *testing.B) {
				otp, err := vmtest.Release(b, release).Private(b.TempDir())
				if err != nil {
					b.Fatal(err)
				}
				v := vmtest.StartOn(b, otp, oneClock("+S", "1:1"))
				targets, outcomes := twinTargets(b, v), twinOutcome(b, of.outcome, "")
				var medians, programs [2][]int64
				var more []int64
				for b.Loop() {
					for way, to := range targets {
						delays, program := delaysOf(b, v, to, outcomes[way], of.function, of.args)
						medians[way] = append(medians[way], median(delays))
						programs[way] = append(programs[way], program)
					}
					n := len(medians[byProbes]) - 1
					more = append(more, medians[byFunctions][n]-medians[byProbes][n])
				}
				b.ReportMetric(0, "ns/op") // of attaching, above all
				b.ReportMetric(float64(median(medians[byProbes])), "ns-by-probes")
				b.ReportMetric(float64(median(medians[byFunctions])), "ns-by-functions")
				b.ReportMetric(float64(median(more)), "ns-more")
				b.ReportMetric(float64(median(programs[byProbes])), "ns-program-by-probes")
				b.ReportMetric(float64(median(programs[byFunctions])), "ns-program-by-functions")
			})
		}
	}
}

// delaysOf returns the delays of an outcome while the VM works, and the mean time of a run of the programs
// that observe it. It has one process live after the other.
func delaysOf(b *testing.B, v *erlang.VM, to bpf.Target, o bpf.Outcome, function, args string) (delays []int64, program int64) {
	b.Helper()
	o.Stream = bpf.StreamAll
	c := vmtest.NewCollector(b, bpf.Options{Outcomes: []bpf.Outcome{o}, Window: int64(time.Second / 2), RingBytes: 1 << 24})
	a, err := c.Attach(b.Context(), to)
	if err != nil {
		b.Fatal(err)
	}
	told := c.Streamed()
	c.ReadTo(monotonic.Now())
	measured, err := c.MeasurePrograms()
	if err != nil {
		b.Fatal(err)
	}
	if function == "lives" {
		c.Call(v, "erlang", "apply", vmtest.Fun(fmt.Sprintf("[vm_load:lives(%s) || _ <- lists:seq(1, 500)], ok", args[1:len(args)-1])))
	} else {
		vmLoad(b, c, v, function, args)
	}
	nothingLost(b, c, 0, v)
	runs, total, err := c.ProgramTime()
	if err != nil {
		b.Fatal(err)
	}
	if err := errors.Join(measured.Close(), a.Detach()); err != nil {
		b.Fatal(err)
	}
	return lengths(ofOutcome(told(), 0)), total.Nanoseconds() / int64(max(runs, 1))
}
