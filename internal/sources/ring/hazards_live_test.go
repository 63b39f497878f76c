package ring

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/sources/intake"
	"github.com/beamscope/beamscope/internal/sources/ledger"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// A hand reads the ring of a VM with one scheduler, only when the test says so. The VM itself extends
// the lease, because the test may be slow. Delays do not matter: dMax is much longer than the test
// takes, and the test sets the clock of the reader forward.
type hand struct {
	*observed
	t    *testing.T
	beam *erlang.VM
	s    ledger.Schedule
	next uint64

	instances []outcome.Instance // single instances in all windows that were collected
}

// handWindow is the length of the windows of a hand, and longDMax a dMax within such a window.
const (
	handWindow = time.Minute
	longDMax   = 50 * time.Second
)

// unlimited is more slots than any test reads.
const unlimited = 1e15

// byHand starts a VM of this OTP with the given arguments, and begins to read its ring.
func byHand(t *testing.T, otp erlang.OTP, args []string, specs ...outcome.Spec) *hand {
	t.Helper()
	beam := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Ring, Args: append([]string{"+S", "1:1"}, args...)})
	return handOf(t, beam, specs...)
}

// handOf begins to read the ring of a VM.
func handOf(t *testing.T, beam *erlang.VM, specs ...outcome.Spec) *hand {
	t.Helper()
	r, err := findIn(t, beam)
	if err != nil {
		t.Fatal(err)
	}
	h := &hand{observed: newObserved(outcome.VM{PID: beam.PID()}, 0, r, closer{}), t: t, beam: beam}
	h.control = control{sample: 0xffff, process: slices.ContainsFunc(specs, needsProcess)}
	if err := h.begin(monotonic.Now); err != nil {
		t.Fatal(err)
	}
	if h.s, err = ledger.Schedule(nil).With(outcome.Plan{From: h.from, Window: handWindow, Specs: specs}, h.from, 0, nameOf); err != nil {
		t.Fatal(err)
	}
	h.open(ledger.NewBook(h.id, h.from, intake.NewBudget(intake.MaxKept)))
	h.plan(h.s, h.control)
	h.renewed = math.MaxInt64 / 2 // the VM extends the lease
	h.rate, h.credit = unlimited, unlimited
	h.eval("ok")
	return h
}

// leased returns Erlang expressions that extend the lease first.
func (h *hand) leased(format string, args ...any) string {
	return fmt.Sprintf("span_hazards:lease(%v), ", h.control.process) + fmt.Sprintf(format, args...)
}

// eval evaluates Erlang expressions, and reads nothing meanwhile.
func (h *hand) eval(format string, args ...any) string {
	h.t.Helper()
	return vmtest.Eval(h.t, h.beam, h.leased(format, args...))
}

// during evaluates Erlang expressions, and reads the ring all the time meanwhile.
func (h *hand) during(format string, args ...any) {
	h.t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := h.beam.Call(h.t.Context(), "erlang", "apply", vmtest.Fun(h.leased(format, args...)))
		done <- err
	}()
	for {
		select {
		case err := <-done:
			if err != nil {
				h.t.Fatal(err)
			}
			h.read(0)
			return
		default:
			h.read(0)
		}
	}
}

// read reads the ring, at a time that is later than the present.
func (h *hand) read(later time.Duration) {
	h.t.Helper()
	h.poll(monotonic.Now() + int64(later))
	if h.err != nil {
		h.t.Fatal(h.err)
	}
}

// sum reads the ring at a time that is later than the present, and returns the counts of the first
// outcome in the windows up to then that were not collected yet.
func (h *hand) sum(later time.Duration) outcome.Counts {
	h.t.Helper()
	now := monotonic.Now() + int64(later)
	h.poll(now)
	var sum outcome.Counts
	for {
		w := h.s[0].Plan.At(h.next)
		if w.To > now {
			return sum
		}
		h.next++
		cells := h.collect(&h.s[0], w)
		for i := range cells {
			h.instances = cells[i].AppendInstances(h.instances)
		}
		sum = sum.Add(cells[0].Counts)
	}
}

// afterAll is later than the end of all windows in which spans that started until now may time out.
const afterAll = 3 * handWindow

