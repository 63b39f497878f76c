package vmsource_test

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/explain/trace"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// The scenarios of the module cause_waits that need no other node.
var waitScenarios = strings.Fields(`
	sleep_ticked timeout_ticked timeout_silent timeout_late pauses cast_then_sleep polls timer_ref forever
	reports chatter behind_cast nested asleep later state_timeout hibernated requested spawned pool file_server
	down linked server_ends collected looked_at
	tcp port_answer table`)

// The scenarios of the module cause_met.
var metScenarios = strings.Fields(`
	stale relay task checkout off_heap large noproc
	late_timer late_down late_port asleep_at_timeout
	crowd low binaries suspended_by_two resumed`)

// Statements that are marked exact are never wrong, on every release. Nearly all waits are explained.
// The processes' own reports are the reference.
func TestNothingExactIsWrong(t *testing.T) {
	vmtest.OnEach(t, nothingExactIsWrong)
}

func nothingExactIsWrong(t *testing.T, otp erlang.OTP) {
	beam := withPeer(t, otp)
	vmtest.Favour(t, beam)
	s := newWaits(t, beam)
	for _, seqTrace := range seqTraces(otp) {
		t.Run(fmt.Sprintf("seq_trace %v", seqTrace), func(t *testing.T) {
			scenarios := slices.Concat(waitScenarios, metScenarios, []string{"node", "node_timeout"})
			for i, r := range s.runs(t, beam, scenarios, seqTrace) {
				t.Run(scenarios[i], func(t *testing.T) { r.judge(t, 0.9) })
			}
		})
	}
}

// seqTraces are the settings of seq_trace with which scenarios run. OTP 27 has one of them unless MATRIX is
// set, because all tests together have an hour.
func seqTraces(otp erlang.OTP) []bool {
	if vm.ReleaseOf(otp.Emulator()) == 27 && !vmtest.Matrix() {
		return []bool{true}
	}
	return []bool{false, true}
}

// Statements that are marked exact are not wrong either when the VM and the machine are
// overloaded.
func TestNothingExactIsWrongUnderLoad(t *testing.T) {
	beam := withPeer(t, vmtest.Private(t), "+S", "2:2")
	s := newWaits(t, beam)
	s.pause = pauseUnderLoad
	busyBeside(t, beam)
	var sum tally
	for _, seqTrace := range []bool{false, true} {
		t.Run(fmt.Sprintf("seq_trace %v", seqTrace), func(t *testing.T) {
			scenarios := slices.Concat(waitScenarios, metScenarios, []string{"node", "node_timeout"})
			for i, r := range s.runs(t, beam, scenarios, seqTrace) {
				t.Run(scenarios[i], func(t *testing.T) { sum.add(r.judge(t, 0)) })
			}
		})
	}
	t.Log(sum)
}

// The scenarios whose measurement holds under load. Not among them is table_lock: it subtracts
// the time that the scheduler's thread runs from what it measures, and under load other processes
// run on that thread meanwhile.
var causesUnderLoad = strings.Fields(`
	overload gc file_io port_busy neighbour mailbox busy_server callee stale lock handed_over sleep timer port_message
	persistent_term code suspended suspended_running suspended_ready suspended_server native_sleep stopped stopped_waiting`)

// The scenarios that measure the time of the cause or more. overload reads what its scheduler's
// thread waited for after the span. A suspender may be held up while it suspends and resumes
// (the suspended processes themselves report a shorter time, which judge checks).
// stopped_waiting takes the clock's largest leap in a process that may also wait for its
// scheduler.
var measureAtLeast = strings.Fields(`overload suspended suspended_running suspended_ready suspended_server stopped_waiting`)

