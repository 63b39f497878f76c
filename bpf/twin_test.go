package bpf_test

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/procname"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/sources/target"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// The two ways to observe a VM with probes: by its probes, or by functions that stand in for them.
const (
	byProbes = iota
	byFunctions
)

// twinTargets returns a VM with probes as the target of each way. Both know the addresses of messages.
func twinTargets(t testing.TB, v *erlang.VM) [2]bpf.Target {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	found, _, err := vm.Find(t.Context(), vm.Target{PID: v.PID()})
	must(err)
	file, err := found[0].Open(t.Context())
	must(err)
	defer file.Close()
	probed := vmtest.Target(t, v)
	messages, err := new(procname.Layouts).Messages(t.Context(), found[0].Process, file)
	must(err)
	for site, m := range messages {
		probed.Messages[site] = bpf.Message(m)
	}
	image, err := vm.ImageAt(file, placesOf(t, probed.Path, file))
	must(err)
	standing := target.Of(probed.Path, image)
	standing.PID = v.PID()
	return [2]bpf.Target{byProbes: probed, byFunctions: standing}
}

// Twins observe the same outcomes of one VM at the same time in both ways.
type twins struct {
	vm         *erlang.VM
	collector  [2]*vmtest.Collector
	attachment [2]*bpf.Attachment
	told       [2]func() []bpf.Instance
}

func newTwins(t *testing.T, v *erlang.VM, outcomes [2][]bpf.Outcome) *twins {
	t.Helper()
	w := &twins{vm: v}
	targets := twinTargets(t, v)
	for way := range targets {
		for i := range outcomes[way] {
			outcomes[way][i].Stream = bpf.StreamAll
		}
		w.collector[way] = vmtest.NewCollector(t, bpf.Options{Outcomes: outcomes[way], Window: int64(time.Second / 2), RingBytes: 1 << 24})
		w.told[way] = w.collector[way].Streamed()
	}
	w.stopped(t, func() {
		for way, c := range w.collector {
			a, err := c.Attach(t.Context(), targets[way])
			if err != nil {
				t.Fatal(err)
			}
			w.attachment[way] = a
		}
		for _, c := range w.collector { // there is room for few windows that have not been read
			c.ReadTo(monotonic.Now())
		}
	})
	return w
}