// slots returns the number of slots that were taken since the ring is read.
func (h *hand) slots() uint64 { return h.reader.parts[0].next - h.reader.parts[0].first }

// A recorded is what the VM itself says that is in its ring.
type recorded struct{ starts, successes, failures, torn uint64 }

// recorded returns the records since the ring is read, of all names.
func (h *hand) recorded() recorded {
	h.t.Helper()
	n := vmtest.Integers(h.t, h.eval("span_hazards:records(%d)", h.reader.parts[0].first))
	return recorded{uint64(n[0]), uint64(n[1]), uint64(n[2]), uint64(n[3])}
}

// places is the number of reductions after which a process that starts and ends a span is killed or
// suspended: more than it takes.
const places = 100

// A writer that is killed within a record leaves a slot that is never written. The slot is lost, and
// so are the spans that may have had their end there: none of them times out. All other records
// count. The test kills writers wherever the VM can preempt them.
func TestKilledWriters(t *testing.T) { onEachVM(t, killedWritersOn) }

func killedWritersOn(t *testing.T, otp erlang.OTP) {
	single := spec("a", longDMax)
	single.Detail = outcome.Everything
	for _, test := range []struct {
		what, name, before string
		spec               outcome.Spec
	}{
		{"known name", `<<"a">>`, `beamscope:with_span(<<"a">>, fun() -> ok end)`, spec("a", longDMax)},
		{"new name", `<<"a">>`, `ok`, spec("a", longDMax)},
		{"new name that is no binary", `[$a]`, `ok`, spec("a", longDMax)},
		{"with its process", `<<"a">>`, `ok`, single},
	} {
		t.Run(test.what, func(t *testing.T) {
			h := byHand(t, otp, nil, test.spec)
			h.eval("%s", test.before)
			for range 3 {
				h.during("span_hazards:cut(%s, %d)", test.name, places)
			}
			truth := h.recorded()
			t.Logf("%+v", truth)
			if truth.torn == 0 || truth.starts == truth.successes || truth.successes == 0 {
				t.Fatal("no process was killed within a record, between records, or after them")
			}
			n := h.sum(afterAll)
			if n.Starts != truth.starts || n.Ends != truth.successes || n.Successes != truth.successes || h.lost() != truth.torn || n.Unobserved {
				t.Errorf("%+v", n)
			}
			if open := truth.starts - truth.successes; n.Timeouts != 0 || n.Orphans+n.Lates != 0 || n.Loss.Missed < open || n.Loss.Missed > open+truth.torn {
				t.Errorf("%d spans have no end: %+v", open, n)
			}
			if holding(h.reader) {
				t.Error("there are still holes")
			}
		})
	}
}

// smallRing makes the smallest ring, of 256 slots.
var smallRing = []string{"-beamscope", "ring_slots", "256"}

// spansOf makes a VM start and end n spans called a.
const spansOf = `[beamscope:with_span(<<"a">>, fun() -> ok end) || _ <- lists:seq(1, %d)], ok`

// A writer that is suspended within a record completes it later. If the ring was not full meanwhile,
// nothing is lost. Otherwise it may write into the slot of a later record. All records that are not
// seen are lost, and no span times out. The test suspends writers wherever the VM can preempt them.
func TestSuspendedWriters(t *testing.T) { onBoth(t, suspendedWritersOn) }

