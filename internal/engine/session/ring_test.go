package session_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// loadRing makes the VM start and end spans called a, and waits until n are counted in total.
func (r *rig) loadRing(spans string, n uint64) {
	r.t.Helper()
	vmtest.Call(r.t, r.vm, "span_load", "run", `[#{procs => 2, spans => `+spans+`, name => <<"a">>}]`)
	r.await(r.t, "the spans", func() bool { return r.allFrames().sum("a").Instances() >= n })
}

// If the VM has no probes, its spans are observed nevertheless, and a notice reports that nothing
// else is. Outcomes of the VM that the user did not request are left out.
func TestSpansOfVMWithoutProbes(t *testing.T) {
	t.Parallel()
	beam := vmtest.StartOn(t, vmtest.WithoutProbes(t), erlang.Options{Carrier: erlang.Ring})
	r := observe(t, beam, "window: 200ms\noutcomes: {gc: {vm: gc}}\n", session.Options{Discover: true, Spare: []string{"gc"}, Look: []string{"run"}})
	if r.Attached() {
		t.Error("the session reports attached programs")
	}
	r.load(1, "a")
	r.await(t, "its outcome", func() bool { return slices.Contains(r.spans(), "a") })
	r.next(1)
	before := r.allFrames().sum("a").Instances()
	r.loadRing("5000", before+5000)
	n := r.allFrames().sum("a")
	if n.Instances() != before+5000 || n.Successes != n.Instances() || n.Loss.Total() != 0 {
		t.Errorf("%d before, then %+v", before, n)
	}
	if !r.noticed("no VM has probes: only spans of the application beamscope are observed") {
		t.Errorf("notices: %v", r.observerLog)
	}
	if slices.ContainsFunc(r.allFrames(), func(f *scope.Frame) bool { return len(f.Outcomes) > 1 }) {
		t.Error("there is another outcome")
	}
	status := r.Status().VMs
	if len(status) != 1 || !status[0].Ring || status[0].VM.PID != beam.PID() {
		t.Errorf("status %+v", status)
	}
}

// Outcomes that only probes can show are refused with the reason.
func TestVMOutcomesNeedProbes(t *testing.T) {
	t.Parallel()
	beam := vmtest.StartOn(t, vmtest.WithoutProbes(t), erlang.Options{Carrier: erlang.Ring})
	c := parse(t, "target: {exe: '"+emulatorOf(t, beam)+"'}\noutcomes: {gc: {vm: gc}, a: {span: a, dmax: 1s, bins: 100}}\n")
	if s, err := session.Open(t.Context(), c, session.Options{}); !errors.Is(err, vm.ErrNoProbes) {
		t.Errorf("error %v, want %v", err, vm.ErrNoProbes)
		if err == nil {
			s.Close()
		}
	}
}

// Waits of a VM's threads for a processor need no probes. They are observed in addition to spans that
// are read from its memory, and a notice reports that nothing else is.
func TestWaitsOfVMWithoutProbes(t *testing.T) {
	t.Parallel()
	vmtest.NeedEBPF(t)
	beam := vmtest.StartOn(t, vmtest.WithoutProbes(t), erlang.Options{Carrier: erlang.Ring})
	r := observe(t, beam, "window: 200ms\noutcomes: {waits: {vm: os-wait}, a: {span: a, dmax: 10s, bins: 1000}}\n", session.Options{})
	if !r.Attached() {
		t.Error("the session reports that no programs are attached")
	}
	r.next(1)
	r.loadRing("3000", 3000)
	r.await(t, "waits", func() bool { return r.allFrames().sum("waits").Successes > 0 })
	if n := r.allFrames().sum("a"); n.Instances() != 3000 || n.Successes != 3000 || n.Loss.Total() != 0 {
		t.Errorf("spans: %+v", n)
	}
	if !r.noticed("has no probes: programs in the kernel observe only the waits of its threads for a processor (os-wait)") {
		t.Errorf("notices: %v", r.observerLog)
	}
}

