package bpf_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// On a VM with stand-in functions each spawned process is one instance of lifetime, which is
// counted with its spawned function.
func TestLifetimesOfStockVM(t *testing.T) { onRebuilt(t, lifetimesOfStockVM) }

func lifetimesOfStockVM(t *testing.T, otp erlang.OTP) {
	const short, long = 10000, 5
	vm := vmtest.StartOn(t, otp, oneClock("+S", "1:1"))
	o := builtin(t, "lifetime", bpf.GroupByMFA)
	const dMax = time.Second
	o.DMax, o.BinWidth = int64(dMax), int64(dMax)/int64(o.Bins)
	c, _ := collected(t, vm, o)
	args := fmt.Sprintf("[lists:duplicate(%d,0) ++ lists:duplicate(%d,%d)]", short, long, 2*dMax.Milliseconds())
	if n := vmLoad(t, c, vm, "lives", args).number(); n != short+long {
		t.Fatalf("the program counts %d lives", n)
	}
	c.ReadAll()
	nothingLost(t, c, 0, vm)
	total := c.Total(0, vm.PID())
	if got := groupsOf(c, 0)["vm_load:live/1"]; got.Successes != short || got.Timeouts != long {
		t.Errorf("%d lives and %d timeouts of the function, want %d and %d", got.Successes, got.Timeouts, short, long)
	}
	// Few other processes of the VM start and end.
	if total.Successes < short || total.Successes > short+50 || total.Timeouts < long || total.Timeouts > long+10 || total.Failures != 0 || total.Starts != total.Successes+total.Timeouts {
		t.Errorf("%d lives and %d timeouts, want %d and %d", total.Successes, total.Timeouts, short, long)
	}
}

// On a VM with stand-in functions the address of a message identifies it: delays are equal to
// those that the program measures, also if the receiver takes messages in another order.
func TestMessagesOfStockVM(t *testing.T) { onRebuilt(t, messagesOfStockVM) }

func messagesOfStockVM(t *testing.T, otp erlang.OTP) {
	const n = 50
	for _, order := range []string{"in_order", "reverse"} {
		t.Run(order, func(t *testing.T) {
			vm := vmtest.StartOn(t, otp, oneClock())
			c, streamed := collected(t, vm, builtin(t, "message", "receiver"))
			a := vmLoad(t, c, vm, "backlog", fmt.Sprintf("[#{messages=>%d,wait_ms=>100,order=>%s,label=>0}]", n, order))
			all := streamed()
			b := backlog{a.process(), a.number(), a.intervals(n), a.intervals(n)}
			nothingLost(t, c, 0, vm)
			total := c.Total(0, vm.PID())
			if total.Inferred != 0 || total.Unpaired != 0 {
				t.Errorf("%d are inferred, %d unpaired", total.Inferred, total.Unpaired)
			}
			instances := instancesOf(all, 0, b.process)
			if len(instances) != n+1 {
				t.Fatalf("%d messages, want %d and the one that says what to do", len(instances), n)
			}
			var slack []int64
			for i, m := range instances[1:] {
				slack = append(slack, bracket(t, "message", i, m, b.taken[i].from-b.sent[i].to, b.taken[i].to-b.sent[i].from))
			}
			t.Logf("delays of %d ns as a median, known to %d ns", median(lengths(instances[1:])), median(slack))
		})
	}
}
