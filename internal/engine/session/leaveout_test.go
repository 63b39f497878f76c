package session_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/price"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/testing/otheruser"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// Another user's VM that costs more than the limit is left out. The observation of the other VMs
// is unchanged.
func TestExpensiveVM(t *testing.T) {
	t.Parallel()
	vmtest.NeedEBPF(t)
	ownOTP, otherOTP := vmtest.OfTwoUsers(t)
	quiet := vmtest.StartOn(t, ownOTP, erlang.Options{})
	busy := vmtest.StartOn(t, otherOTP, erlang.Options{})
	vmtest.Eval(t, quiet, `spawn(fun Loop() -> erlang:garbage_collect(), timer:sleep(20), Loop() end), ok`)
	r := observeTarget(t, quiet, fmt.Sprintf("{exe: %q}", ownOTP.Emulator()), "window: 200ms\noutcomes: {gc: {vm: gc}, message: {vm: message}}\n", session.Options{Limit: price.Limit{Rate: 5000}})
	r.next(1)
	vmtest.Eval(t, busy, `spawn(fun Loop() -> self() ! x, receive x -> ok end, erlang:garbage_collect(), Loop() end), ok`)
	r.await(t, "a notice that the busy VM is left out", func() bool {
		return r.noticed(fmt.Sprintf("the events of pid %d of user %d are not observed for 1m0s, its spans in the ring are: ", busy.PID(), otheruser.User))
	})
	r.await(t, "frames at a lower cost", func() bool {
		frames := r.allFrames()
		last := frames[len(frames)-1]
		return len(last.Outcomes) > 0 && last.Cost.Events < 1000 && !slices.ContainsFunc(last.Outcomes, func(p scope.Outcome) bool { return p.VM.PID == busy.PID() })
	})
	r.next(15)
	frames := r.allFrames()
	var outcomes []string
	for _, p := range frames[len(frames)-1].Outcomes {
		if p.VM.PID == quiet.PID() {
			outcomes = append(outcomes, p.Name)
		}
	}
	if got := strings.Join(outcomes, " "); got != "gc message" || r.noticed("any more") {
		t.Errorf("of the quiet VM %q is observed, want gc and message\n%v", got, r.observerLog)
	}
}

// Spans of a VM that is left out count all the same, also if another collector has them explained.
func TestExplainedSpansOfVMLeftOut(t *testing.T) {
	t.Parallel()
	vmtest.NeedEBPF(t)
	ownOTP, otherOTP := vmtest.OfTwoUsers(t)
	quiet := vmtest.StartOn(t, ownOTP, erlang.Options{Carrier: erlang.Ring})
	busy := vmtest.StartOn(t, otherOTP, erlang.Options{Carrier: erlang.Ring})
	target, file := fmt.Sprintf("{exe: %q}", ownOTP.Emulator()), "window: 200ms\nexplain: true\noutcomes: {a: {span: a, dmax: 200ms, bins: 100}"
	r := observeTarget(t, quiet, target, file+", gc: {vm: gc}, message: {vm: message}}\n", session.Options{Limit: price.Limit{Rate: 5000}})
	other := observeTarget(t, quiet, target, file+"}\n", session.Options{})
	r.vm, other.vm = busy, busy
	r.awaitCalls()
	other.awaitCalls()
	vmtest.Eval(t, busy, `register(busy, spawn(fun Loop() -> self() ! x, receive x -> ok end, erlang:garbage_collect(), Loop() end)), ok`)
	r.await(t, "a notice that spans are no longer explained", func() bool {
		return r.noticed(fmt.Sprintf("spans of pid %d", busy.PID())) && r.noticed("programs in the kernel do not observe this VM at present")
	})
	vmtest.Eval(t, busy, `exit(whereis(busy), kill), ok`)
	other.awaitCalls() // the other one still has spans explained
	r.next(5)
	before := []outcome.Counts{r.allFrames().sum("a"), other.allFrames().sum("a")}
	const all = 1000
	vmtest.Call(t, busy, "span_load", "run", fmt.Sprintf(`[#{procs => 2, spans => %d, name => <<"a">>}]`, all))
	for i, c := range []*rig{r, other} {
		c.await(t, "the spans", func() bool { return c.allFrames().sum("a").Instances() >= before[i].Instances()+all })
		if n := c.allFrames().sum("a"); n.Successes != before[i].Successes+all || n.Starts != before[i].Starts+all || n.Loss != before[i].Loss {
			t.Errorf("collector %d: %d spans: %+v, before %+v", i, all, n, before[i])
		}
	}
}