// On a VM without probes but of a known build, functions replace the probes. Outcomes of the VM
// are observed, in addition to spans that are read from its memory. Impossible outcomes are left
// out with the reason, or refused if the user requested them.
func TestOutcomesOfStockVM(t *testing.T) {
	t.Parallel()
	vmtest.NeedEBPF(t)
	beam := vmtest.StartOn(t, vmtest.Stock(t, 25), erlang.Options{})
	r := observe(t, beam, "window: 200ms\noutcomes: {gc: {vm: gc}, a: {span: a, dmax: 10s, bins: 1000}, links: {vm: dist-busy, group: remote}}\n",
		session.Options{Discover: true, Spare: []string{"gc", "dist-busy"}})
	if !r.Attached() {
		t.Error("the session reports that no programs are attached")
	}
	r.next(1)
	r.loadRing("3000", 3000)
	const collections = 50
	vmtest.Eval(t, beam, "[erlang:garbage_collect() || _ <- lists:seq(1, "+strconv.Itoa(collections)+")]")
	r.await(t, "collections", func() bool { return r.allFrames().sum("gc").Successes >= collections })
	if n := r.allFrames().sum("a"); n.Instances() != 3000 || n.Successes != 3000 || n.Loss.Total() != 0 {
		t.Errorf("spans: %+v", n)
	}
	for _, want := range []string{
		"has no probes: functions of its build stand in for some of them",
		"links is not observed: ", "erts_dsig_send does not tell the argument remote of dist-port_busy",
	} {
		if !r.noticed(want) {
			t.Errorf("no notice has %q: %v", want, r.observerLog)
		}
	}
	if slices.ContainsFunc(r.allFrames(), func(f *scope.Frame) bool {
		return slices.ContainsFunc(f.Outcomes, func(p scope.Outcome) bool { return p.Name == "links" })
	}) {
		t.Error("an impossible outcome is observed")
	}
	for _, want := range []struct{ outcome, text string }{
		{"{start: message-send, end: 'message-queued[size>5]', key: receiver, pair: fifo}", "this VM reports message-queued and message-send at the same place"},
		{"{vm: dist-busy, group: remote}", "erts_dsig_send does not tell the argument remote of dist-port_busy"},
	} {
		c := parse(t, "target: {pid: "+strconv.Itoa(beam.PID())+"}\noutcomes: {x: "+want.outcome+"}\n")
		s, err := session.Open(t.Context(), c, session.Options{})
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, bpf.ErrNoProbe) || !strings.Contains(err.Error(), want.text) || strings.Contains(err.Error(), "/proc/self") {
			t.Errorf("%s: error %v, want one with %q and the name of the executable", want.outcome, err, want.text)
		}
	}
}

func emulatorOf(t *testing.T, beam *erlang.VM) string {
	t.Helper()
	vms, _, err := vm.Find(t.Context(), vm.Target{PID: beam.PID()})
	if err != nil {
		t.Fatal(err)
	}
	return vms[0].Exe.Name
}