func suspendedWritersOn(t *testing.T, otp erlang.OTP) {
	const lap = 1 << minLogSlots
	for _, test := range []struct {
		what  string
		spans []int // started while the writers are suspended; the ring is read after each number of them
	}{
		{"a part of a lap", []int{20}},
		{"some laps", []int{lap / 4, lap / 4, lap / 4, lap / 4, lap / 4, lap / 4}},
		{"some laps that are not read", []int{lap, 2 * lap}},
	} {
		t.Run(test.what, func(t *testing.T) {
			h := byHand(t, otp, smallRing, spec("a", longDMax))
			h.eval(spansOf, 1)
			h.read(0)
			h.eval(`span_hazards:hold(<<"a">>, %d)`, places)
			h.read(0)
			if !holding(h.reader) {
				t.Fatal("no process was suspended within a record")
			}
			spans := 1 + places
			for _, n := range test.spans {
				h.eval(spansOf, n)
				h.read(0)
				spans += n
			}
			h.eval("span_hazards:release()")
			h.read(0)
			for range 8 { // two laps, which show what late writers have overwritten
				h.eval(spansOf, lap/4)
				h.read(0)
				spans += lap / 4
			}
			n := h.sum(afterAll)
			lost := h.lost()
			t.Logf("%d spans, %d records lost: %+v", spans, lost, n)
			if h.records+lost != h.slots() || h.slots() != uint64(2*spans) || holding(h.reader) {
				t.Errorf("%d records seen, %d lost, of %d", h.records, lost, h.slots())
			}
			if exact := test.what == "a part of a lap"; exact != (lost == 0) || exact != (n.Successes == uint64(spans)) {
				t.Errorf("%d records are lost: %+v", lost, n)
			}
			if n.Timeouts+n.Failures+n.Orphans+n.Lates != 0 || n.Successes > uint64(spans) || n.Successes+n.Loss.Missed < uint64(spans) {
				t.Errorf("%d spans: %+v", spans, n)
			}
		})
	}
}

// The number of a lap has 7 bits. After all of them the laps begin again, and each record counts
// once.
func TestManyLaps(t *testing.T) { onEachVM(t, manyLapsOn) }

func manyLapsOn(t *testing.T, otp erlang.OTP) {
	const lap, laps, each = 1 << minLogSlots, lapMask + 4, 100
	h := byHand(t, otp, smallRing, spec("a", longDMax))
	spans := 0
	for h.slots() < lap*laps {
		h.eval(spansOf, each)
		h.read(0)
		spans += each
	}
	if n := h.sum(afterAll); n.Successes != uint64(spans) || n.Starts != n.Successes || n.Ends != n.Successes || n.Instances() != n.Successes || n.Loss.Total() != 0 || n.Unobserved {
		t.Errorf("%d spans: %+v", spans, n)
	}
}

// If a ring is overwritten before it is read, the records that are lost are counted, and the window
// is not observed. No span times out, and the window after it is exact again.
func TestOverrun(t *testing.T) { onBoth(t, overrunOn) }

func overrunOn(t *testing.T, otp erlang.OTP) {
	const n = 3000
	h := byHand(t, otp, smallRing, spec("a", longDMax))
	h.eval(spansOf, n)
	got := h.sum(afterAll)
	if lost := h.lost(); h.records+lost != 2*n || h.records != 1<<minLogSlots {
		t.Errorf("%d records seen, %d lost, of %d", h.records, lost, 2*n)
	}
	if !got.Unobserved || got.Instances() != 0 || got.Loss.Missed != n {
		t.Errorf("%d spans: %+v", n, got)
	}
}

// A torn or senseless record is lost or ignored. It changes no other span, whatever a program leaves
// in the ring.
func TestTornRecord(t *testing.T) { onBoth(t, tornRecordOn) }