// Under load no cause gets more time that is marked exact than it took, and no other share gets
// that time.
func TestKnownCausesUnderLoad(t *testing.T) {
	beam := vmtest.StartOn(t, vmtest.Private(t), erlang.Options{Carrier: erlang.Probes, Args: []string{"+S", "3:3"}})
	s := newWaits(t, beam)
	s.pause = pauseUnderLoad
	vmtest.Eval(t, beam, "compile:forms([{attribute, 1, module, none}])") // loads the compiler, which takes long under load
	busyBeside(t, beam)
	all := slices.DeleteFunc(slices.Concat(causes(), causesOfVM(), causesAmong()), func(c cause) bool {
		return !slices.Contains(causesUnderLoad, c.scenario)
	})
	for _, seqTrace := range []bool{false, true} {
		t.Run(fmt.Sprintf("seq_trace %v", seqTrace), func(t *testing.T) {
			for some := range slices.Chunk(all, most) {
				var names []string
				for _, c := range some {
					names = append(names, c.scenario)
				}
				for i, r := range s.some(t, beam, names, fmt.Sprintf("spans => 1, work => 2, cause => 80, messages => 30, seq_trace => %v", seqTrace)) {
					t.Run(names[i], func(t *testing.T) {
						r.judge(t, 0)
						r.judgeCause(t, some[i])
					})
				}
			}
		})
	}
}

// judgeCause checks the shares that are marked exact. It fails if they give the cause more time
// than the scenario measured. It also fails if they give more than the remaining time to
// something that cannot be the cause, unless the cause may have taken less than was measured.
// Ready and off-processor time can belong to either. The measurement has the precision of a phase.
func (r told) judgeCause(t *testing.T, c cause) {
	t.Helper()
	for _, sp := range r.spans {
		shares := sharesOf(t, *sp.instance)
		var caused, others int64
		for _, s := range shares {
			switch {
			case s.Mark != trace.Exact:
			case c.of(s):
				caused += s.Duration
			case s.Kind == trace.Running || s.Kind == trace.Waiting || s.Kind == trace.Timer || s.Kind == trace.External || s.Kind == trace.Unexplained && !ignorant.MatchString(s.Reason):
				others += s.Duration
			}
		}
		duration := sp.instance.End - sp.instance.Start
		if caused <= sp.cause+2*r.pause && (others <= duration-sp.cause+2*r.pause || slices.Contains(measureAtLeast, c.scenario)) {
			continue
		}
		t.Errorf("#%d: the cause took %.2f of %.2f ms; it is given %.2f ms, marked exact, and others %.2f ms", sp.id, ms(sp.cause), ms(duration), ms(caused), ms(others))
		logShares(t, sp.id, shares)
	}
}

// busyBeside keeps two processes for each scheduler of the VM and another program of the
// operating system busy until the test ends.
func busyBeside(t *testing.T, beam *erlang.VM) {
	t.Helper()
	vmtest.Eval(t, beam, `[spawn(fun Busy() -> truth:busy(1000000), Busy() end) || _ <- lists:seq(1, 2 * erlang:system_info(schedulers))]`)
	busyProgram(t)
}

// Statements that are marked exact are not wrong on VMs that show less: executables without symbols.
func TestNothingExactIsWrongElsewhere(t *testing.T) {
	vmtest.OnEach(t, func(t *testing.T, otp erlang.OTP) {
		vmtest.Strip(t, otp.Emulator())
		nothingExactIsWrongOn(t, otp)
	})
}

// A call is explained by the called server, whose answer goes to an alias. This also holds on VMs
// that show less. seq_trace makes it no worse.
func TestCallsElsewhere(t *testing.T) {
	for _, on := range []struct {
		release  int
		stripped bool
	}{{25, true}, {27, false}, {29, false}} {
		t.Run(fmt.Sprintf("OTP %d, stripped %v", on.release, on.stripped), func(t *testing.T) {
			otp, err := vmtest.Release(t, on.release).Private(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if on.stripped {
				vmtest.Strip(t, otp.Emulator())
			}
			beam := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes})
			vmtest.Favour(t, beam)
			s := newWaits(t, beam)
			for _, seqTrace := range []bool{false, true} {
				options := fmt.Sprintf("spans => 2, work => 2, cause => 80, seq_trace => %v", seqTrace)
				for _, sp := range s.some(t, beam, []string{"callee"}, options)[0].spans {
					shares := sharesOf(t, *sp.instance)
					if shares[0].Kind != trace.Running || shares[0].Own { // some VMs do not show names
						t.Errorf("seq_trace %v: the largest share of #%d is not the server's", seqTrace, sp.id)
						logShares(t, sp.id, shares)
					}
				}
			}
		})
	}
}

