package bpf_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// fetchMost is the number of signals of a list that a program goes through: FETCH_MOST of rule.bpf.h.
const fetchMost = 1 << 14

// In a VM with stand-in functions a hop ends when its receiver fetches the message, in whatever order it
// then takes the messages. The address identifies each one.
func TestHopsOfStockVM(t *testing.T) { onRebuilt(t, hopsOfStockVM) }

func hopsOfStockVM(t *testing.T, otp erlang.OTP) {
	const n = 50
	for _, order := range []string{"in_order", "reverse"} {
		t.Run(order, func(t *testing.T) {
			v := vmtest.StartOn(t, otp, oneClock())
			c, streamed := collected(t, v, builtin(t, "hop", "receiver"), builtin(t, "message", "receiver"))
			a := vmLoad(t, c, v, "backlog", fmt.Sprintf("[#{messages=>%d,wait_ms=>100,order=>%s,label=>0}]", n, order))
			all := streamed()
			b := backlog{a.process(), a.number(), a.intervals(n), a.intervals(n)}
			exactHops(t, c, v, 0)
			hops, messages := instancesOf(all, 0, b.process), instancesOf(all, 1, b.process)
			if len(hops) != n+1 || len(messages) != n+1 {
				t.Fatalf("%d hops and %d messages, want %d and the one that says what to do", len(hops), len(messages), n)
			}
			for i, h := range hops[1:] {
				bracket(t, "hop", i, h, 0, b.fetched-b.sent[i].from)
				if m := messages[i+1]; m.Start > h.End || m.End < h.End {
					t.Errorf("message %d from %d to %d is fetched at %d", i, m.Start, m.End, h.End)
				}
			}
			t.Logf("hops of %d ns as a median", median(lengths(hops[1:])))
		})
	}
}

// exactHops checks that no hop is lost or inferred.
func exactHops(t *testing.T, c *vmtest.Collector, v *erlang.VM, outcome int) {
	t.Helper()
	nothingLost(t, c, outcome, v)
	if n := c.Total(outcome, v.PID()); n.Inferred != 0 || n.Unpaired != 0 {
		t.Errorf("%d are inferred, %d unpaired", n.Inferred, n.Unpaired)
	}
}

// Messages that many processes send to one at the same time are hops, one for each, also if the receiver
// takes them in another order, and if the VM keeps them in buffers until the receiver fetches them.
func TestHopsOfManySenders(t *testing.T) {
	onStock(t, func(t *testing.T, otp erlang.OTP) {
		const senders, each = 8, 500
		for _, buffers := range []bool{false, true} {
			t.Run(fmt.Sprintf("buffers %t", buffers), func(t *testing.T) {
				v := vmtest.StartOn(t, otp, oneClock("+S", "2:2"))
				c := vmtest.NewCollector(t, bpf.Options{
					Outcomes: []bpf.Outcome{builtin(t, "hop", "receiver"), builtin(t, "mailbox", "receiver"), builtin(t, "message", "receiver")},
					Window:   int64(time.Second),
				})
				c.Observe(v)
				process := vmLoad(t, c, v, "gather", fmt.Sprintf("[#{senders=>%d,each=>%d,buffers=>%t}]", senders, each, buffers)).process()
				for i, o := range c.Opts.Outcomes {
					exactHops(t, c, v, i)
					if got := groupsOf(c, i)[process].Successes; got != senders*each {
						t.Errorf("%s: %d, want %d", o.Name, got, senders*each)
					}
				}
			})
		}
	})
}

// A process that exits fetches the messages that it leaves behind, but does not receive them: they time
// out.
func TestHopsToExitingProcesses(t *testing.T) {
	onStock(t, func(t *testing.T, otp erlang.OTP) {
		const n, dMax = 100, time.Second
		v := vmtest.StartOn(t, otp, oneClock())
		o := builtin(t, "hop", "receiver")
		o.DMax, o.BinWidth = int64(dMax), int64(dMax)/int64(o.Bins)
		c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{o}, Window: int64(time.Second)})
		c.Observe(v)
		process := vmLoad(t, c, v, "abandoned", fmt.Sprintf("[%d]", n)).process()
		c.ReadAll()
		exactHops(t, c, v, 0)
		if got := groupsOf(c, 0)[process]; got.Timeouts != n || got.Successes != 0 {
			t.Errorf("%d messages time out, and %d are fetched; want %d and none", got.Timeouts, got.Successes, n)
		}
	})
}

// If a receiver fetches more messages at once than a program goes through, the others are lost as
// unpaired. They are neither successes nor timeouts.
func TestMoreMessagesInAFetch(t *testing.T) {
	onStock(t, func(t *testing.T, otp erlang.OTP) {
		const more, dMax = 1000, 2 * time.Second
		v := vmtest.StartOn(t, otp, oneClock())
		o := builtin(t, "hop", "receiver")
		o.DMax, o.BinWidth = int64(dMax), int64(dMax)/int64(o.Bins)
		c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{o}, OpenSpans: 1 << 16, Window: int64(time.Second)})
		c.Observe(v)
		process := vmLoad(t, c, v, "flood", fmt.Sprintf("[%d]", fetchMost+more-1)).process()
		c.ReadAll()
		nothingLost(t, c, 0, v)
		total, of := c.Total(0, v.PID()), groupsOf(c, 0)[process]
		if of.Successes != fetchMost || of.Timeouts != 0 || total.Timeouts != 0 || total.Unpaired != more || total.Inferred != 0 {
			t.Errorf("%d hops, %d and %d timeouts, %d unpaired; want %d, none, and %d", of.Successes, of.Timeouts, total.Timeouts, total.Unpaired, fetchMost, more)
		}
		if total.Starts != total.Successes+total.Unpaired {
			t.Errorf("%d starts, and %d ends", total.Starts, total.Successes+total.Unpaired)
		}
		// The program forgets that. Later messages to the process, and to others, are hops again.
		before := total
		vmLoad(t, c, v, "flood", "[100]")
		if total = c.Total(0, v.PID()); total.Unpaired != before.Unpaired || total.Successes < before.Successes+101 {
			t.Errorf("%d hops and %d unpaired after %d and %d", total.Successes, total.Unpaired, before.Successes, before.Unpaired)
		}
	})
}