// stopped does something while the VM does nothing, which both collectors then see or do not see.
func (w *twins) stopped(t *testing.T, do func()) {
	t.Helper()
	vmtest.AwaitIdle(t, w.vm)
	if err := unix.Kill(w.vm.PID(), unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Kill(w.vm.PID(), unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}()
	do()
}

// while has both collectors observe what the VM does, and waits until all instances have ended.
func (w *twins) while(t *testing.T, work func(c *vmtest.Collector)) {
	t.Helper()
	w.collector[byFunctions].While(func() error {
		work(w.collector[byProbes])
		return nil
	})
	w.stopped(t, func() {
		for _, a := range w.attachment {
			if err := a.Detach(); err != nil {
				t.Fatal(err)
			}
		}
	})
	for _, c := range w.collector {
		c.ReadAll()
	}
}

// compare checks that both ways count the same events and instances of each outcome, and that the times of
// each instance are in order. Functions report fewer starts of mailbox, and fewer ends of hop: silent is the
// number of messages that they miss.
func (w *twins) compare(t *testing.T, silent uint64) {
	t.Helper()
	instances := [2][]bpf.Instance{w.told[byProbes](), w.told[byFunctions]()}
	for i, o := range w.collector[byProbes].Opts.Outcomes {
		var got [2]bpf.Counters
		for way, c := range w.collector {
			nothingLost(t, c, i, w.vm)
			got[way] = c.Total(i, w.vm.PID()).Counters
			// Events that are not of an outcome differ: the places of the functions have others. Only with
			// probes, some messages are paired by their order.
			got[way].Dropped, got[way].Inferred = 0, 0
		}
		if o.Name == "mailbox" {
			got[byFunctions].Starts += silent
			got[byFunctions].Successes += silent
			got[byFunctions].Orphans -= silent
		}
		if o.Name == "hop" {
			got[byFunctions].Ends += silent
			got[byFunctions].Orphans += silent
		}
		if diff := gocmp.Diff(got[byProbes], got[byFunctions]); diff != "" || got[byProbes].Successes == 0 {
			t.Errorf("%s: -probes +functions:\n%s%+v", o.Name, diff, got[byProbes])
		}
		comparePairs(t, o.Name, ofOutcome(instances[byProbes], i), ofOutcome(instances[byFunctions], i))
	}
}

// A twinOrder says on which side of the event by probes the event by functions lies, for the starts and
// the ends of the instances of an outcome. A thread passes both places one after the other, so the order
// is the same for every instance, on a busy machine too.
type twinOrder struct {
	start, end side
	nameless   bool // functions do not report the process
}

// A side is where an event by functions lies.
type side int

const (
	earlier   side = -1
	samePlace side = 0 // both ways have the event at the same place, so none of them is first
	later     side = 1
)

// holds reports whether an event by functions lies on this side of the event by probes.
func (s side) holds(probed, standing int64) bool {
	return s == samePlace || s == earlier && standing <= probed || s == later && standing >= probed
}

// twinOrders returns the order for each outcome. If functions start later and end earlier, each instance
// by functions lies within the one by probes.
func twinOrders() map[string]twinOrder {
	return map[string]twinOrder{
		// The places are the first instructions behind the probes that the kernel emulates.
		"gc":       {start: later, end: later},
		"gc-minor": {start: later, end: later},
		"gc-major": {start: later, end: later},
		// The spawn is at the branch before its probe, and the exit at the entry of the function with the probe.
		"lifetime": {start: earlier, end: earlier},
		// The VM calls the function between the two probes.
		"dirty-nif": {start: later, end: earlier},
		"file-io":   {start: later, end: earlier},
		// The sender calls one function behind the probe. The other one contains the probe of the receiver.
		"message": {start: later, end: earlier},
		// The receiver takes the messages out of its queue, and then handles each one: there is the probe.
		"hop": {start: later, end: earlier},
		// The sender calls the function, and the probe is where the receiver fetches the message.
		"mailbox": {start: earlier, end: earlier},
		// The start is the send of a message. Both ways have the same function for the end.
		"call": {start: later, end: samePlace},
		// The places are at the branches before the probes.
		"port-busy": {start: earlier, end: earlier},
		"dist-busy": {start: earlier, end: earlier, nameless: true},
		// Both ways have the return of erts_schedule for the start. Its entry is before the probe in it.
		"run": {start: samePlace, end: earlier},
	}
}

// comparePairs checks that both ways have the same instances of an outcome, each of the same process, and
// that their starts and ends are in the order of the outcome. It logs how the times differ.
func comparePairs(t *testing.T, name string, probed, standing []bpf.Instance) {
	t.Helper()
	order, ok := twinOrders()[name]
	if !ok {
		t.Fatalf("%s has no order", name)
	}
	for i := range probed {
		if order.nameless {
			probed[i].Process = 0
		}
	}
	sortPairs(probed)
	sortPairs(standing)
	if name == "mailbox" {
		probed = withCounterpart(probed, standing)
	}
	if len(probed) != len(standing) || len(probed) == 0 {
		t.Errorf("%s: %d instances by probes, %d by functions", name, len(probed), len(standing))
		return
	}
	var starts, ends, more []int64
	for i, p := range probed {
		s := standing[i]
		inOrder := order.end.holds(p.End, s.End) || p.Status == bpf.Timeout // these end dMax after their start
		if p.Process != s.Process || p.Status != s.Status || !order.start.holds(p.Start, s.Start) || !inOrder {
			t.Errorf("%s: by probes of %s from %d to %d, by functions of %s from %d to %d: not in the order %+v",
				name, pidText(p.Process), p.Start, p.End, pidText(s.Process), s.Start, s.End, order)
			return
		}
		starts, ends = append(starts, s.Start-p.Start), append(ends, s.End-p.End)
		more = append(more, s.End-s.Start-(p.End-p.Start))
	}
	t.Logf("%s: %d instances of %d ns by probes; by functions they start %d ns later, end %d ns later, and are %d ns longer, as medians",
		name, len(probed), median(lengths(probed)), median(starts), median(ends), median(more))
}

// withCounterpart returns the instances by probes that functions report too, if functions end earlier: no
// other instance of the process ends between the two ends.
func withCounterpart(probed, standing []bpf.Instance) []bpf.Instance {
	var with []bpf.Instance
	for _, s := range standing {
		i := slices.IndexFunc(probed, func(p bpf.Instance) bool { return p.Process == s.Process && p.End >= s.End })
		if i < 0 {
			return with
		}
		with, probed = append(with, probed[i]), probed[i+1:]
	}
	return with
}

// sortPairs sorts instances of an outcome in an order that is the same in both ways.
func sortPairs(all []bpf.Instance) {
	slices.SortStableFunc(all, func(a, b bpf.Instance) int {
		return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(a.End, b.End))
	})
}