// A VM may have both probes and a ring. Each span is counted once, whether it is recorded in the
// ring or fires a probe. Explained spans fire the probes.
func TestRingBesideProbes(t *testing.T) {
	t.Parallel()
	vmtest.NeedEBPF(t)
	vmtest.NeedKind(t, vmtest.WithProbes)
	beam := vmtest.Start(t, erlang.Options{Carrier: erlang.Ring})
	const file = "window: 200ms\noutcomes: {a: {span: a, dmax: 10s, bins: 1000}}\n"
	seen := &explained{observerLog: newObserverLog()}
	r := observe(t, beam, file, session.Options{Observers: []scope.Observer{seen}})
	r.next(1)
	r.loadRing("3000", 3000)
	vmtest.Eval(t, beam, `Label = 1 + erlang:crc32(<<"a">>) rem 950,
		[begin dyntrace:pn(Label, I, 1, 1, 0, <<"a">>, <<>>), dyntrace:pn(Label, I, 2, 1, 0, <<"a">>, <<>>) end || I <- lists:seq(1, 100)], ok`)
	// Spans that set a seq_trace token in their process fire the probe too.
	vmtest.Eval(t, beam, `[beamscope:with_span(<<"a">>, fun() -> {label, _} = seq_trace:get_token(label) end, #{seq_trace => true})
		|| _ <- lists:seq(1, 50)], ok`)
	r.await(t, "the spans that fired the probe", func() bool { return r.allFrames().sum("a").Instances() >= 3150 })
	r.apply(strings.Replace(file, "outcomes", "explain: true\noutcomes", 1))
	r.next(1)
	all := uint64(3150)
	r.await(t, "an explained span", func() bool { // spans that start just after the change are not explained
		all += 50
		r.loadRing("50", all)
		r.next(1)
		return seen.traces.Load() > 0
	})
	if n := r.allFrames().sum("a"); n.Instances() != all || n.Successes != all || n.Starts != all || n.Loss.Total() != 0 {
		t.Errorf("%d spans: %+v", all, n)
	}
}

// The second end of an explained span is late, however many other spans are open.
func TestSecondEndsOfExplainedSpans(t *testing.T) {
	t.Parallel()
	vmtest.NeedEBPF(t)
	beam := vmtest.Start(t, erlang.Options{Carrier: erlang.Ring})
	r := observe(t, beam, "window: 200ms\nexplain: true\noutcomes: {a: {span: a, dmax: 10s, bins: 1000}}\n", session.Options{})
	r.next(1)
	vmtest.Eval(t, beam, `[beamscope:start_span(<<"a">>) || _ <- lists:seq(1, 300)],
		[begin
			{_, Span} = beamscope:start_span(<<"a">>),
			beamscope:end_span(undefined, Span),
			beamscope:end_span(undefined, Span)
		end || _ <- lists:seq(1, 200)], ok`)
	r.await(t, "the ends", func() bool { return r.allFrames().sum("a").Ends >= 400 })
	if n := r.allFrames().sum("a"); n.Successes != 200 || n.Lates != 200 || n.Orphans != 0 {
		t.Errorf("%+v", n)
	}
}

// An explained is an observer that counts instances with a trace, and keeps the classes of failures.
type explained struct {
	*observerLog
	traces  atomic.Int64
	classes sync.Map
}

// failed reports whether a failure of a class was seen.
func (e *explained) failed(class string) bool {
	_, ok := e.classes.Load(class)
	return ok
}

// Framed implements [scope.Observer].
func (e *explained) Framed(b *outcome.Batch, _ *scope.Frame) error {
	for _, i := range b.Instances {
		if i.Trace != nil {
			e.traces.Add(1)
		}
		if i.Status == outcome.Failure {
			e.classes.Store(i.Class, true)
		}
	}
	return nil
}

// In a VM without probes whose build is known, a function shows the exits of processes. So a span
// fails when its process exits, if the scope file requests that.
func TestExitsOfStockVM(t *testing.T) {
	vmtest.NeedEBPF(t)
	for _, release := range vmtest.StockReleases() {
		t.Run(strconv.Itoa(release), func(t *testing.T) {
			t.Parallel()
			exitsOfStockVM(t, vmtest.StartOn(t, vmtest.Stock(t, release), erlang.Options{}))
		})
	}
}