func tornRecordOn(t *testing.T, otp erlang.OTP) {
	const (
		begin = `{_, {ring, _, Id, Text}} = beamscope:start_span(<<"a">>), First = span_hazards:head(),
			Time = os:perf_counter() band 16#FFFFFFFFFF, Name = (Text bsl 40) bor Time, Success = 2 bsl 49, Failure = (3 bor 4) bsl 49, Nowhere = (200 bsl 37) bor 5,
			Put = fun(First, Second) -> S = span_hazards:take(), span_hazards:put(S, 0, First), span_hazards:put(S, 1, Second), S end, `
		end     = `, ok = beamscope:end_span(undefined, {ring, element(3, persistent_term:get(beamscope_ring_5)), Id, Text}), ok`
		another = 200 // spans, after the record
		spans   = 1 + 1 + another
	)
	exact := outcome.Counts{Starts: spans, Ends: spans, Successes: spans}
	late, orphan := exact.Add(outcome.Counts{Ends: 1, Lates: 1}), exact.Add(outcome.Counts{Ends: 1, Orphans: 1})
	blind := outcome.Counts{Starts: spans, Ends: spans, Unobserved: true}
	for _, test := range []struct {
		what, write string
		lost        uint64 // records
		want        outcome.Counts
	}{
		{"a slot that is not written", `span_hazards:take()`, 1, exact},
		{"the first word alone", `span_hazards:put(span_hazards:take(), 0, Name)`, 1, exact},
		{"the second word alone", `span_hazards:put(span_hazards:take(), 1, Success bor Id)`, 1, exact},
		{"a failure without its class", `Put(Name, Failure bor Id)`, 1, exact},
		{"the extension alone", `span_hazards:extend(span_hazards:take(), 7)`, 1, exact},
		{"words of a later lap", `Put((2 bsl 52) bor Name, (2 bsl 52) bor Success bor Id)`, 1, blind},
		{"neither an event nor a span", `Put(Name, 0)`, 1, blind},
		{"a span that nobody ends", `Put(Name, Id)`, 0, exact.Add(outcome.Counts{Starts: 1, Timeouts: 1})},
		{"an end of its own slot", `Put(Name, Success bor (First + 1))`, 0, late},
		{"an end of a slot to come", `Put(Name, Success bor (First + 100))`, 0, late},
		{"an end of a ring that does not exist", `Put(Name, Success bor Nowhere)`, 0, orphan},
		{"an end of the slot 0", `Put(Name, Success)`, 0, orphan},
		{"a failure of a class that does not exist", `S = span_hazards:take(), span_hazards:extend(S, 4000), span_hazards:put(S, 0, Name), span_hazards:put(S, 1, Failure bor Nowhere)`, 0, orphan},
		{"a name that does not exist", `Put((4000 bsl 40) bor Time, Success bor Nowhere)`, 0, exact},
	} {
		t.Run(test.what, func(t *testing.T) {
			h := byHand(t, otp, nil, spec("a", longDMax))
			h.eval(spansOf, 1)
			h.read(0)
			h.read(0) // the name of its spans is known from now on
			h.eval("%s", begin+test.write+end)
			h.read(0)
			h.eval(spansOf, another)
			h.read(0)
			n := h.sum(afterAll)
			if lost := h.lost(); lost != test.lost || holding(h.reader) || !n.Unobserved && n.Loss.Missed > lost {
				t.Errorf("%d records are lost, want %d", lost, test.lost)
			}
			if n.Bins, n.Loss = nil, (outcome.Loss{}); !cmp.Equal(test.want, n) {
				t.Errorf("-want +got:\n%s", cmp.Diff(test.want, n))
			}
		})
	}
}

// The class of a failure reaches the collector whole if it has at most 255 bytes, and otherwise its
// first 255 bytes do. A process and a parent reach it too. If the table of texts has no room for a
// class, the failure says so.
func TestFailureClasses(t *testing.T) { onEachVM(t, failureClassesOn) }

