package erlang

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestEUnit runs the EUnit tests of the Erlang modules. Each runs in a VM with the code path that
// its tests need.
func TestEUnit(t *testing.T) {
	otp := testOTP(t)
	ebins, err := Compile(t.Context(), otp, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tests := compileTests(t, otp, "beamscope/test/*.erl", "synthetic/test/*.erl")
	listening := compileTests(t, otp, "beamscope/test/listening/*.erl")
	silent := compileTests(t, otp, "beamscope/test/silent/*.erl")
	otel := compileTests(t, otp, "beamscope/test/otel/*.erl")

	const noRuntimeTools = "code:del_path(runtime_tools)"
	probes := []string{"-beamscope", "carrier", "probes"}
	ring := []string{"-beamscope", "carrier", "ring", "-beamscope", "ring_slots", "256"}
	for _, test := range []struct {
		name, module string
		first        []string // code paths before all others
		before       string
		args         []string // further arguments of erl
	}{
		{"ring", "beamscope_ring_tests", []string{listening}, "ok", ring},
		{"ring without probes", "beamscope_ring_tests", []string{silent}, "ok", ring},
		{"default carrier", "beamscope_default_tests", nil, "ok", nil},
		{"VM with probes", "beamscope_vm_tests", nil, "ok", probes},
		{"encoding", "beamscope_listening_tests", []string{listening}, "ok", probes},
		{"built without probes", "beamscope_silent_tests", []string{silent}, "ok", probes},
		{"no runtime_tools", "beamscope_silent_tests", nil, noRuntimeTools, probes},
		{"seq_trace", "beamscope_token_tests", []string{listening}, "ok", probes},
		{"seq_trace, configured", "beamscope_config_tests", []string{listening}, "ok",
			append([]string{"-config", "beamscope/test/seq_trace"}, probes...)},
		{"OpenTelemetry", "beamscope_otel_tests", []string{listening, otel}, "ok", probes},
		{"OpenTelemetry without probes", "beamscope_otel_tests", []string{silent, otel}, "ok", nil},
		{"mm1k", "mm1k_tests", nil, "ok", nil},
		{"synthetic_source", "synthetic_source_tests", nil, "ok", nil},
		{"synthetic_work", "synthetic_work_tests", nil, "ok", nil},
		{"delay_station", "delay_station_tests", nil, "ok", nil},
		{"workers", "workers_tests", []string{listening}, "ok", probes},
		{"span_load", "span_load_tests", nil, "ok", nil},
		{"vm_events", "vm_events_tests", nil, "ok", nil},
		{"causes", "causes_tests", []string{listening}, "ok", probes},
		{"server_pool", "server_pool_tests", []string{listening}, "ok", probes},
	} {
		t.Run(test.name, func(t *testing.T) {
			args := append([]string{"-noinput"}, test.args...)
			for _, path := range append(append(ebins, tests), test.first...) {
				args = append(args, "-pa", path)
			}
			args = append(args, "-eval",
				test.before+", halt(case patient:test("+test.module+") of ok -> 0; error -> 1 end).")
			if out, err := exec.CommandContext(t.Context(), otp.Erl, args...).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestFirstSpanLoadsNothing starts a VM for each way to end a first span. All code that a span
// needs must be loaded before the span starts.
func TestFirstSpanLoadsNothing(t *testing.T) {
	otp := testOTP(t)
	ebins, err := Compile(t.Context(), otp, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	first := compileTests(t, otp, "beamscope/test/first/*.erl")
	for _, how := range []string{"token", "start", "class", "exception", "deciding"} {
		t.Run(how, func(t *testing.T) {
			args := []string{"-noinput"}
			for _, path := range append(ebins, first) { // the last one comes first
				args = append(args, "-pa", path)
			}
			args = append(args, "-beamscope", "carrier", "probes", "-run", "first_span", "main", how)
			if out, err := exec.CommandContext(t.Context(), otp.Erl, args...).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestFirstSpansTogether starts the first spans of a VM in many processes at once. All of them
// must be recorded, whichever process makes the ring.
func TestFirstSpansTogether(t *testing.T) {
	for _, carrier := range []string{"ring", "probes"} {
		t.Run(carrier, func(t *testing.T) { firstSpan(t, carrier, "together") })
	}
}

// TestFirstSpansKilled kills the processes of the first spans, each before its span has started.
// The VM must have a ring in the end.
func TestFirstSpansKilled(t *testing.T) { firstSpan(t, "ring", "killed") }

// TestFirstSpanWithoutCodeServer checks that a VM that cannot load code runs its spans, unrecorded.
func TestFirstSpanWithoutCodeServer(t *testing.T) { firstSpan(t, "ring", "no code server") }

// firstSpan runs the module first_span.
func firstSpan(t *testing.T, carrier, how string) {
	t.Helper()
	otp := testOTP(t)
	ebins, err := Compile(t.Context(), otp, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-noinput"}
	for _, path := range append(ebins, compileTests(t, otp, "beamscope/test/first/*.erl")) { // the last one comes first
		args = append(args, "-pa", path)
	}
	args = append(args, "-beamscope", "carrier", carrier, "-run", "first_span", "main", how)
	if out, err := exec.CommandContext(t.Context(), otp.Erl, args...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// compileTests compiles Erlang files of this folder and returns the code path.
func compileTests(t *testing.T, otp OTP, patterns ...string) string {
	t.Helper()
	dir := t.TempDir()
	args := []string{"-Werror", "+debug_info", "-o", dir}
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no Erlang files at %s (%v)", pattern, err)
		}
		args = append(args, files...)
	}
	if out, err := exec.CommandContext(t.Context(), otp.Erlc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// testOTP finds the VM that the tests need.
func testOTP(t *testing.T) OTP {
	t.Helper()
	if testing.Short() {
		t.Skip("`make test` runs it")
	}
	otp, err := FindOTP(t.Context())
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return otp
}
