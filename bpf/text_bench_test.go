package bpf_test

import (
	"fmt"
	"testing"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
	"github.com/beamscope/beamscope/usdt"
)

// BenchmarkTexts measures the time that the VM takes to prepare the arguments of a probe: the texts of
// pids and functions. It raises the probe's semaphore and attaches nothing to the probe, so the VM
// prepares them and no hit follows. The VM itself measures its events with and without that, in turns. It
// does so again while a trap in each event leaves the processor's caches and predictors cold.
func BenchmarkTexts(b *testing.B) {
	const events = 20_000
	for _, release := range dtrace.Releases() {
		for _, of := range []struct{ probe, event string }{
			{"nif__entry", "prim_file:get_cwd()"},
			{"nif__return", "prim_file:get_cwd()"},
			{"message__send", "begin self() ! x, receive x -> ok end end"},
			{"message__queued", "begin self() ! x, receive x -> ok end end"},
			{"message__receive", "begin self() ! x, receive x -> ok end end"},
		} {
			b.Run(fmt.Sprintf("%s/OTP_%d", dtrace.Hyphened(of.probe), release), func(b *testing.B) {
				otp, err := vmtest.Release(b, release).Private(b.TempDir())
				if err != nil {
					b.Fatal(err)
				}
				v := vmtest.StartOn(b, otp, erlang.Options{Args: []string{"+S", "1:1"}})
				path, probes := vmtest.Probes(b, v.PID())
				semaphore, elsewhere := siteOf(b, probes, of.probe), siteOf(b, probes, "driver__init")
				elsewhere.Semaphore = semaphore.Semaphore
				work := fmt.Sprintf(`begin
					F = fun F(0) -> ok; F(N) -> _ = %s, F(N - 1) end,
					Begin = erlang:monotonic_time(nanosecond),
					ok = F(%d),
					erlang:monotonic_time(nanosecond) - Begin
				end`, of.event, events)
				took := func() int64 { return vmtest.Integers(b, vmtest.Eval(b, v, work))[0] / events }
				raised := func() int64 {
					without := took()
					detach, err := bpf.AttachEmpty(path, elsewhere, v.PID())
					if err != nil {
						b.Fatal(err)
					}
					more := took() - without
					if err := detach(); err != nil {
						b.Fatal(err)
					}
					return more
				}
				// The same while each event has a trap, at the function that stands in for the probe.
				function := siteOf(b, twinTargets(b, v)[byFunctions].Probes, of.probe)
				var more, trapped []int64
				for b.Loop() {
					more = append(more, raised())
					detach, err := bpf.AttachEmpty(path, function, v.PID())
					if err != nil {
						b.Fatal(err)
					}
					trapped = append(trapped, raised())
					if err := detach(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(0, "ns/op") // of attaching, above all
				b.ReportMetric(float64(median(more)), "ns-more")
				b.ReportMetric(float64(median(trapped)), "ns-more-beside-a-trap")
			})
		}
	}
}

// siteOf returns the first place of a probe.
func siteOf(b *testing.B, probes []usdt.Probe, name string) usdt.Site {
	b.Helper()
	for _, p := range probes {
		if p.Name == name {
			return p.Sites[0]
		}
	}
	b.Fatalf("no probe %s", name)
	return usdt.Site{}
}
