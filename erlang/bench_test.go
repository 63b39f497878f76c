package erlang

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
)

// BenchmarkSpan measures the cost of spans for a system that is not observed, with spans that fire
// probes. ns/span is the time of a start_span and an end_span, or of a with_span that raises.
func BenchmarkSpan(b *testing.B) {
	otp, err := FindOTP(b.Context())
	if err != nil {
		b.Skip(err)
	}
	vm, err := StartVM(b.Context(), otp, Options{Carrier: Probes})
	if err != nil {
		b.Fatal(err)
	}
	defer vm.Stop()
	perSpan := regexp.MustCompile(`ns_per_span => ([0-9.]+)`)
	for _, how := range []string{"run", "open", "failing", "raising", "dying"} {
		b.Run(how, func(b *testing.B) {
			result, err := vm.Call(b.Context(), "span_load", how, fmt.Sprintf("[#{procs => 1, spans => %d}]", b.N))
			if err != nil {
				b.Fatal(err)
			}
			if found := perSpan.FindStringSubmatch(result); found != nil {
				ns, _ := strconv.ParseFloat(found[1], 64)
				b.ReportMetric(ns, "ns/span")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}
