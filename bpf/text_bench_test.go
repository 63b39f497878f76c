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
// prepares them and no hit follows. The VM itself measures its events with and without that, in turns.
func BenchmarkTexts(b *testing.B) {
	const events = 20_000
	for _, release := range dtrace.Releases() {
		for _, of := range []struct{ probe, event string }{
			{"nif__entry", "prim_file:get_cwd()"},
			{"nif__return", "prim_file:get_cwd()"},
			{"message__send", "begin self() ! x, receive x -> ok end end"},
			{"message__queued", "begin self() ! x, receive x -> ok end end"},
			{"message__receive", "begin self() ! x, receive x -> ok end end"},
			{"process__unscheduled", "erlang:yield()"},
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
				var more []int64
				for b.Loop() {
					without := took()
					detach, err := bpf.AttachEmpty(path, elsewhere, v.PID())
					if err != nil {
						b.Fatal(err)
					}
					more = append(more, took()-without)
					if err := detach(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(0, "ns/op") // of attaching, above all
				b.ReportMetric(float64(median(more)), "ns-more")
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
