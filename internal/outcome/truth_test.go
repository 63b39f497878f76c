package outcome_test

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/trace"
	"github.com/beamscope/beamscope/internal/vm"
	"github.com/beamscope/beamscope/internal/vmtest"
)

// The scenarios of the module cause_waits: those that need no other node.
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

// Nothing that is marked exact is wrong, and nearly all of what processes waited for is
// found, by what the processes themselves tell of it.
func TestNothingExactIsWrong(t *testing.T) {
	beam := withPeer(t)
	vmtest.Favour(t, beam)
	s := newWaits(t, beam)
	for _, seqTrace := range []bool{false, true} {
		t.Run(fmt.Sprintf("seq_trace %v", seqTrace), func(t *testing.T) {
			scenarios := slices.Concat(waitScenarios, metScenarios, []string{"node", "node_timeout"})
			for i, r := range s.runs(t, beam, scenarios, seqTrace) {
				t.Run(scenarios[i], func(t *testing.T) { r.judge(t, 0.03, 0.9) })
			}
		})
	}
}

// Nor is it where the VM, and the machine, have more to do than they can.
func TestNothingExactIsWrongUnderLoad(t *testing.T) {
	beam := withPeer(t, "+S", "2:2")
	s := newWaits(t, beam)
	busyBeside(t, beam)
	var sum tally
	for _, seqTrace := range []bool{false, true} {
		t.Run(fmt.Sprintf("seq_trace %v", seqTrace), func(t *testing.T) {
			scenarios := slices.Concat(waitScenarios, metScenarios, []string{"node", "node_timeout"})
			for i, r := range s.runs(t, beam, scenarios, seqTrace) {
				t.Run(scenarios[i], func(t *testing.T) { sum.add(r.judge(t, 0.03, 0)) })
			}
		})
	}
	t.Log(sum)
}

// The scenarios that measure their cause as a whole, without those that take many turns on a
// scheduler, each of which is long here.
var causesUnderLoad = strings.Fields(`
	file_io port_busy neighbour mailbox busy_server callee lock handed_over sleep timer port_message
	persistent_term suspended suspended_running native_sleep`)

// Nor do causes get more time, marked exact, than they took, and nothing else gets theirs.
func TestKnownCausesUnderLoad(t *testing.T) {
	beam := vmtest.StartOn(t, knownOTP(t), erlang.Options{Args: []string{"+S", "3:3"}})
	s := newWaits(t, beam)
	busyBeside(t, beam)
	all := slices.DeleteFunc(slices.Concat(causes(), causesOfVM()), func(c cause) bool {
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
					t.Run(names[i], func(t *testing.T) { r.judgeCause(t, some[i]) })
				}
			}
		})
	}
}

// judgeCause fails if shares that are marked exact give the cause more time than the scenario
// measured, or give more than the rest to what cannot be the cause. A process may be ready or
// without a processor in both.
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
		limit := duration/20 + 2_000_000
		if caused <= sp.cause+limit && others <= duration-sp.cause+limit {
			continue
		}
		t.Errorf("#%d: the cause took %.2f of %.2f ms; it is given %.2f ms, marked exact, and others %.2f ms", sp.id, ms(sp.cause), ms(duration), ms(caused), ms(others))
		logShares(t, sp.id, shares)
	}
}

// busyBeside has two processes for each scheduler of the VM compute, and a program of the
// operating system beside it, until the test ends.
func busyBeside(t *testing.T, beam *erlang.VM) {
	t.Helper()
	vmtest.Eval(t, beam, `[spawn(fun Busy() -> truth:busy(1000000), Busy() end) || _ <- lists:seq(1, 2 * erlang:system_info(schedulers))]`)
	busyProgram(t)
}