// The scenarios for VMs that show less.
var elsewhereScenarios = strings.Fields(`sleep_ticked timeout_ticked pauses reports asleep later hibernated port_answer`)

func nothingExactIsWrongOn(t *testing.T, otp erlang.OTP) {
	beam := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes})
	vmtest.Favour(t, beam)
	s := newWaits(t, beam)
	for _, seqTrace := range []bool{false, true} {
		t.Run(fmt.Sprintf("seq_trace %v", seqTrace), func(t *testing.T) {
			for i, r := range s.runs(t, beam, elsewhereScenarios, seqTrace) {
				t.Run(elsewhereScenarios[i], func(t *testing.T) { r.judge(t, 0) })
			}
		})
	}
}

// withPeer starts a VM that is connected to another node.
func withPeer(t *testing.T, otp erlang.OTP, args ...string) *erlang.VM {
	t.Helper()
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, ".erlang.cookie"), []byte("beamscope"), 0o400); err != nil {
		t.Fatal(err)
	}
	options := func(name string, more ...string) erlang.Options {
		o := node(name, 43731)
		o.Env = append(os.Environ(), "HOME="+home)
		o.Args = append(o.Args, more...)
		return o
	}
	vmtest.StartOn(t, otp, options("asked@localhost"))
	beam := vmtest.StartOn(t, otp, options("asking@localhost", append(args, "-dist_listen", "false")...))
	vmtest.Call(t, beam, "vm_events", "join", "['asked@localhost']")
	return beam
}

// A waits is a source that explains spans.
type waits struct {
	*source
	pause  int64 // see told
	stalls *vmtest.Stalls
}

func newWaits(t *testing.T, beam *erlang.VM) waits {
	source := newSourceEvery(t, vm.Target{PID: beam.PID()}, 500*time.Millisecond, []outcome.Spec{{
		Name: "slow", Span: "slow", BinWidth: 10 * time.Millisecond, Bins: 1000, Detail: outcome.Worst, Explain: true,
	}})
	return waits{source, pauseAlone, vmtest.WatchStalls(t)}
}

// A told contains a scenario's own report and the explanations of its spans.
type told struct {
	spans  []toldSpan
	phases []phase
	clock  clock
	stalls *vmtest.Stalls
	pause  int64 // longest time between reading the clock for a report and the reported event, ns
	scans  int64 // longest time for which a process runs in a wait because other messages wake it, ns
}

type toldSpan struct {
	id       uint64
	from, to int64 // in the VM's clock, read before the span started and after it ended
	cause    int64 // measured duration of the cause, ns
	instance *outcome.Instance
}

// A phase is what a process reports to have done, see the module truth.
type phase struct {
	process       trace.PID
	what          string
	of            trace.PID
	from, due, to int64
}

// most is the largest number of scenarios that run before their windows are collected.
const most = 8

// runs runs scenarios, a few at a time.
func (s waits) runs(t *testing.T, beam *erlang.VM, scenarios []string, seqTrace bool) []told {
	t.Helper()
	options := fmt.Sprintf("spans => 2, work => 2, cause => 120, seq_trace => %v", seqTrace)
	var all []told
	for some := range slices.Chunk(scenarios, most) {
		all = append(all, s.some(t, beam, some, options)...)
	}
	return all
}