// twinOutcome returns a built-in outcome as each way observes it. Only exported functions report the end
// of a slice with its reductions, but a probe reports the same event.
func twinOutcome(t testing.TB, name, group string) [2]bpf.Outcome {
	t.Helper()
	o := builtin(t, name, group)
	const dMax = 3 * time.Second
	o.DMax, o.BinWidth = int64(dMax), int64(dMax)/int64(o.Bins)
	both := [2]bpf.Outcome{o, o}
	if name == "run" {
		rule := *o.Rule
		end, err := dtrace.ParseExpr("process-unscheduled")
		if err != nil {
			t.Fatal(err)
		}
		rule.End = end
		both[byProbes].Rule = &rule
	}
	return both
}

// twinOutcomes returns outcomes as each way observes them.
func twinOutcomes(t testing.TB, names ...string) (outcomes [2][]bpf.Outcome) {
	t.Helper()
	for _, name := range names {
		for way, o := range twinOutcome(t, name, "") {
			outcomes[way] = append(outcomes[way], o)
		}
	}
	return outcomes
}

// On a VM with probes, functions that stand in for them count the same of one run of a known load: all
// events and instances of each outcome that has events at other places where the VM has no probes. Of
// run-wait and the other events of call, both ways have the same functions.
func TestTwins(t *testing.T) { vmtest.OnEach(t, twinsOn) }

func twinsOn(t *testing.T, otp erlang.OTP) {
	if !slices.Contains(vmtest.StockReleases(), vm.ReleaseOf(otp.Emulator())) {
		return // no build without probes is known, so nobody observes it by functions
	}
	const lives, heaps, calls, each = 500, 20, 200, 20
	v := vmtest.StartOn(t, otp, oneClock("+S", "1:1"))
	names := []string{"gc", "gc-minor", "gc-major", "lifetime", "dirty-nif", "file-io", "hop", "message", "mailbox", "call", "port-busy", "run"}
	w := newTwins(t, v, twinOutcomes(t, names...))
	kinds := slices.Sorted(maps.Keys(messageKinds()))
	w.while(t, func(c *vmtest.Collector) {
		vmLoad(t, c, v, "garbage", "[300]")
		vmLoad(t, c, v, "large_heaps", fmt.Sprintf("[%d]", heaps))
		vmLoad(t, c, v, "lives", fmt.Sprintf("[lists:duplicate(%d,0)]", lives))
		vmLoad(t, c, v, "reads", fmt.Sprintf("[%q,300]", filepath.ToSlash(t.TempDir())))
		vmLoad(t, c, v, "backlog", "[#{messages=>200,wait_ms=>50,order=>reverse,label=>0}]")
		vmLoad(t, c, v, "gather", "[#{senders=>4,each=>50,buffers=>false}]")
		vmLoad(t, c, v, "calls", fmt.Sprintf("[lists:duplicate(%d,{0,infinity}) ++ lists:duplicate(%[1]d,{0,60000})]", calls))
		vmLoad(t, c, v, "congested_port", "[100]")
		c.Call(v, "erlang", "apply", vmtest.Fun(fmt.Sprintf("vm_load:deliver(vm_load:receivers([%s]), %d)", strings.Join(kinds, ","), each)))
	})
	// The first messages say that processes have ended, and those of the calls are replies to an alias.
	silent := 1 + heaps + lives + calls
	for _, k := range messageKinds() {
		silent += int(k.each.Queued-k.standIn.Queued) * each
	}
	w.compare(t, uint64(silent))
}

