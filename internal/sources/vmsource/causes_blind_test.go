package vmsource_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/explain/trace"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// Some executables do not show when processes begin and stop running. An explanation for such a
// VM never claims that a process ran or waited. Garbage collections have probes of their own.
func TestCausesUnscheduled(t *testing.T) {
	vmtest.NeedKind(t, vmtest.WithProbes)
	vmtest.NeedEBPF(t)
	otp := vmtest.Private(t)
	forgetSymbol(t, otp.Emulator(), "erts_schedule")
	beam := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes})
	s := newSourceEvery(t, vm.Target{PID: beam.PID()}, 500*time.Millisecond, []outcome.Spec{{
		Name: "slow", Span: "slow", BinWidth: 10 * time.Millisecond, Bins: 1000, Detail: outcome.Worst, Explain: true,
	}})
	vmtest.Favour(t, beam)
	for _, scenario := range []string{"sleep", "callee", "gc", "native_sleep", "suspended"} {
		t.Run(scenario, func(t *testing.T) {
			s.t = t
			each, found := runCause(t, s, beam, cause{scenario: scenario}, false, 5)
			for id := range each {
				if len(found[id]) == 0 {
					t.Errorf("#%d is not explained", id)
				}
				for _, share := range found[id] {
					t.Logf("#%d %6.2f ms %v (%v) %s", id, float64(share.Duration)/1e6, share.Kind, share.Mark, share.Reason)
					switch share.Kind {
					case trace.GC, trace.NIF, trace.OSWait, trace.Stopped, trace.Blocked:
					case trace.Unexplained:
						if !strings.HasPrefix(share.Reason, "whether it ran or waited is not known") {
							t.Errorf("#%d: %s", id, share.Reason)
						}
					default:
						t.Errorf("#%d: %v is claimed for %s", id, share.Kind, fmt.Sprint(time.Duration(share.Duration)))
					}
				}
			}
		})
	}
}

// forgetSymbol renames a symbol in an executable, so that it cannot be found.
func forgetSymbol(t *testing.T, path, name string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	old, other := "\x00"+name+"\x00", "\x00"+strings.Repeat("x", len(name))+"\x00"
	changed := bytes.ReplaceAll(data, []byte(old), []byte(other))
	if bytes.Equal(data, changed) {
		t.Fatalf("%s has no symbol %s", path, name)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil { // it may be a link to the original
		t.Fatal(err)
	}
	if err := os.WriteFile(path, changed, info.Mode()); err != nil {
		t.Fatal(err)
	}
}
