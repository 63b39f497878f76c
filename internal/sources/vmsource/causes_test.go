package vmsource_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/explain/trace"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// A cause is a scenario of the module causes, and the expected explanation.
type cause struct {
	scenario string
	of       func(trace.Share) bool // reports whether a share belongs to the scenario's cause
	also     func(trace.Share) bool // reports whether the scenario cannot distinguish a share from the cause
	behind   int                    // least number of messages
	reason   string                 // prefix of the reason if the cause cannot be known
}

func ofKind(kinds ...trace.Kind) func(trace.Share) bool {
	return func(s trace.Share) bool { return slices.Contains(kinds, s.Kind) }
}

func ofProcess(name string, kinds ...trace.Kind) func(trace.Share) bool {
	return func(s trace.Share) bool { return slices.Contains(kinds, s.Kind) && s.Name == name }
}

// causes returns all scenarios. Time that the machine takes from a working process counts as
// work, because the scenarios measure by the clock.
func causes() []cause {
	return []cause{
		{scenario: "overload", of: ofKind(trace.OSWait)}, // runs before Favour
		{scenario: "gc", of: func(s trace.Share) bool { return s.Kind == trace.GC && s.Own }},
		{scenario: "file_io", of: func(s trace.Share) bool {
			return s.Kind == trace.NIF && s.Own && strings.HasPrefix(s.Detail, "prim_file:")
		}, also: ofKind(trace.OSWait)}, // a function includes the waits for a processor after the disk is ready
		{scenario: "port_busy", of: func(s trace.Share) bool { return s.Kind == trace.Port && s.Own }},
		{scenario: "neighbour", of: func(s trace.Share) bool { return s.Kind == trace.Ready && s.OtherName == "neighbour" }},
		{scenario: "mailbox", of: ofProcess("slow_server", trace.Mailbox), behind: 90},
		{scenario: "busy_server", of: ofProcess("slow_server", trace.Mailbox)},
		{scenario: "callee", of: ofProcess("slow_callee", trace.Running)},
		{scenario: "stale", of: ofProcess("asked", trace.Running)},

		{scenario: "lock", of: ofProcess("holder", trace.Waiting, trace.Running)},
		{scenario: "handed_over", of: ofProcess("queue_2", trace.Mailbox), behind: 90},
		{scenario: "sleep", of: ofKind(trace.Timer), reason: "its receive timed out"},
		{scenario: "timer", of: ofKind(trace.Timer), reason: "the message of a timer"},
		{scenario: "port_message", of: func(s trace.Share) bool { return s.Kind == trace.External && strings.HasPrefix(s.Detail, "#Port<") }},
	}
}

// Spans that are slow for a known cause have that explanation, with seq_trace and without, on every release. The share of the
// cause is the largest, and differs by at most a tenth from the scenario's own measurement.
func TestKnownCauses(t *testing.T) {
	vmtest.OnEach(t, knownCausesOn)
}

func knownCausesOn(t *testing.T, otp erlang.OTP) {
	beam := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes})
	s := newSourceEvery(t, vm.Target{PID: beam.PID()}, 500*time.Millisecond, []outcome.Spec{{
		Name: "slow", Span: "slow", BinWidth: 10 * time.Millisecond, Bins: 1000, Detail: outcome.Worst, Explain: true,
	}})
	for _, c := range causes() {
		for _, seqTrace := range seqTraces(otp) {
			t.Run(fmt.Sprintf("%s, seq_trace %v", c.scenario, seqTrace), func(t *testing.T) {
				if c.scenario == "overload" {
					overload(t, beam)
				} else {
					vmtest.Favour(t, beam) // otherwise other programs on the machine would add time without a known cause
				}
				s.t = t
				spans := 5
				if seqTrace {
					spans = 3
				}
				each, found := runCause(t, s, beam, c, seqTrace, spans)
				judge(t, c, each, found, s.notices())
			})
		}
	}
}

// collectWhile collects windows while do runs, and then up to the present.
func (s *source) collectWhile(do func() (string, error)) string {
	s.t.Helper()
	type answer struct {
		text string
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		text, err := do()
		done <- answer{text, err}
	}()
	var got answer
	s.collectUntil("an answer", func() bool {
		select {
		case got = <-done:
			return true
		default:
			return false
		}
	})
	if got.err != nil {
		s.t.Fatal(got.err)
	}
	s.collectNow()
	return got.text
}

// A span is a scenario's own report of a span.
type span struct{ duration, cause int64 }

