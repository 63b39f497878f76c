package bpf_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// A delivery is the set of events that messages have.
type delivery struct{ Sent, Queued, Received uint64 }

// A messageKind says which events there are of each message of a kind, and of what comes
// first; and which ones functions report that stand in for probes.
type messageKind struct{ each, first, standIn delivery }

// messageKinds are the kinds of messages in vm_load:receivers/1.
func messageKinds() map[string]messageKind {
	all, silent, unseen, nothing := delivery{1, 1, 1}, delivery{0, 1, 1}, delivery{0, 0, 1}, delivery{}
	return map[string]messageKind{
		"send":          {all, nothing, all},
		"named":         {all, nothing, all},
		"to_self":       {all, nothing, all},
		"cast":          {all, nothing, all},
		"call_infinity": {all, all, all}, // gen_server:start gets an answer
		"call_timeout":  {silent, all, unseen},
		"send_request":  {silent, all, unseen},
		"send_after":    {silent, nothing, silent},
		"port":          {silent, silent, silent}, // so does open_port
		"down":          {silent, nothing, unseen},
		"exit":          {silent, nothing, unseen},
	}
}

// Every kind of message has the documented events, and exactly as many as there are messages.
func TestKindsOfMessages(t *testing.T) {
	const n = 20
	vm := vmtest.Start(t, oneClock())
	kinds := slices.Sorted(maps.Keys(messageKinds()))
	a := newAnswer(t, vmtest.Call(t, vm, "vm_load", "receivers", "[["+strings.Join(kinds, ",")+"]]"))
	pids := make([]string, len(kinds))
	var outcomes []bpf.Outcome
	for i, kind := range kinds {
		pid := fmt.Sprintf(`"<%d.%d.%d>"`, a.number(), a.number(), a.number())
		pids[i] = pid
		at := func(probe string) dtrace.Expr {
			e, err := dtrace.ParseExpr(fmt.Sprintf("%s[receiver=%s]", probe, pid))
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		for _, ends := range [][2]string{{"message-send", "message-queued"}, {"message-queued", "message-receive"}} {
			o := ruled(dtrace.Rule{Start: at(ends[0]), End: at(ends[1]), Key: dtrace.Key{Start: "receiver", End: "receiver"}, Pairing: dtrace.FIFO}, time.Minute)
			o.Name = kind + " " + ends[0]
			outcomes = append(outcomes, o)
		}
	}
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: outcomes, Window: int64(time.Second)})
	c.Observe(vm)
	c.Call(vm, "vm_load", "deliver", fmt.Sprintf(`[[list_to_pid(P) || P <- [%s]],%d]`, strings.Join(pids, ","), n))
	for i, kind := range kinds {
		nothingLost(t, c, 2*i, vm)
		nothingLost(t, c, 2*i+1, vm)
		hop, wait := c.Total(2*i, vm.PID()), c.Total(2*i+1, vm.PID())
		got := delivery{hop.Starts, hop.Ends, wait.Ends}
		k := messageKinds()[kind]
		want := delivery{ // and one message that requests the work
			1 + k.first.Sent + n*k.each.Sent,
			1 + k.first.Queued + n*k.each.Queued,
			1 + k.first.Received + n*k.each.Received,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", kind, diff)
		}
		if wait.Starts != hop.Ends {
			t.Errorf("%s: %d messages queued, or %d", kind, wait.Starts, hop.Ends)
		}
	}
}

// A backlog is a number of messages to one process, and when the program sent and took them.
type backlog struct {
	process     uint64
	fetched     int64
	sent, taken []interval
}

// The outcomes of backlogs.
const (
	hopOutcome = iota
	mailboxOutcome
	messageOutcome
)

// attempts is the maximum number of times that messages without a token are sent until none is lost
// as unpaired: some are lost if the operating system interrupts a sender before its message is in
// the queue.
const attempts = 5

// inferredBacklog is a backlogOf messages without tokens.
func inferredBacklog(t *testing.T, n int, order string) (backlog, [3][]bpf.Instance) {
	t.Helper()
	for range attempts {
		b, instances, exact := backlogOf(t, n, order, 0)
		if exact != [3]uint64{} {
			t.Errorf("%d are not inferred, and no message has a token", exact)
		}
		if len(instances[hopOutcome]) == n && len(instances[messageOutcome]) == n {
			return b, instances
		}
		t.Logf("%d and %d of %d messages are paired", len(instances[hopOutcome]), len(instances[messageOutcome]), n)
	}
	t.Fatalf("messages are lost as unpaired %d times in a row", attempts)
	return backlog{}, [3][]bpf.Instance{}
}

// backlogOf makes messages wait for their receiver, and returns them with the instances of the
// three outcomes, and the number of the VM's messages that are not inferred.
func backlogOf(t *testing.T, n int, order string, label int) (b backlog, instances [3][]bpf.Instance, exact [3]uint64) {
	t.Helper()
	vm := vmtest.Start(t, oneClock())
	var outcomes []bpf.Outcome
	for _, name := range []string{"hop", "mailbox", "message"} {
		outcomes = append(outcomes, builtin(t, name, "receiver"))
	}
	c, streamed := collected(t, vm, outcomes...)
	a := vmLoad(t, c, vm, "backlog", fmt.Sprintf("[#{messages=>%d,wait_ms=>100,order=>%s,label=>%d}]", n, order, label))
	all := streamed()
	b = backlog{a.process(), a.number(), a.intervals(n), a.intervals(n)}
	for i := range instances {
		nothingLost(t, c, i, vm)
		total := c.Total(i, vm.PID())
		exact[i] = total.Successes - total.Inferred
		got, want := groupsOf(c, i)[b.process].Successes, uint64(n)+1 // one requests the work
		if got > want || got+total.Unpaired < want {
			t.Errorf("%s: %d messages, and %d unpaired of the whole VM; want %d", outcomes[i].Name, got, total.Unpaired, want)
		}
		if instances[i] = instancesOf(all, i, b.process); len(instances[i]) > 0 {
			instances[i] = instances[i][1:]
		}
	}
	return b, instances, exact
}