// Nor is it on VMs of which less can be seen: of other releases, and without symbols.
func TestNothingExactIsWrongElsewhere(t *testing.T) {
	for _, on := range []struct {
		release  int
		stripped bool
	}{{25, true}, {27, false}, {29, false}, {29, true}} {
		t.Run(fmt.Sprintf("OTP %d, stripped %v", on.release, on.stripped), func(t *testing.T) {
			otp, err := vmtest.Release(t, on.release).Private(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if on.stripped {
				strip(t, otp.Emulator())
			}
			nothingExactIsWrongOn(t, otp)
		})
	}
}

// The scenarios for VMs of which less can be seen.
var elsewhereScenarios = strings.Fields(`sleep_ticked timeout_ticked pauses reports asleep later hibernated port_answer`)

func nothingExactIsWrongOn(t *testing.T, otp erlang.OTP) {
	beam := vmtest.StartOn(t, otp, erlang.Options{})
	vmtest.Favour(t, beam)
	s := newWaits(t, beam)
	for _, seqTrace := range []bool{false, true} {
		t.Run(fmt.Sprintf("seq_trace %v", seqTrace), func(t *testing.T) {
			for i, r := range s.runs(t, beam, elsewhereScenarios, seqTrace) {
				t.Run(elsewhereScenarios[i], func(t *testing.T) { r.judge(t, 0.03, 0) })
			}
		})
	}
}

// strip removes the symbols of a program that it does not need to run.
func strip(t *testing.T, path string) {
	t.Helper()
	vmtest.NeedProgram(t, "strip")
	if out, err := exec.Command("strip", path).CombinedOutput(); err != nil {
		t.Fatalf("strip: %v: %s", err, out)
	}
}

// withPeer starts a VM that is connected to another node.
func withPeer(t *testing.T, args ...string) *erlang.VM {
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
	otp := knownOTP(t)
	vmtest.StartOn(t, otp, options("asked@localhost"))
	beam := vmtest.StartOn(t, otp, options("asking@localhost", append(args, "-dist_listen", "false")...))
	vmtest.Call(t, beam, "vm_events", "join", "['asked@localhost']")
	return beam
}

// knownOTP returns an Erlang/OTP with an emulator of its own, of the release whose processes
// beamscope knows the flags of. On others it finds fewer causes.
func knownOTP(t *testing.T) erlang.OTP {
	t.Helper()
	otp, err := vmtest.Release(t, 25).Private(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return otp
}

// A waits is a source that explains spans.
type waits struct{ *source }

func newWaits(t *testing.T, beam *erlang.VM) waits {
	return waits{newSourceEvery(t, vm.Target{PID: beam.PID()}, 500*time.Millisecond, []outcome.Spec{{
		Name: "slow", Span: "slow", BinWidth: 10 * time.Millisecond, Bins: 1000, Detail: outcome.Worst, Explain: true,
	}})}
}

// A told is what a scenario tells of itself, and how its spans were explained.
type told struct {
	spans  []toldSpan
	phases []phase
}

type toldSpan struct {
	id       uint64
	from     int64 // by the VM's clock
	cause    int64 // how long the cause took, as measured, ns
	instance *outcome.Instance
}

// A phase is what a process says that it did; see the module truth.
type phase struct {
	process       trace.PID
	what          string
	of            trace.PID
	from, due, to int64
}

// most is how many scenarios are carried out before their windows are collected.
const most = 8

// runs carries out scenarios, a few at a time.
func (s waits) runs(t *testing.T, beam *erlang.VM, scenarios []string, seqTrace bool) []told {
	t.Helper()
	options := fmt.Sprintf("spans => 2, work => 2, cause => 120, seq_trace => %v", seqTrace)
	var all []told
	for some := range slices.Chunk(scenarios, most) {
		all = append(all, s.some(t, beam, some, options)...)
	}
	return all
}

// some carries out scenarios with options of the module causes.
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
	return all
}

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
		r.spans = append(r.spans, toldSpan{id, from, each[3*i+2], found[id]})
	}
	for _, m := range phaseForm.FindAllStringSubmatch(result, -1) {
		times := vmtest.Integers(t, strings.Join(m[4:], " "))
		r.phases = append(r.phases, phase{readPID(m[1]), m[2], readPID(m[3]), times[0], times[1], times[2]})
	}
	slices.SortFunc(r.phases, func(a, b phase) int { return cmp.Compare(a.from, b.from) })
	return r
}

// readPID returns a pid as Erlang prints it, 0 for anything else.
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

// A statement is what a trace says of some time.
type statement struct {
	kind    trace.Kind
	process trace.PID
	reason  string
	mark    trace.Mark
}

// A verdict is for how long, in nanoseconds, a statement is right, wrong, or says nothing
// that could be either.
type verdict struct{ right, wrong int64 }

// A tally is for how long, in nanoseconds, statements are right and wrong, by their marks.
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

// judge fails if a statement that is marked exact is wrong for longer than a part of a
// span, or less than a part is found of what its process waited for. It returns for how long
// statements are right and wrong.
func (r told) judge(t *testing.T, wrong, found float64) tally {
	sum := make(tally)
	for _, sp := range r.spans {
		tr := sp.instance.Trace
		if tr == nil {
			t.Fatalf("#%d is not explained", sp.id)
		}
		sharesOf(t, *sp.instance)
		duration := sp.instance.End - sp.instance.Start
		verdicts, waited, right := r.verdicts(tr, sp.instance.Start-sp.from)
		limit := int64(wrong*float64(duration)) + 2_000_000
		bad := false
		for what, v := range verdicts {
			sum.add(tally{what.mark: v})
			if what.mark == trace.Exact && v.wrong > limit {
				bad = true
				t.Errorf("#%d: %v of %v (%s), exact, is wrong for %.2f of %.2f ms", sp.id, what.kind, what.process, what.reason, ms(v.wrong), ms(duration))
			}
		}
		if float64(right) < found*float64(waited) {
			bad = true
			t.Errorf("#%d: it waited %.2f ms, and for %.2f of them is said what for", sp.id, ms(waited), ms(right))
		}
		if bad {
			r.log(t, sp)
		}
	}
	return sum
}

