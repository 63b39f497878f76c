package recording_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/explain/trace"
	"github.com/beamscope/beamscope/internal/explain/trace/tracetest"
	"github.com/beamscope/beamscope/internal/files/recording"
)

var (
	header = recording.Header{
		Time: time.Date(2026, 11, 21, 1, 45, 0, 123, time.UTC), Monotonic: 77, Note: "a note",
		Facts: []recording.Fact{{Name: "kernel", Text: "6.1"}},
	}
	config = recording.Config{
		Files: []recording.File{{Name: "scope.yaml", Text: []byte("window: 1s\n")}},
		Plan: outcome.Plan{From: 100, Window: time.Second, Specs: []outcome.Spec{
			{Name: "a", Span: "sa", BinWidth: time.Millisecond, Bins: 5, ExitFails: true, Detail: outcome.Worst, Explain: true},
			{Name: "b", Wrapper: "wb", BinWidth: time.Microsecond, Bins: 2},
			{Name: "c", VM: outcome.Events{Start: "s", End: "e", StartKey: "k", EndKey: "l", Pairing: dtrace.FIFO}, Group: "pid", Bins: 1},
			{Name: "gc", VM: outcome.Events{Builtin: "gc"}},
		}},
	}
	notice = outcome.Notice{Time: 500, Text: "observing pid 7"}
	cause  = recording.Cause{
		Time: 600, Number: 3, Trigger: "load", Setting: "5000", Outcome: "a",
		VM: outcome.VM{PID: 7, Node: "a@b"}, Text: "5001 instances a second", Explanation: "91 % of a #4711 was mailbox wait",
	}
	snapshot = recording.Snapshot{First: 1, Prelude: 2, Before: 3, Causes: 4, Omitted: 5, Complete: true}
	batch    = outcome.Batch{
		Window: outcome.Window{From: 100, To: 1_000_000_100},
		Time:   time.Date(2026, 11, 21, 1, 45, 1, 5, time.UTC),
		Counts: []outcome.Counts{
			{Outcome: "a", VM: cause.VM, Starts: 3, Successes: 2, Timeouts: 1, Bins: []uint64{0, 0, 1, 300, 0}, Loss: outcome.Loss{Cut: 9}},
			{Outcome: "b", VM: cause.VM, Unobserved: true},
			{
				Outcome: "c", VM: cause.VM, Ends: 7, Successes: 6, Timeouts: 1, Bins: []uint64{6},
				Dropped: 4, Inferred: 3, Amount: 1 << 40, Loss: outcome.Loss{Unpaired: 2},
				Groups: []outcome.Group{
					{Key: "<0.9.0>", Process: 9, Name: "m:f/1", Successes: 5, Timeouts: 1, Total: 77, Amount: 8, Delays: delays(5, 1<<32-1)},
					{Successes: 1, Failures: 1},
				},
			},
		},
		Instances: []outcome.Instance{
			{Outcome: "a", VM: cause.VM, Start: 90, End: 200, ID: 1 << 63, Parent: 5, Process: 88, Class: "c"},
			{Outcome: "a", VM: cause.VM, Status: outcome.Timeout, Start: 190, End: 300, ID: 4, Class: "c", Process: 8, Trace: explained},
		},
		Rejected: outcome.Rejected{Count: 1, Last: "x"},
		Cost:     outcome.Cost{Events: 8, PerEvent: 1234, Collector: time.Millisecond},
	}
)

// explained is the trace of an instance that uses every field.
var explained = &trace.Trace{Spans: []trace.Span{
	{Parent: -1, Start: 190, End: 300, Process: 8, Name: "c"},
	{Kind: trace.Ready, Start: 190, End: 200, Process: 8, Name: "c", Other: 1<<63 | 5, OtherName: "neighbour"},
	{
		Kind: trace.Waiting, Start: 200, End: 290, Process: 9, Mark: trace.Inferred,
		Link: trace.Link{From: 8, To: 9, Sent: 199, Received: 250, Mark: trace.Inferred},
	},
	{
		Parent: 2, Kind: trace.Mailbox, Start: 200, End: 250, Process: 9, Behind: 812, Mark: trace.Inferred,
		Link: trace.Link{From: 8, To: 9, Sent: 199, Received: 250},
	},
	{Parent: 2, Kind: trace.NIF, Start: 250, End: 290, Process: 9, Mark: trace.Inferred, Detail: "m:f/1", Parts: 3},
	{
		Kind: trace.Waiting, Start: 290, End: 300, Mark: trace.Ambiguous, Reason: "two may have sent what it took",
		Link: trace.Link{From: 8, To: 77, Sent: 180, Mark: trace.Ambiguous},
	},
}}

// delays returns delays in two buckets.
func delays(first, last uint32) outcome.Delays {
	d := make(outcome.Delays, outcome.DelayBuckets)
	d[3], d[len(d)-1] = first, last
	return d
}

// everything returns a recording with every kind of entry, and its entries.
func everything(t testing.TB) (data []byte, entries []recording.Entry) {
	entries = []recording.Entry{&snapshot, &cause, &config, &batch, &notice, &batch}
	return record(t, entries...), entries
}

type fatal interface{ Fatal(...any) }