func failureClassesOn(t *testing.T, otp erlang.OTP) {
	const most = 255
	long := strings.Repeat("0123456789", 30)
	a := spec("a", longDMax)
	a.Detail = outcome.Everything
	h := byHand(t, otp, nil, a)
	classes := []struct{ term, want string }{
		{`<<>>`, ""}, {`oops`, "oops"}, {`"text"`, "text"}, {`{error, 7}`, "{error,7}"},
		{`<<16#e9/utf8>>`, "é"}, {`<<255, 254>>`, "\xff\xfe"},
		{`binary_to_atom(binary:copy(<<16#e9/utf8>>, 127))`, strings.Repeat("é", 127)},
		{`binary_to_atom(binary:copy(<<16#e9/utf8>>, 200))`, strings.Repeat("é", 200)[:most]},
		{`lists:duplicate(300, $x)`, strings.Repeat("x", most)},
	}
	for _, size := range []int{1, 6, 7, 8, 13, 14, 15, most - 3, most - 2, most - 1, most, most + 1, 300} {
		classes = append(classes, struct{ term, want string }{
			fmt.Sprintf(`binary:part(binary:copy(<<"0123456789">>, 30), 0, %d)`, size), long[:min(size, most)],
		})
	}
	var pids []string
	for _, c := range classes {
		pids = append(pids, h.eval(`{_, Parent} = beamscope:start_span(<<"a">>), {_, Span} = beamscope:start_span(<<"a">>, #{parent => Parent}),
			{_, Monitor} = spawn_monitor(fun() -> ok = beamscope:fail_span(Span, %s) end),
			receive {'DOWN', Monitor, process, _, normal} -> ok end, ok = beamscope:end_span(undefined, Parent), self()`, c.term))
		h.read(0)
	}
	const full = 4000 // classes, of which the table has no room for some
	h.during(`[begin {_, S} = beamscope:start_span(<<"a">>), ok = beamscope:fail_span(S, {class, N}) end || N <- lists:seq(1, %d)], ok`, full)
	n := h.sum(afterAll)
	all := uint64(len(classes))
	if n.Successes != all || n.Failures != all+full || n.Instances() != 2*all+full || n.Loss.Total() != 0 || n.Unobserved || uint64(len(h.instances)) != n.Instances() {
		t.Fatalf("%d instances, %+v", len(h.instances), n)
	}
	for i, c := range classes {
		failed, parent := h.instances[2*i], h.instances[2*i+1]
		if failed.Status != outcome.Failure || failed.Class != c.want || failed.Parent != parent.ID || parent.ID == 0 ||
			failed.Process.String() != pids[i] || parent.Process != failed.Process {
			t.Errorf("%s of %s: %+v and %+v, want the class %q", c.term, pids[i], failed, parent, c.want)
		}
	}
	rest := h.instances[2*all:]
	if first, last := rest[0].Class, rest[full-1].Class; first != "{class,1}" || last != noClass {
		t.Errorf("classes from %q to %q", first, last)
	}
}

// A ring keeps its place: collections, hibernation, new code, another decision about the carrier and a
// restart of the application do not move it. All spans go on being counted.
func TestRingStaysWhereItIs(t *testing.T) { onEachVM(t, ringStaysWhereItIsOn) }

func ringStaysWhereItIsOn(t *testing.T, otp erlang.OTP) {
	h := byHand(t, otp, nil, spec("a", longDMax))
	const each = 50
	for i, step := range []string{
		`ok`,
		`[garbage_collect(P) || P <- processes()], ok`,
		`{P, M} = spawn_monitor(fun() -> erlang:hibernate(erlang, exit, [woken]) end), P ! wake, receive {'DOWN', M, process, _, woken} -> ok end`,
		`[begin code:purge(M), {module, M} = code:load_file(M), code:purge(M) end || M <- [beamscope, beamscope_ring, beamscope_facilities]], ok`,
		`beamscope_facilities:refresh(), ok`,
		`ok = application:start(beamscope), ok = application:stop(beamscope), ok = application:unload(beamscope), ok = application:start(beamscope)`,
	} {
		h.eval("%s", step)
		h.eval(spansOf, each)
		h.read(0)
		if want := uint64(2 * each * (i + 1)); h.records != want {
			t.Errorf("after %s: %d records, want %d", step, h.records, want)
		}
	}
	if r, err := findIn(t, h.beam); err != nil || r.address != h.reader.address {
		t.Errorf("%v", err)
	}
}

// Two processes may add the same name at the same time. Then the table has it twice, and the spans of
// both belong to the same outcome.
func TestNameTwiceInTheTable(t *testing.T) { onBoth(t, nameTwiceInTheTableOn) }

func nameTwiceInTheTableOn(t *testing.T, otp erlang.OTP) {
	h := byHand(t, otp, nil, spec("a", longDMax))
	const each = 10
	numbers := make(map[string]bool)
	for range 3 {
		numbers[h.eval(`{_, {ring, _, _, Number} = S} = beamscope:start_span("a"), ok = beamscope:end_span(undefined, S), Number`)] = true
		h.eval(spansOf, each)
		h.eval(`persistent_term:erase({beamscope_ring_5, <<"a">>}), ok`)
		h.read(0)
	}
	if n := h.sum(afterAll); len(numbers) != 3 || n.Successes != 3*(each+1) || n.Loss.Total() != 0 || n.Unobserved {
		t.Errorf("numbers %v: %+v", numbers, n)
	}
}