// some runs scenarios with options of the module causes.
func (s waits) some(t *testing.T, beam *erlang.VM, scenarios []string, options string) []told {
	t.Helper()
	s.t, s.batches = t, nil
	args := fmt.Sprintf("[[%s], #{%s}]", strings.Join(scenarios, ","), options)
	text := s.collectWhile(func() (string, error) { return beam.Call(t.Context(), "causes", "run_all", args) })
	found := make(map[uint64]*outcome.Instance)
	for _, b := range s.batches {
		for i := range b.Instances {
			found[b.Instances[i].ID] = &b.Instances[i]
		}
	}
	var all []told
	for _, result := range strings.Split(text, "#{")[1:] {
		all = append(all, readTold(t, result, found))
	}
	if len(all) != len(scenarios) {
		t.Fatalf("%d results of %d scenarios in %s", len(all), len(scenarios), text)
	}
	c := clockOf(all)
	for i := range all {
		all[i].clock, all[i].stalls, all[i].pause = c, s.stalls, s.pause
		all[i].scans = wakeUps[scenarios[i]] * scanTime
	}
	return all
}

// A clock converts times of the VM's clock to beamscope's clock.
type clock struct{ offset, uncertainty int64 }

// clockOf compares the two clocks. A process reads the VM's clock before it starts a span and
// after it ends the span, and something may hold it up in between. So each span bounds the
// offset on both sides, and all spans together bound it tightly.
func clockOf(all []told) clock {
	least, most := int64(math.MinInt64), int64(math.MaxInt64)
	for _, r := range all {
		for _, sp := range r.spans {
			least = max(least, sp.instance.End-sp.to)
			most = min(most, sp.instance.Start-sp.from)
		}
	}
	offset := least + (most-least)/2
	return clock{offset, max(most-offset, offset-least, offset-most)}
}

// Between reading the clock for a report and the reported event, a process runs the first or the
// last lines of a call, with their traps, or collects the garbage of a small message. On a loaded
// machine this took up to 0.18 ms at both ends of a phase together. If processes or programs
// compete for the processors, the scheduler may also lose its processor there for a turn.
const (
	pauseAlone     = 300_000   // ns
	pauseUnderLoad = 2_500_000 // ns
)

// wakeUps is the number of messages that wake a process while it waits for another one. Each time it
// scans its mailbox for at most scanTime, in ns, with the traps of the probes on that way.
var wakeUps = map[string]int64{"chatter": 49}

const scanTime = 50_000

// precision is the precision of a phase: both of its ends are uncertain.
func (r told) precision() int64 { return 2 * (r.pause + r.clock.uncertainty) }

var (
	phaseForm = regexp.MustCompile(`\{(<[^>]+>),(\w+),([^,]+),(-?\d+),(-?\d+),(-?\d+)\}`)
	fromForm  = regexp.MustCompile(`spans_from\s*=>\s*\[([^\]]*)\]`)
)

func readTold(t *testing.T, result string, found map[uint64]*outcome.Instance) told {
	t.Helper()
	var r told
	_, list, _ := strings.Cut(result, "each =>")
	list, _, _ = strings.Cut(list, "]")
	froms := fromForm.FindStringSubmatch(result)
	each := vmtest.Integers(t, list)
	if froms == nil || len(each) == 0 || len(each)%3 != 0 {
		t.Fatalf("not understood: %s", result)
	}
	for i, from := range vmtest.Integers(t, froms[1]) {
		id := uint64(each[3*i])
		if found[id] == nil {
			t.Fatalf("#%d was not seen", id)
		}
		r.spans = append(r.spans, toldSpan{id, from, from + each[3*i+1], each[3*i+2], found[id]})
	}
	for _, m := range phaseForm.FindAllStringSubmatch(result, -1) {
		times := vmtest.Integers(t, strings.Join(m[4:], " "))
		r.phases = append(r.phases, phase{readPID(m[1]), m[2], readPID(m[3]), times[0], times[1], times[2]})
	}
	slices.SortFunc(r.phases, func(a, b phase) int { return cmp.Compare(a.from, b.from) })
	return r
}

// readPID parses a pid as Erlang prints it. It returns 0 for anything else.
func readPID(text string) trace.PID {
	parts := strings.Split(strings.Trim(text, "<>"), ".")
	if len(parts) != 3 || text[0] != '<' {
		return 0
	}
	var n [3]uint64
	for i, part := range parts {
		n[i], _ = strconv.ParseUint(part, 10, 64)
	}
	return trace.PID(n[0]<<48 | n[2]<<32 | n[1])
}