// eachOf parses the list of a scenario's spans.
func eachOf(t *testing.T, result string) map[uint64]span {
	t.Helper()
	_, list, found := strings.Cut(result, "each =>")
	list, _, ends := strings.Cut(list, "]")
	n := vmtest.Integers(t, list)
	if !found || !ends || len(n) == 0 || len(n)%3 != 0 {
		t.Fatalf("not understood: %s", result)
	}
	each := make(map[uint64]span)
	for ; len(n) > 0; n = n[3:] {
		each[uint64(n[0])] = span{n[1], n[2]}
	}
	return each
}

// sharesOf returns the shares of an instance, and checks that they add up to all of its time.
func sharesOf(t *testing.T, i outcome.Instance) []trace.Share {
	t.Helper()
	if i.Trace == nil {
		t.Fatalf("#%d is not explained", i.ID)
	}
	if err := i.Trace.Check(); err != nil {
		t.Errorf("#%d: %v", i.ID, err)
	}
	sum := int64(0)
	shares := i.Trace.Shares()
	for _, s := range shares {
		sum += s.Duration
	}
	if sum != i.End-i.Start {
		t.Errorf("#%d: its shares are %d ns, and it took %d", i.ID, sum, i.End-i.Start)
	}
	return shares
}

// judge compares the measurements of the scenario with the explanations, over all spans.
func judge(t *testing.T, c cause, each map[uint64]span, found map[uint64][]trace.Share, notices []string) {
	t.Helper()
	var cause, share, total int64
	missed := 0
	for id, own := range each {
		shares, ok := found[id]
		if !ok {
			t.Fatalf("#%d was not seen; notices: %q", id, notices)
		}
		if 10*unseen(shares) > own.cause {
			missed++
			logShares(t, id, shares)
			continue
		}
		if !c.of(shares[0]) {
			t.Errorf("#%d: the largest share is not the expected cause", id)
		}
		if !strings.HasPrefix(shares[0].Reason, c.reason) {
			t.Errorf("#%d: the reason is %q, not %q", id, shares[0].Reason, c.reason)
		}
		if shares[0].Behind < c.behind {
			t.Errorf("#%d was behind %d messages, want at least %d", id, shares[0].Behind, c.behind)
		}
		logShares(t, id, shares)
		for _, s := range shares {
			if c.of(s) || c.also != nil && c.also(s) {
				share += s.Duration
			}
			total += s.Duration
		}
		cause += own.cause
	}
	checkMissed(t, missed, len(each))
	t.Logf("%s: %.1f ms of %.1f ms were found, and %.1f ms measured: %+.1f %%", c.scenario,
		float64(share)/1e6, float64(total)/1e6, float64(cause)/1e6, 100*(float64(share)/float64(cause)-1))
	if 10*share < 9*cause || 10*share > 11*cause {
		t.Errorf("its share differs by more than a tenth from the measurement")
	}
}

// unseen returns for how long the trace does not know whether a thread ran. The kernel's
// tracepoints may miss switches, and then the trace gives no cause.
func unseen(shares []trace.Share) (took int64) {
	for _, s := range shares {
		if s.Kind == trace.Unexplained && strings.HasPrefix(s.Reason, "its scheduler's thread did not run for some of this time") {
			took += s.Duration
		}
	}
	return took
}

// checkMissed checks that the cause is known for nearly all spans, because the kernel misses few
// switches.
func checkMissed(t *testing.T, missed, spans int) {
	t.Helper()
	if missed > max(1, spans/5) {
		t.Errorf("for %d of %d spans it is unknown when the thread ran", missed, spans)
	}
}

// logShares logs the shares of an instance.
func logShares(t *testing.T, id uint64, shares []trace.Share) {
	t.Helper()
	for _, s := range shares {
		t.Logf("#%d %6.2f ms %v of %v %s %s (%v) %s %s behind %d", id, ms(s.Duration), s.Kind, s.Process, s.Name, s.OtherName, s.Mark, s.Detail, s.Reason, s.Behind)
	}
}

// overload binds the VM to one processor and keeps that busy with other programs until the test
// ends.
func overload(t *testing.T, beam *erlang.VM) {
	t.Helper()
	var one, before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	for cpu := 0; one.Count() == 0; cpu++ {
		if before.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	for range 3 {
		bind(t, busyProgram(t), &one)
	}
	bind(t, beam.PID(), &one)
	t.Cleanup(func() { bind(t, beam.PID(), &before) })
}

// busyProgram starts a program that computes until the test ends, and returns its pid.
func busyProgram(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd.Process.Pid
}

// bind restricts all threads of a process to these processors.
func bind(t *testing.T, pid int, on *unix.CPUSet) {
	t.Helper()
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.SchedSetaffinity(tid, on); err != nil && !errors.Is(err, unix.ESRCH) {
			t.Fatal(err)
		}
	}
}