func exitsOfStockVM(t *testing.T, beam *erlang.VM) {
	r := observe(t, beam, "window: 200ms\noutcomes: {a: {span: a, dmax: 10m, bins: 1000, exit: failure}}\n", session.Options{})
	r.awaitCalls()
	r.next(2)
	before := r.allFrames().sum("a")
	const exits, kills, ends = 40, 10, 20
	vmtest.Eval(t, beam, fmt.Sprintf(`Parent = self(),
		Spawn = fun(Do) -> element(1, spawn_monitor(fun() -> {_, Span} = beamscope:start_span(<<"a">>), Do(Span) end)) end,
		[Spawn(fun(_) -> exit(reason) end) || _ <- lists:seq(1, %[1]d)],
		Waiting = [Spawn(fun(_) -> Parent ! started, receive never -> ok end end) || _ <- lists:seq(1, %[2]d)],
		[receive started -> ok end || _ <- Waiting], [exit(Pid, kill) || Pid <- Waiting],
		[Spawn(fun(Span) -> beamscope:end_span(undefined, Span) end) || _ <- lists:seq(1, %[3]d)],
		[receive {'DOWN', _, process, _, _} -> ok end || _ <- lists:seq(1, %[1]d + %[2]d + %[3]d)], ok`, exits, kills, ends))
	want := before
	want.Failures, want.Successes, want.Starts = before.Failures+exits+kills, before.Successes+ends, before.Starts+exits+kills+ends
	r.await(t, "the exits", func() bool { return r.allFrames().sum("a").Instances() >= want.Instances() })
	if n := r.allFrames().sum("a"); n.Failures != want.Failures || n.Successes != want.Successes || n.Starts != want.Starts || n.Loss != want.Loss {
		t.Errorf("%d exits, %d kills, %d ends: %+v, before %+v", exits, kills, ends, n, before)
	}
}

// Instances that are open when their VM is killed are lost, however their outcome is observed. They do not time out.
func TestOpenInKilledVM(t *testing.T) {
	vmtest.NeedEvents(t)
	vmtest.NeedEBPF(t)
	for what, carrier := range map[string]erlang.Carrier{"probes": erlang.Probes, "ring": erlang.Ring} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			beam := vmtest.Start(t, erlang.Options{Carrier: carrier})
			r := observe(t, beam, "window: 200ms\noutcomes: {a: {span: a, dmax: 5s, bins: 500}, lives: {vm: lifetime, dmax: 5s, bins: 500, group: mfa}}\n", session.Options{})
			r.next(2)
			const open = 40
			vmtest.Eval(t, beam, fmt.Sprintf(`[beamscope:start_span(<<"a">>) || _ <- lists:seq(1, %[1]d)],
				[spawn(timer, sleep, [infinity]) || _ <- lists:seq(1, %[1]d)], ok`, open))
			r.await(t, "the starts", func() bool { return r.allFrames().sum("lives").Starts >= open })
			if err := syscall.Kill(beam.PID(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			lost := func(name string) uint64 { return r.allFrames().sum(name).Loss.Total() }
			r.await(t, "the losses", func() bool { return lost("a") >= open && lost("lives") >= open })
			for _, name := range []string{"a", "lives"} {
				if n := r.allFrames().sum(name); n.Timeouts != 0 {
					t.Errorf("%s: %+v", name, n)
				}
			}
		})
	}
}

// awaitCalls waits until spans call a function that programs in the kernel see. Spans that start
// before that are only recorded in the ring.
func (r *rig) awaitCalls() {
	r.t.Helper()
	const one = `{_, Span} = beamscope:start_span(<<"a">>), ok = beamscope:end_span(undefined, Span), element(1, Span)`
	for vmtest.Eval(r.t, r.vm, one) != "explained" {
		r.next(1)
	}
}

// While a collector explains the spans of a VM, each of them counts once there, and once in a
// collector that does not explain them.
func TestSpansThatAnotherExplains(t *testing.T) {
	vmtest.NeedEBPF(t)
	for what, otp := range map[string]erlang.OTP{"probes": vmtest.OTP(t), "stock": vmtest.Stock(t, 25)} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			beam := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Ring})
			const file = "window: 200ms\noutcomes: {a: {span: a, dmax: 10s, bins: 1000}}\n"
			explaining := observe(t, beam, "explain: true\n"+file, session.Options{})
			counting := observe(t, beam, file, session.Options{})
			explaining.awaitCalls()
			both := []*rig{explaining, counting}
			var before []outcome.Counts
			for _, r := range both {
				r.next(2)
				before = append(before, r.allFrames().sum("a"))
			}
			const all = 3000
			vmtest.Call(t, beam, "span_load", "run", fmt.Sprintf(`[#{procs => 2, spans => %d, name => <<"a">>}]`, all))
			for i, r := range both {
				r.await(t, "the spans", func() bool { return r.allFrames().sum("a").Instances() >= before[i].Instances()+all })
				if n := r.allFrames().sum("a"); n.Successes != before[i].Successes+all || n.Starts != before[i].Starts+all || n.Lates != before[i].Lates || n.Loss != before[i].Loss {
					t.Errorf("collector %d: %d spans: %+v, before %+v", i, all, n, before[i])
				}
			}
		})
	}
}