// A statement is what a trace claims about some time.
type statement struct {
	kind    trace.Kind
	process trace.PID
	reason  string
	mark    trace.Mark
}

// A verdict is for how many nanoseconds a statement is right and wrong. Time in which it claims
// nothing testable counts as neither.
type verdict struct{ right, wrong int64 }

// A tally is the verdict on all statements with a mark.
type tally map[trace.Mark]verdict

func (s *tally) add(o tally) {
	if *s == nil {
		*s = make(tally)
	}
	for mark, v := range o {
		sum := (*s)[mark]
		(*s)[mark] = verdict{sum.right + v.right, sum.wrong + v.wrong}
	}
}

func (s tally) String() string {
	var parts []string
	for _, mark := range slices.Sorted(maps.Keys(s)) {
		v := s[mark]
		parts = append(parts, fmt.Sprintf("%v: right for %.1f ms, wrong for %.1f ms", mark, ms(v.right), ms(v.wrong)))
	}
	return strings.Join(parts, "; ")
}

// judge fails if a statement that is marked exact is wrong. It also fails if less than the share
// found of the process's waits is explained. It returns for how long statements are right and
// wrong.
func (r told) judge(t *testing.T, found float64) tally {
	sum := make(tally)
	for _, sp := range r.spans {
		tr := sp.instance.Trace
		if tr == nil {
			t.Fatalf("#%d is not explained", sp.id)
		}
		sharesOf(t, *sp.instance)
		duration := sp.instance.End - sp.instance.Start
		verdicts, waited, right := r.verdicts(tr, r.clock.offset)
		bad := false
		for what, v := range verdicts {
			sum.add(tally{what.mark: v})
			if what.mark == trace.Exact && v.wrong > 0 {
				bad = true
				t.Errorf("#%d: %v of %v (%s), exact, is wrong for %.2f of %.2f ms", sp.id, what.kind, what.process, what.reason, ms(v.wrong), ms(duration))
			}
		}
		if float64(right) < found*float64(waited) {
			bad = true
			t.Errorf("#%d: it waited %.2f ms, and the cause of %.2f ms is explained", sp.id, ms(waited), ms(right))
		}
		if bad {
			r.log(t, sp)
		}
	}
	return sum
}

func ms(ns int64) float64 { return float64(ns) / 1e6 }

// verdicts judges all statements of a trace by the phases, which are offset nanoseconds earlier.
// If all statements with a mark about a phase are wrong for no longer than its precision, that
// time counts as neither right nor wrong. Nor does the time of its scans. Nor does time in which a processor stalled: what a process
// was about to do then had not happened yet. It also returns how long the process of the span waited, and for
// how much of that the cause is right.
func (r told) verdicts(tr *trace.Trace, offset int64) (verdicts map[statement]verdict, waited, right int64) {
	verdicts = make(map[statement]verdict)
	root := tr.Spans[0]
	begins := r.begins(tr, offset)
	type about struct {
		phase
		mark trace.Mark
	}
	wrong := make(map[about]map[statement]int64)
	for sp := range statements(tr) {
		owner := tr.Spans[sp.Parent].Process
		key := statement{sp.Kind, sp.Process, sp.Reason, sp.Mark}
		v := verdicts[key]
		for _, p := range r.parts(owner, sp.Start-offset, sp.End-offset, owner == root.Process) {
			length := p.to - p.from
			if begin, waits := begins[p.phase]; waits && p.to <= begin && heldUp(sp) {
				continue
			}
			if p.what == "" && sp.Kind == trace.Mailbox && r.runsWithin(owner, p.to, sp.End-offset) {
				continue // the process has not yet reached that message
			}
			switch judged(sp, p) {
			case saysRight:
				v.right += length
				if sp.Parent == 0 && p.waits() {
					right += length
				}
			case saysWrong:
				of := about{p.phase, sp.Mark}
				if wrong[of] == nil {
					wrong[of] = make(map[statement]int64)
				}
				wrong[of][key] += length - r.stalls.Within(p.from+offset, p.to+offset)
			}
		}
		verdicts[key] = v
	}
	for _, wrong := range wrong {
		var sum, scans int64
		for key, took := range wrong {
			sum += took
			if runs(key.kind) {
				scans += took
			}
		}
		if sum-min(scans, r.scans) <= r.precision() {
			continue
		}
		for key, took := range wrong {
			v := verdicts[key]
			verdicts[key] = verdict{v.right, v.wrong + took}
		}
	}
	for _, p := range r.parts(root.Process, root.Start-offset, root.End-offset, true) {
		if p.waits() {
			waited += p.to - p.from
		}
	}
	return verdicts, waited, right
}

