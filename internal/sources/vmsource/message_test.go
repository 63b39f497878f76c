package vmsource_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// Some messages match no receive and stay in the mailbox, in front of others. They do not make
// the others look slow, because the VM's memory shows which message is taken. They time out
// themselves. This holds on every release.
func TestUnwantedMessages(t *testing.T) {
	vmtest.OnEach(t, func(t *testing.T, otp erlang.OTP) {
		u := runUnwanted(t, otp)
		if u.ordered {
			t.Error("messages are paired in their order")
		}
		if u.group.Successes != unwantedRounds {
			t.Errorf("%d messages are taken, want %d", u.group.Successes, unwantedRounds)
		}
		if u.group.Total > u.took {
			t.Errorf("they waited for %v, and took %v from send to receive", u.group.Total, u.took)
		}
		if u.counts.Inferred > 0 || u.counts.Loss.Total() > 0 {
			t.Errorf("%d are paired by order, %d lost", u.counts.Inferred, u.counts.Loss.Total())
		}
	})
}

// If the memory of a VM does not show which message is taken, the messages are unpaired: neither slow
// nor timed out.
func TestUnwantedMessagesOfStrippedVM(t *testing.T) {
	otp := vmtest.Private(t)
	vmtest.Strip(t, otp.Emulator())
	u := runUnwanted(t, otp)
	if !u.ordered || u.counts.Loss.Unpaired < unwantedRounds || u.group.Timeouts > 0 {
		t.Errorf("paired in their order: %v; %d are unpaired, %d timed out", u.ordered, u.counts.Loss.Unpaired, u.group.Timeouts)
	}
}

// unwantedRounds is how many messages a process takes while others stay in its mailbox.
const unwantedRounds = 40

// An unwanted is what is observed of the process.
type unwanted struct {
	ordered bool // a notice says that messages are paired in their order
	group   outcome.Group
	counts  outcome.Counts
	took    time.Duration // longest time of the messages that are taken
}

func runUnwanted(t *testing.T, otp erlang.OTP) unwanted {
	t.Helper()
	v := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes})
	mailbox := grouped(outcome.GroupPID)
	mailbox.BinWidth = time.Millisecond
	s := newSourceEvery(t, vm.Target{PID: v.PID()}, 200*time.Millisecond, []outcome.Spec{mailbox})
	var answer string
	s.collectDuring(func() {
		answer = vmtest.Call(t, v, "vm_load", "junk", fmt.Sprintf("[#{rounds => %d, pause_ms => 20}]", unwantedRounds))
	})
	s.collectNow()
	numbers := vmtest.Integers(t, answer)
	process := outcome.PID(uint64(numbers[1]) | uint64(numbers[2])<<32) // <0.number.serial>
	u := unwanted{
		ordered: strings.Contains(strings.Join(s.notices(), " "), "messages in mailboxes are paired in their order"),
		group:   s.sums()[process.String()],
		counts:  s.totals()[outcome.VM{PID: v.PID()}],
	}
	for spans := numbers[3:]; len(spans) >= 2; spans = spans[2:] {
		u.took += time.Duration(spans[1] - spans[0])
	}
	return u
}