// On a VM without probes whose build is known, the application calls a function of the VM for
// explained spans. Programs in the kernel see each call once, with all its data.
func TestExplainedSpansOfStockVM(t *testing.T) {
	vmtest.NeedEBPF(t)
	for _, release := range vmtest.StockReleases() {
		t.Run(strconv.Itoa(release), func(t *testing.T) {
			t.Parallel()
			explainedSpansOfStockVM(t, vmtest.StartOn(t, vmtest.Stock(t, release), erlang.Options{}))
		})
	}
}

func explainedSpansOfStockVM(t *testing.T, beam *erlang.VM) {
	long := strings.Repeat("é", 127) // in 254 bytes
	const mostOfClass = 63           // bytes that programs in the kernel pass on
	seen := &explained{observerLog: newObserverLog()}
	r := observe(t, beam, "window: 200ms\nexplain: true\noutcomes: {a: {span: a, dmax: 10s, bins: 1000}, long: {span: "+long+", dmax: 10s, bins: 100}}\n",
		session.Options{Observers: []scope.Observer{seen}})
	r.awaitCalls()
	t.Logf("the start and the end of an explained span take %s ns", vmtest.Eval(t, beam, `{Took, _} = timer:tc(fun() ->
		[begin {_, S} = beamscope:start_span(<<"a">>), beamscope:end_span(undefined, S) end || _ <- lists:seq(1, 2000)] end), Took * 1000 div 2000`))
	r.next(2)
	const all = 3000
	before := r.allFrames().sum("a") // some of the windows so far were not observed as a whole
	r.loadRing("3000", before.Instances()+all)
	if seen.traces.Load() == 0 {
		t.Error("no span is explained")
	}
	vmtest.Eval(t, beam, `Long = binary:copy(<<16#e9/utf8>>, 127),
		[begin {_, S} = beamscope:start_span(Long), beamscope:fail_span(S, <<"reason ", Long/binary>>) end || _ <- lists:seq(1, 100)],
		[begin {_, S} = beamscope:start_span(Long), spawn(fun() -> beamscope:end_span(undefined, S) end) end || _ <- lists:seq(1, 50)],
		[beamscope:start_span(<<"another">>) || _ <- lists:seq(1, 10)],
		[ets:is_compiled_ms(T) || T <- [a, 1, 1 bsl 70, {}, {a}, {16#62656D73636F70, 1, 2, 3, 4, 5, 6, 7}, {16#62656D73636F70, a, b, c, d, e, f, g}, "text"]], ok`)
	r.await(t, "the long spans", func() bool { return r.allFrames().sum("long").Instances() >= 150 })
	if n := r.allFrames().sum("a"); n.Successes != before.Successes+all || n.Instances() != before.Instances()+all || n.Starts != before.Starts+all || n.Loss != before.Loss {
		t.Errorf("%d spans: %+v, before %+v", all, n, before)
	}
	if n := r.allFrames().sum("long"); n.Failures != 100 || n.Successes != 50 || n.Starts != 150 || n.Loss.Total() != 0 {
		t.Errorf("100 failures, 50 successes: %+v", n)
	}
	if want := ("reason " + long)[:mostOfClass]; !seen.failed(want) {
		t.Errorf("no failure has the class %q", want)
	}
}