// runsWithin reports whether a process reports that it begins to run in an interval.
func (r told) runsWithin(process trace.PID, from, to int64) bool {
	return slices.ContainsFunc(r.phases, func(p phase) bool {
		return p.process == process && p.what == "run" && from <= p.from && p.from < to
	})
}

// statements yields the statements of a trace about processes.
func statements(tr *trace.Trace) iter.Seq[*trace.Span] {
	parents := make(map[int]bool)
	for i := range tr.Spans {
		parents[tr.Spans[i].Parent] = true
	}
	return func(yield func(*trace.Span) bool) {
		for i := 1; i < len(tr.Spans); i++ {
			sp := &tr.Spans[i]
			if parents[i] && sp.Kind != trace.Waiting {
				continue
			}
			if sp.Kind == trace.OSWait && tr.Spans[i-1].Kind == trace.GC {
				continue // the collection continues after it
			}
			if !yield(sp) {
				return
			}
		}
	}
}

// begins returns when processes begin to wait according to a trace, for the phases in which they
// do. A process notes the time just before it waits, and may be held up in between.
func (r told) begins(tr *trace.Trace, offset int64) map[phase]int64 {
	begins := make(map[phase]int64)
	for sp := range statements(tr) {
		if runs(sp.Kind) {
			continue
		}
		for _, p := range r.parts(tr.Spans[sp.Parent].Process, sp.Start-offset, sp.End-offset, false) {
			if begin, found := begins[p.phase]; p.waits() && (!found || p.from < begin) {
				begins[p.phase] = p.from
			}
		}
	}
	return begins
}

// heldUp reports whether a span claims that a process could run but had to wait for a processor
// or a scheduler.
func heldUp(sp *trace.Span) bool { return sp.Kind == trace.OSWait || sp.Kind == trace.Ready }

// runs reports whether a process with this kind of share is not waiting.
func runs(kind trace.Kind) bool {
	return !slices.Contains([]trace.Kind{trace.Waiting, trace.Unexplained, trace.Mailbox, trace.NIF, trace.Port, trace.VMWait, trace.Suspended, trace.Timer, trace.External}, kind)
}

// A part is an interval in a phase of a process, or between its phases.
type part struct {
	phase
	from, to int64
	isDue    bool // what it waited for has arrived
	own      bool // the process is that of the span
	mute     bool // the process reports nothing at all
}

func (p part) waits() bool {
	return !slices.Contains([]string{"", "run", "finishing"}, p.what) && !p.isDue
}

// parts divides an interval by the phases of a process. Between them there are phases without a
// report. In those that end when the process is idle, it was still finishing its last work.
func (r told) parts(process trace.PID, from, to int64, own bool) []part {
	mute := !slices.ContainsFunc(r.phases, func(p phase) bool { return p.process == process })
	var parts []part
	add := func(p phase, until int64, isDue bool) {
		if until = min(until, to); from < until {
			parts = append(parts, part{p, from, until, isDue, own, mute})
			from = until
		}
	}
	last := int64(math.MinInt64) // end of the phase before
	for _, p := range r.phases {
		if p.process != process {
			continue
		}
		between := phase{process: process, from: last, to: p.from}
		if p.what == "idle" {
			between.what = "finishing"
		}
		last = max(last, p.to)
		if p.to <= from {
			continue
		}
		add(between, p.from, false)
		add(p, max(p.from, min(p.due, p.to)), false)
		add(p, p.to, true)
	}
	add(phase{process: process, from: last, to: math.MaxInt64}, to, false)
	return parts
}