func ms(ns int64) float64 { return float64(ns) / 1e6 }

// verdicts judges all that a trace says, by the phases, offset nanoseconds later; how long
// the process of the span waited, and for how much of that it is rightly said what for.
func (r told) verdicts(tr *trace.Trace, offset int64) (verdicts map[statement]verdict, waited, right int64) {
	verdicts = make(map[statement]verdict)
	root := tr.Spans[0]
	begins := r.begins(tr, offset)
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
				continue // it has not begun yet with what is before that message
			}
			switch judged(sp, p) {
			case saysRight:
				v.right += length
				if sp.Parent == 0 && p.waits() {
					right += length
				}
			case saysWrong:
				v.wrong += length
			}
		}
		verdicts[key] = v
	}
	for _, p := range r.parts(root.Process, root.Start-offset, root.End-offset, true) {
		if p.waits() {
			waited += p.to - p.from
		}
	}
	return verdicts, waited, right
}

// runsWithin reports whether a process says that it begins to run in a time.
func (r told) runsWithin(process trace.PID, from, to int64) bool {
	return slices.ContainsFunc(r.phases, func(p phase) bool {
		return p.process == process && p.what == "run" && from <= p.from && p.from < to
	})
}

// statements yields what a trace says of processes.
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
				continue // the collection goes on behind it
			}
			if !yield(sp) {
				return
			}
		}
	}
}

// begins returns when processes begin to wait, in those phases in which a trace says that they
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

// heldUp reports whether a span says that a process could run and was not let.
func heldUp(sp *trace.Span) bool { return sp.Kind == trace.OSWait || sp.Kind == trace.Ready }

// runs reports whether a process that does this does not wait.
func runs(kind trace.Kind) bool {
	return !slices.Contains([]trace.Kind{trace.Waiting, trace.Unexplained, trace.Mailbox, trace.NIF, trace.Port, trace.VMWait, trace.Suspended, trace.Timer, trace.External}, kind)
}

// A part is a time in a phase of a process, or between its phases.
type part struct {
	phase
	from, to int64
	isDue    bool // what it waited for was there
	own      bool // the process is that of the span
	mute     bool // it tells of nothing at all
}

func (p part) waits() bool { return p.what != "" && p.what != "run" && !p.isDue }

// parts divides a time by the phases of a process.
func (r told) parts(process trace.PID, from, to int64, own bool) []part {
	mute := !slices.ContainsFunc(r.phases, func(p phase) bool { return p.process == process })
	var parts []part
	add := func(p phase, until int64, isDue bool) {
		if until = min(until, to); from < until {
			parts = append(parts, part{p, from, until, isDue, own, mute})
			from = until
		}
	}
	for _, p := range r.phases {
		if p.process != process || p.to <= from {
			continue
		}
		add(phase{}, p.from, false)
		add(p, max(p.from, min(p.due, p.to)), false)
		add(p, p.to, true)
	}
	add(phase{}, to, false)
	return parts
}

// A judgement of a statement.
type judgement int

const (
	saysNothing judgement = iota
	saysRight
	saysWrong
)

// ignorant are reasons that say that nothing is known.
var ignorant = regexp.MustCompile(`ran or waited is not known|what it did is not known|not tracked|began to run is not known|overwritten|no longer has|before the recording|not seen|did not see|not certain`)

// judged judges what a span says of a part of the time of a process.
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
	case p.what == "" && (p.own || p.mute): // a moment; or it tells nothing
		return saysNothing
	case p.what == "":
		return says(sp.Kind != trace.Running && sp.Kind != trace.GC && sp.Kind != trace.NIF && sp.Kind != trace.Mailbox)
	case sp.Kind == trace.Mailbox: // of one that is busy
		return saysRight
	case p.what == "run":
		return says(runs)
	case p.isDue && runs:
		return saysRight
	case sp.Kind == trace.GC: // others may have its garbage collected while it waits
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
		return begins(trace.Timer, sp.Reason, "the time of its receive ran out")
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

// log tells what was explained, and what the processes say.
func (r told) log(t *testing.T, sp toldSpan) {
	t.Helper()
	tr := sp.instance.Trace
	start := sp.instance.Start
	depth := make([]int, len(tr.Spans))
	for i, s := range tr.Spans {
		if i > 0 {
			depth[i] = depth[s.Parent] + 1
		}
		t.Logf("#%d %8.2f %8.2f %s%v of %v %s (%v) %s %s", sp.id, ms(s.Start-start), ms(s.End-start), strings.Repeat("  ", depth[i]), s.Kind, s.Process, s.Name, s.Mark, s.Detail, s.Reason)
	}
	for _, p := range r.phases {
		if p.to > sp.from && p.from < sp.from+sp.instance.End-start {
			t.Logf("told %8.2f %8.2f %8.2f %v %s %v", ms(p.from-sp.from), ms(p.due-sp.from), ms(p.to-sp.from), p.process, p.what, p.of)
		}
	}
}