// Delays of messages that are taken in order equal those that the program measures, from each timed
// send to the timed receipt.
func TestMessagesAgainstProgram(t *testing.T) {
	b, instances := inferredBacklog(t, 50, "in_order")
	var slack []int64
	for i, m := range instances[messageOutcome] {
		slack = append(slack, bracket(t, "message", i, m, b.taken[i].from-b.sent[i].to, b.taken[i].to-b.sent[i].from))
	}
	t.Logf("delays of %d ns as a median, known to %d ns", median(lengths(instances[messageOutcome])), median(slack))
}

// With seq_trace tokens the delays are right for each message, even if the receiver takes them in
// another order.
func TestTokensTellMessagesApart(t *testing.T) {
	const n = 50
	b, instances, exact := backlogOf(t, n, "reverse", 17)
	if exact != [3]uint64{n, n, n} {
		t.Fatalf("%d are not inferred, of %d messages with tokens", exact, n)
	}
	var slack []int64
	for i := range n {
		sent, taken := b.sent[i], b.taken[i]
		bracket(t, "hop", i, instances[hopOutcome][i], 0, b.fetched-sent.from)
		slack = append(slack, bracket(t, "message", i, instances[messageOutcome][i], taken.from-sent.to, taken.to-sent.from))
		if i < n-1 { // the last one was taken before
			bracket(t, "mailbox", i, instances[mailboxOutcome][i], taken.from-b.fetched, taken.to-sent.from)
		}
	}
	t.Logf("message: delays of %d ns as a median, known to %d ns; mailbox: %d ns", median(lengths(instances[messageOutcome])), median(slack), median(lengths(instances[mailboxOutcome])))
}

// Without tokens, messages that are taken in another order are confused, and only the sum of their
// delays is right.
func TestOrderIsInferred(t *testing.T) {
	const n = 50
	b, instances := inferredBacklog(t, n, "reverse")
	var lo, hi int64
	wrong := 0
	for i := range n {
		least, most := b.taken[i].from-b.sent[i].to, b.taken[i].to-b.sent[i].from
		lo, hi = lo+least, hi+most
		if delay := instances[messageOutcome][i].End - instances[messageOutcome][i].Start; delay < least || delay > most {
			wrong++
		}
	}
	got := sum(lengths(instances[messageOutcome]))
	if got < lo || got > hi {
		t.Errorf("%d ns together, which is not between %d and %d", got, lo, hi)
	}
	if wrong == 0 {
		t.Error("no delay is mixed up: it would not have to be inferred")
	}
	t.Logf("%d of %d delays are those of other messages; %d ns together, by the program %d to %d", wrong, n, got, lo, hi)
}

// If messages are paired in their order and one is left over at each step, the order is trusted
// only for dMax. After that, messages count neither as delays nor as timeouts.
func TestOrderIsNotTrustedForLong(t *testing.T) {
	const rounds, dMax = 30, 100 * time.Millisecond
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	o := builtin(t, "mailbox", "receiver")
	o.DMax, o.BinWidth = int64(dMax), int64(dMax/1000)
	c, streamed := collected(t, vm, o)
	process := vmLoad(t, c, vm, "junk", fmt.Sprintf("[#{rounds=>%d,pause_ms=>20}]", rounds)).process()
	instances := instancesOf(streamed(), 0, process)
	if len(instances) == 0 {
		t.Fatal("no message is paired at first")
	}
	for _, i := range instances {
		if i.Status != bpf.Success || i.End > instances[0].Start+o.DMax {
			t.Errorf("status %v, %v after the first message came", i.Status, time.Duration(i.End-instances[0].Start))
		}
	}
	total := c.Total(0, vm.PID())
	if most := uint64(2*rounds - len(instances)); total.Unpaired < most/2 || total.Unpaired > most {
		t.Errorf("%d of at most %d messages are unpaired", total.Unpaired, most)
	}
}

// Messages time out in a mailbox from which no receive has taken any, even if they are paired in
// their order.
func TestMessagesThatNobodyTakesTimeOut(t *testing.T) {
	const messages, dMax = 10, 100 * time.Millisecond
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	o := builtin(t, "mailbox", "receiver")
	o.DMax, o.BinWidth = int64(dMax), int64(dMax/1000)
	c, streamed := collected(t, vm, o)
	answer := newAnswer(t, c.Call(vm, "erlang", "apply", vmtest.Fun(fmt.Sprintf(
		`P = spawn(fun() -> receive wanted -> ok end end), [P ! N || N <- lists:seq(1, %d)], timer:sleep(300), P`, messages))))
	instances := instancesOf(streamed(), 0, answer.process())
	for _, i := range instances {
		if i.Status != bpf.Timeout {
			t.Errorf("status %v", i.Status)
		}
	}
	if len(instances) != messages {
		t.Errorf("%d of %d messages have timed out", len(instances), messages)
	}
}

// bracket checks that a delay lies between two delays that the program knows, and returns the
// distance of those.
func bracket(t *testing.T, what string, n int, i bpf.Instance, lo, hi int64) int64 {
	t.Helper()
	if delay := i.End - i.Start; delay < lo || delay > hi {
		t.Errorf("%s %d: %d ns is not between %d and %d", what, n, delay, lo, hi)
	}
	return hi - lo
}