// Messages to a process that exits before it receives them time out in both ways, although the process
// fetches them.
func TestTwinsOfAbandonedMessages(t *testing.T) {
	vmtest.OnEach(t, func(t *testing.T, otp erlang.OTP) {
		if !slices.Contains(vmtest.StockReleases(), vm.ReleaseOf(otp.Emulator())) {
			return
		}
		const rounds, each, down = 5, 50, 1
		v := vmtest.StartOn(t, otp, oneClock("+S", "1:1"))
		w := newTwins(t, v, twinOutcomes(t, "hop"))
		w.while(t, func(c *vmtest.Collector) {
			for range rounds {
				vmLoad(t, c, v, "abandoned", fmt.Sprintf("[%d]", each))
			}
			vmLoad(t, c, v, "gather", "[#{senders=>4,each=>50,buffers=>false}]")
		})
		w.compare(t, rounds*down)
		if n := w.collector[byFunctions].Total(0, v.PID()).Timeouts; n != rounds*each {
			t.Errorf("%d messages time out, want %d", n, rounds*each)
		}
	})
}

// Functions that stand in for probes report the kinds of messages that are documented: in VMs without
// probes, and in those with probes too.
func TestKindsOfMessagesByFunctions(t *testing.T) {
	onStock(t, func(t *testing.T, otp erlang.OTP) {
		v := vmtest.StartOn(t, otp, oneClock())
		kindsByFunctions(t, v, vmtest.Target(t, v))
	})
	t.Run("with probes", func(t *testing.T) {
		vmtest.OnEach(t, func(t *testing.T, otp erlang.OTP) {
			v := vmtest.StartOn(t, otp, oneClock())
			kindsByFunctions(t, v, twinTargets(t, v)[byFunctions])
		})
	})
}

func kindsByFunctions(t *testing.T, v *erlang.VM, to bpf.Target) {
	const n = 20
	kinds := slices.Sorted(maps.Keys(messageKinds()))
	a := newAnswer(t, vmtest.Call(t, v, "vm_load", "receivers", "[["+strings.Join(kinds, ",")+"]]"))
	pids, processes := make([]string, len(kinds)), make([]uint64, len(kinds))
	for i := range kinds {
		same := *a
		processes[i] = a.process()
		pids[i] = fmt.Sprintf(`"<%d.%d.%d>"`, same.number(), same.number(), same.number())
	}
	c := vmtest.NewCollector(t, bpf.Options{
		Outcomes: []bpf.Outcome{builtin(t, "message", "receiver"), builtin(t, "mailbox", "receiver"), builtin(t, "hop", "receiver")},
		Window:   int64(time.Second),
	})
	if _, err := c.Attach(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	c.Call(v, "vm_load", "deliver", fmt.Sprintf(`[[list_to_pid(P) || P <- [%s]],%d]`, strings.Join(pids, ","), n))
	nothingLost(t, c, 0, v)
	nothingLost(t, c, 1, v)
	exactHops(t, c, v, 2)
	for i, kind := range kinds {
		k := messageKinds()[kind]
		got := [3]uint64{groupsOf(c, 0)[processes[i]].Successes, groupsOf(c, 1)[processes[i]].Successes, groupsOf(c, 2)[processes[i]].Successes}
		want := [3]uint64{ // and one message that says what to do
			1 + k.first.Sent + n*k.standIn.Sent,
			1 + k.first.Queued + n*k.standIn.Queued,
			1 + k.first.Sent + n*k.standIn.Sent,
		}
		if got != want {
			t.Errorf("%s: %d instances of message, mailbox and hop, want %d", kind, got, want)
		}
	}
}

// A connection to another node is busy as often, and as long, by functions as by probes.
func TestTwinsOfBusyDistribution(t *testing.T) {
	vmtest.OnEach(t, func(t *testing.T, otp erlang.OTP) {
		nodes := newCongested(t, otp)
		w := newTwins(t, nodes.sender, twinOutcomes(t, "dist-busy"))
		w.while(t, func(c *vmtest.Collector) {
			for range 3 {
				nodes.congest(t, c)
			}
		})
		w.compare(t, 0)
	})
}