// A process that cannot be found hits the probes so often that the cost exceeds the limit. The
// VMs lose no outcome: they are attached to one by one instead.
func TestExpensiveProcessThatIsNoVM(t *testing.T) {
	t.Parallel()
	vmtest.NeedEvents(t)
	vmtest.NeedEBPF(t)
	otp := vmtest.Private(t)
	quiet := vmtest.StartOn(t, otp, erlang.Options{})
	other := vmtest.StartOn(t, vmtest.Hidden(t, otp), erlang.Options{})
	vmtest.Eval(t, quiet, `spawn(fun Loop() -> erlang:garbage_collect(), timer:sleep(20), Loop() end), ok`)
	vmtest.Eval(t, other, `spawn(fun Loop() -> self() ! x, receive x -> ok end, erlang:garbage_collect(), Loop() end), ok`)
	r := observeTarget(t, quiet, fmt.Sprintf("{exe: %q}", otp.Emulator()), "window: 200ms\noutcomes: {gc: {vm: gc}, message: {vm: message}}\n", session.Options{Limit: price.Limit{Rate: 5000}})
	r.await(t, "a notice of the process that is no VM", func() bool {
		return r.noticed(fmt.Sprintf("pid %d (user 0) hits the probes of %s and is not a VM", other.PID(), otp.Emulator()))
	})
	r.await(t, "frames at a lower cost", func() bool {
		frames := r.allFrames()
		last := frames[len(frames)-1]
		return len(last.Outcomes) > 0 && last.Cost.Events > 0 && last.Cost.Events < 1000
	})
	r.next(15)
	frames := r.allFrames()
	var outcomes []string
	for _, p := range frames[len(frames)-1].Outcomes {
		outcomes = append(outcomes, fmt.Sprintf("%s of %d", p.Name, p.VM.PID))
	}
	want := fmt.Sprintf("gc of %d message of %[1]d", quiet.PID())
	if got := strings.Join(outcomes, " "); got != want || r.noticed("any more") {
		t.Errorf("%q is observed, want %q\n%v", got, want, r.observerLog)
	}
}

// However many names another user's spans have, the spans of a VM are discovered too.
func TestDiscoveryBesideAnotherUser(t *testing.T) {
	t.Parallel()
	vmtest.NeedEBPF(t)
	ownOTP, otherOTP := vmtest.OfTwoUsers(t)
	quiet := vmtest.StartOn(t, ownOTP, erlang.Options{})
	other := vmtest.StartOn(t, otherOTP, erlang.Options{})
	r := observeTarget(t, quiet, fmt.Sprintf("{exe: %q}", ownOTP.Emulator()), emptyScope, session.Options{Discover: true})
	r.next(1)
	vmtest.Eval(t, other, `[beamscope:start_span(<<"zz", (integer_to_binary(I))/binary>>) || I <- lists:seq(1, 5000)], ok`)
	r.await(t, "a notice of too many names", func() bool {
		return r.noticed(fmt.Sprintf("spans of pid %d of user %d have too many names", other.PID(), otheruser.User))
	})
	r.load(1, "victim")
	r.await(t, "the span of the quiet VM", func() bool { return slices.Contains(r.spans(), "victim") })
}