// A judgement is the judgement of a statement.
type judgement int

const (
	saysNothing judgement = iota
	saysRight
	saysWrong
)

// ignorant matches reasons that claim that nothing is known.
var ignorant = regexp.MustCompile(`ran or waited is not known|what it did is not known|not tracked|began to run is not known|overwritten|no longer has|before the recording|not seen|did not see|not certain`)

// judged judges the claim of a span about a part of the time of a process.
func judged(sp *trace.Span, p part) judgement {
	runs := runs(sp.Kind)
	says := func(right bool) judgement {
		if right {
			return saysRight
		}
		return saysWrong
	}
	switch {
	case sp.Kind == trace.Unexplained && ignorant.MatchString(sp.Reason):
		return saysNothing
	case sp.Kind == trace.Waiting && sp.Process == p.process && ignorant.MatchString(sp.Reason):
		return saysNothing // of what the process did that the span's process waited for
	case p.what == "" && (p.own || p.mute): // too short to tell, or a process without reports
		return saysNothing
	case p.what == "finishing" && sp.Kind == trace.Mailbox: // it has not yet reached its next message
		return saysNothing
	case p.what == "" || p.what == "finishing":
		return says(sp.Kind != trace.Running && sp.Kind != trace.GC && sp.Kind != trace.NIF && sp.Kind != trace.Mailbox)
	case sp.Kind == trace.Mailbox: // of a busy process
		return saysRight
	case p.what == "run":
		return says(runs)
	case p.isDue && runs:
		return saysRight
	case sp.Kind == trace.GC: // its garbage may be collected by others while it waits
		return saysNothing
	case runs:
		return saysWrong
	}
	begins := func(kind trace.Kind, text, begin string) judgement {
		return says(sp.Kind == kind && strings.HasPrefix(text, begin))
	}
	switch p.what {
	case "sleep":
		if sp.Kind == trace.Unexplained {
			return begins(trace.Unexplained, sp.Reason, "it waits in a receive with a time")
		}
		return begins(trace.Timer, sp.Reason, "its receive timed out")
	case "suspended":
		return says(sp.Kind == trace.Suspended && sp.Other == p.of)
	case "timer":
		return begins(trace.Timer, sp.Reason, "the message of a timer")
	case "port":
		return begins(trace.External, sp.Detail, "#Port<")
	case "node":
		return begins(trace.External, sp.Detail, "the node ")
	case "message", "timeout":
		return says(sp.Kind == trace.Waiting && sp.Process>>48 == p.of>>48 && (sp.Process == p.of || p.of>>48 != 0))
	}
	return saysWrong
}

// log logs the explanation of a span, and the reports of the processes.
func (r told) log(t *testing.T, sp toldSpan) {
	t.Helper()
	tr := sp.instance.Trace
	start := sp.instance.Start
	began := start - r.clock.offset
	depth := make([]int, len(tr.Spans))
	for i, s := range tr.Spans {
		if i > 0 {
			depth[i] = depth[s.Parent] + 1
		}
		t.Logf("#%d %8.2f %8.2f %s%v of %v %s (%v) %s %s", sp.id, ms(s.Start-start), ms(s.End-start), strings.Repeat("  ", depth[i]), s.Kind, s.Process, s.Name, s.Mark, s.Detail, s.Reason)
	}
	for _, p := range r.phases {
		if p.to > began && p.from < began+sp.instance.End-start {
			t.Logf("told %8.2f %8.2f %8.2f %v %s %v", ms(p.from-began), ms(p.due-began), ms(p.to-began), p.process, p.what, p.of)
		}
	}
}