func record(t fatal, entries ...recording.Entry) []byte {
	var e recording.Encoder
	dst, err := e.AppendHeader(nil, &header)
	batches := uint64(0)
	for _, entry := range entries {
		if err != nil {
			t.Fatal(err)
		}
		dst, err = appendEntry(&e, dst, entry)
		if _, ok := entry.(*outcome.Batch); ok {
			batches++
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if dst, err = e.AppendEnd(dst, uint64(len(entries)+1), batches); err != nil {
		t.Fatal(err)
	}
	return dst
}

func appendEntry(e *recording.Encoder, dst []byte, entry recording.Entry) ([]byte, error) {
	switch entry := entry.(type) {
	case *recording.Config:
		return e.AppendConfig(dst, entry)
	case *outcome.Batch:
		return e.AppendBatch(dst, entry)
	case *outcome.Notice:
		return e.AppendNotice(dst, entry)
	case *recording.Snapshot:
		return e.AppendSnapshot(dst, entry)
	case *recording.Cause:
		return e.AppendCause(dst, entry)
	}
	return dst, errors.ErrUnsupported
}

// readAll returns all entries that can be read, and the error after them, which is nil at a clean
// end.
func readAll(data []byte) (entries []recording.Entry, err error) {
	r, err := recording.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	for {
		entry, err := r.Next()
		if errors.Is(err, io.EOF) {
			return entries, nil
		}
		if err != nil {
			return entries, err
		}
		entries = append(entries, entry)
	}
}

// diff compares what was written with what was read. An empty slice is read as nil.
func diff(want, got any) string { return cmp.Diff(want, got, cmpopts.EquateEmpty()) }

// withoutAccounts returns a group without the figures that recordings do not contain, see
// [outcome.Spec.Accounts].
func withoutAccounts(g outcome.Group) outcome.Group {
	g.Starts, g.Processor, g.Dirty = 0, 0, 0
	return g
}

// batches generates arbitrary batches, including extreme figures.
func batches() *rapid.Generator[outcome.Batch] {
	name := rapid.OneOf(rapid.SampledFrom([]string{"", "a", "b", "x@y", "é"}), rapid.String())
	vm := rapid.Custom(func(t *rapid.T) outcome.VM {
		return outcome.VM{PID: rapid.Int().Draw(t, "pid"), Node: name.Draw(t, "node")}
	})
	n := rapid.Uint64()
	counts := rapid.Custom(func(t *rapid.T) outcome.Counts {
		c := rapid.Make[outcome.Counts]().Draw(t, "counts")
		c.Outcome, c.VM = name.Draw(t, "outcome"), vm.Draw(t, "vm")
		c.Bins = rapid.SliceOf(rapid.OneOf(rapid.Just(uint64(0)), n)).Draw(t, "bins")
		for i := range c.Groups {
			c.Groups[i].Delays = anyDelays(t)
			c.Groups[i] = withoutAccounts(c.Groups[i])
		}
		return c
	})
	instance := rapid.Custom(func(t *rapid.T) outcome.Instance {
		i := rapid.Make[outcome.Instance]().Draw(t, "instance")
		i.Outcome, i.VM, i.Class = name.Draw(t, "outcome"), vm.Draw(t, "vm"), name.Draw(t, "class")
		i.Status = outcome.Status(rapid.IntRange(0, 2).Draw(t, "status"))
		if i.Trace = nil; rapid.Bool().Draw(t, "explained") {
			i.Trace = tracetest.Draw(t)
			i.Start, i.End = i.Trace.Spans[0].Start, i.Trace.Spans[0].End
		}
		return i
	})
	return rapid.Custom(func(t *rapid.T) outcome.Batch {
		return outcome.Batch{
			Window:    rapid.Make[outcome.Window]().Draw(t, "window"),
			Time:      time.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC(),
			Counts:    rapid.SliceOf(counts).Draw(t, "counts"),
			Instances: rapid.SliceOf(instance).Draw(t, "instances"),
			Rejected:  outcome.Rejected{Count: n.Draw(t, "rejected"), Last: name.Draw(t, "last")},
			Cost:      rapid.Make[outcome.Cost]().Draw(t, "cost"),
		}
	})
}

func anyDelays(t *rapid.T) outcome.Delays {
	if !rapid.Bool().Draw(t, "has delays") {
		return nil
	}
	n := rapid.OneOf(rapid.Just(uint32(0)), rapid.Uint32())
	return rapid.SliceOfN(n, outcome.DelayBuckets, outcome.DelayBuckets).Draw(t, "delays")
}

// busy returns a configuration and a batch for it, like those of a system with exponential
// delays.
func busy(outcomes, bins, instances, single int) (recording.Config, outcome.Batch) {
	rng := rand.New(rand.NewPCG(1, 2))
	from := int64(6646004295842)
	c := recording.Config{Plan: outcome.Plan{From: from, Window: time.Second}}
	b := outcome.Batch{Window: c.Plan.At(7), Time: header.Time, Cost: outcome.Cost{Events: 1894, PerEvent: 2764, Collector: 1e6}}
	vm := outcome.VM{PID: 29736, Node: "mm1k@localhost"}
	for i := range outcomes {
		name := "worker_" + string(rune('a'+i/26)) + string(rune('a'+i%26))
		c.Plan.Specs = append(c.Plan.Specs, outcome.Spec{Name: name, Span: name, BinWidth: time.Millisecond, Bins: bins})
		counts := outcome.Counts{
			Outcome: name, VM: vm, Starts: uint64(instances), Ends: uint64(instances),
			Successes: uint64(instances), Bins: make([]uint64, bins),
		}
		for range instances {
			counts.Bins[min(int(rng.ExpFloat64()*float64(bins)/5), bins-1)]++
		}
		b.Counts = append(b.Counts, counts)
	}
	for i := range single {
		end := b.Window.From + int64(i)*1e9/int64(single)
		b.Instances = append(b.Instances, outcome.Instance{
			Outcome: b.Counts[i%outcomes].Outcome, VM: vm, Start: end - int64(rng.ExpFloat64()*5e6), End: end,
			ID: uint64(1e6 + i*3), Parent: uint64(1e6 + i*3 - 2), Process: outcome.PID(120 + rng.IntN(4)),
		})
	}
	return c, b
}
