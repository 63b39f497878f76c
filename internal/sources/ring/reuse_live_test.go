package ring

import (
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// A VM may have the PID of one that has just ended, and record spans before that end is noticed. Its ring
// is found, and its spans are its own. The open spans of the other VM are lost.
func TestPIDReuse(t *testing.T) { onBoth(t, pidReuseOn) }

func pidReuseOn(t *testing.T, otp erlang.OTP) {
	for _, collected := range []bool{true, false} {
		const open = 3 // spans of the first VM
		const rest = 2 // spans of the second VM that stay open
		t.Run(map[bool]string{true: "after its windows", false: "at once"}[collected], func(t *testing.T) {
			vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes}) // keeps the source running
			before := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Ring})
			p := outcome.Plan{From: monotonic.Now() + int64(window), Window: window, Specs: []outcome.Spec{spec("a", time.Second), spec("b", 10*time.Second)}}
			s, err := New(t.Context(), Config{Target: vm.Target{Exe: otp.Emulator()}, Plan: p})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			r := &run{Source: s, t: t, plan: p, total: make(map[string]outcome.Counts)}
			r.awaitObserved()
			vmtest.Eval(t, before, `[beamscope:start_span(<<"b">>) || _ <- [1, 2, 3]], ok`)
			r.collectTo(monotonic.Now())
			if err := syscall.Kill(before.PID(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			<-before.Done()
			if collected {
				r.collectTo(monotonic.Now() + int64(window))
			}
			killed := monotonic.Now()
			after := vmtest.StartWithPID(t, otp, before.PID(), erlang.Options{Carrier: erlang.Ring})
			early := recordedSpans(t, after, 5)
			vmtest.Eval(t, after, `[beamscope:start_span(<<"a">>) || _ <- [1, 2]], ok`)
			for !slices.ContainsFunc(s.Status(), func(st Status) bool { return st.VM.PID == after.PID() && st.Since > killed }) {
				vmtest.WaitUntil(monotonic.Now() + int64(window)) // windows are collected only later
			}
			r.collectTo(monotonic.Now() + 2*int64(time.Second))
			if n := r.total["b"]; n.Starts != open || n.Instances()+n.Orphans+n.Lates != 0 || n.Loss != (outcome.Loss{Cut: open}) {
				t.Errorf("%d open spans of the VM that ended: %+v", open, n)
			}
			n := r.total["a"]
			if n.Starts != early+rest || n.Failures+n.Orphans+n.Lates != 0 || n.Successes > early || n.Timeouts > rest ||
				n.Instances()+n.Loss.Missed != early+rest || n.Instances() < early+rest && !n.Unobserved {
				t.Errorf("%d spans of the other VM, and %d that stay open: %+v", early, rest, n)
			}
			r.awaitObserved()
			spans := recordedSpans(t, after, 50)
			r.collectTo(monotonic.Now())
			r.mustCount(spans)
		})
	}
}

// A target that is a PID means the process that has it at first. After that process has ended, and its open
// spans are settled, the source has ended too, though another VM has the PID.
func TestPIDIsOneProcess(t *testing.T) { onBoth(t, pidIsOneProcessOn) }

func pidIsOneProcessOn(t *testing.T, otp erlang.OTP) {
	before := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Ring})
	p := outcome.Plan{From: monotonic.Now() + int64(window), Window: window, Specs: []outcome.Spec{spec("a", 5*time.Second)}}
	s, err := New(t.Context(), Config{Target: vm.Target{PID: before.PID()}, Plan: p})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	r := &run{Source: s, t: t, plan: p, total: make(map[string]outcome.Counts)}
	r.awaitObserved()
	vmtest.Eval(t, before, `[beamscope:start_span(<<"a">>) || _ <- [1, 2, 3]], ok`)
	r.collectTo(monotonic.Now())
	if err := syscall.Kill(before.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-before.Done()
	killed := monotonic.Now()
	after := vmtest.StartWithPID(t, otp, before.PID(), erlang.Options{Carrier: erlang.Ring})
	for {
		w := p.At(r.number)
		r.number++
		vmtest.WaitUntil(w.To + int64(window))
		recordedSpans(t, after, 5)
		_, err := s.Collect(t.Context(), w)
		if errors.Is(err, outcome.ErrEnded) {
			return
		}
		s.Watch(t.Context())
		if err != nil || w.From > killed+int64(time.Minute) || slices.ContainsFunc(s.Status(), func(st Status) bool { return st.Since > killed }) {
			t.Fatalf("%d ms after the end: %v, %+v", (w.From-killed)/1e6, err, s.Status())
		}
	}
}
