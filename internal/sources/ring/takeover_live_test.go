package ring

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// collectedVM makes the test program a collector that reads the spans called a of the VM with this
// PID until it is killed.
const collectedVM = "RING_TEST_COLLECTED_VM"

func TestMain(m *testing.M) {
	if pid, err := strconv.Atoi(os.Getenv(collectedVM)); err == nil {
		fmt.Println(collectForever(pid))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// collectForever prints the number of spans that have ended so far after each window.
func collectForever(pid int) error {
	p := outcome.Plan{From: monotonic.Now(), Window: window, Specs: []outcome.Spec{spec("a", time.Minute)}}
	s, err := New(context.Background(), Config{Target: vm.Target{PID: pid}, Plan: p})
	if err != nil {
		return err
	}
	for n, ended := uint64(0), uint64(0); ; n++ {
		w := p.At(n)
		vmtest.WaitUntil(w.To + int64(window))
		b, err := s.Collect(context.Background(), w)
		if err != nil {
			return err
		}
		for _, c := range b.Counts {
			ended += c.Ends
		}
		if s.Found() {
			fmt.Println(ended)
		}
	}
}

// startCollector starts a collector in a process of its own. The returned function waits until this
// collector has seen a number of spans end.
func startCollector(t *testing.T, beam *erlang.VM) (cmd *exec.Cmd, await func(ended int)) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", collectedVM, beam.PID()))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	return cmd, func(ended int) {
		t.Helper()
		for lines.Scan() {
			if n, err := strconv.Atoi(lines.Text()); err != nil {
				t.Fatal(lines.Text())
			} else if n >= ended {
				return
			}
		}
		t.Fatal("the collector has ended")
	}
}

// kill kills a process and waits for its end.
func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
}

// recordedSpans starts and ends spans called a, a number of them on each scheduler, and returns how
// many were recorded.
func recordedSpans(t *testing.T, beam *erlang.VM, onEach int) uint64 {
	t.Helper()
	return uint64(vmtest.Integers(t, vmtest.Eval(t, beam, fmt.Sprintf(`
		One = fun(_) -> {C, S} = beamscope:start_span(<<"a">>), ok = beamscope:end_span(C, S), S =/= ignore end,
		All = fun() -> exit({recorded, length(lists:filter(One, lists:seq(1, %d)))}) end,
		Monitors = [element(2, spawn_opt(All, [monitor, {scheduler, N}])) || N <- lists:seq(1, erlang:system_info(schedulers))],
		lists:sum([receive {'DOWN', M, process, _, {recorded, Number}} -> Number end || M <- Monitors])`, onEach)))[0])
}

// mustCount checks that a number of spans called a was counted, or lost in windows that were not
// observed, and nothing else.
func (r *run) mustCount(spans uint64) {
	r.t.Helper()
	n := r.total["a"]
	if n.Starts != spans || n.Successes+n.Loss.Missed != spans || n.Loss.Missed > 0 && !n.Unobserved || n.Timeouts+n.Failures+n.Lates != 0 {
		r.t.Errorf("%d spans: %+v", spans, n)
	}
}

// awaitObserved collects windows until one was observed from its beginning to its end, and drops
// their counts.
func (r *run) awaitObserved() {
	r.t.Helper()
	for {
		r.lastObserved = false
		r.collectTo(r.plan.At(r.number).From)
		if r.lastObserved {
			r.total = make(map[string]outcome.Counts)
			return
		}
	}
}

// If the only collector is killed, spans stop recording when its lease ends. The next collector
// counts what starts from then on, and nothing that its predecessor has counted.
func TestSilentAfterKill(t *testing.T) { onBoth(t, silentAfterKillOn) }

func silentAfterKillOn(t *testing.T, otp erlang.OTP) {
	beam := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Ring, Args: []string{"+S", "2:2"}})
	cmd, await := startCollector(t, beam)
	await(0)
	vmtest.Eval(t, beam, `true = register(owner, spawn(fun() ->
		Spans = [beamscope:start_span(<<"a">>) || _ <- [1, 2, 3]],
		receive {finish, From} -> [beamscope:end_span(C, S) || {C, S} <- Spans], From ! length([S || {_, S} <- Spans, S =/= ignore]) end end)), ok`)
	counted := recordedSpans(t, beam, 50)
	await(int(counted))
	kill(t, cmd)
	for recordedSpans(t, beam, 1) > 0 { // the lease of the killed collector has not ended
	}
	if n := recordedSpans(t, beam, 500); n != 0 {
		t.Errorf("%d of 1000 spans were recorded although nobody reads them", n)
	}

	r := observe(t, beam, spec("a", time.Second))
	r.awaitObserved()
	want := recordedSpans(t, beam, 100)
	orphans := uint64(vmtest.Integers(t, vmtest.Eval(t, beam, `owner ! {finish, self()}, receive N when is_integer(N) -> N end`))[0])
	r.collectTo(monotonic.Now() + int64(time.Second) + 2*int64(window))
	r.mustCount(want)
	n := r.total["a"]
	if n.Ends != want+orphans || n.Orphans != orphans {
		t.Errorf("%d ends without a start: %+v", orphans, n)
	}
	t.Logf("%d spans counted by the first collector, %d by the second, %d began under the first", counted, n.Successes, orphans)
}
