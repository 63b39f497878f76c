package outcome_test

import (
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/vm"
	"github.com/beamscope/beamscope/internal/vmtest"
)

// Messages that no receive matches do not make the others look slow, although they wait in
// front of them: the VM's memory tells which message is taken. They time out themselves.
// Where it does not tell, the messages are unpaired: neither slow nor timed out.
func TestUnwantedMessages(t *testing.T) {
	const rounds = 40
	v := vmtest.Start(t, erlang.Options{})
	mailbox := grouped(outcome.GroupPID)
	mailbox.BinWidth = time.Millisecond
	s := newSourceEvery(t, vm.Target{PID: v.PID()}, 200*time.Millisecond, []outcome.Spec{mailbox})
	var answer string
	s.collectDuring(func() {
		answer = vmtest.Call(t, v, "vm_load", "junk", "[#{rounds => 40, pause_ms => 20}]")
	})
	s.collectNow()
	numbers := vmtest.Integers(t, answer)
	process := outcome.PID(uint64(numbers[1]) | uint64(numbers[2])<<32) // <0.number.serial>
	var took time.Duration                                              // of those that are wanted, at most
	for spans := numbers[3:]; len(spans) >= 2; spans = spans[2:] {
		took += time.Duration(spans[1] - spans[0])
	}
	g := s.sums()[process.String()]
	if strings.Contains(strings.Join(s.notices(), " "), "messages in mailboxes are paired in their order") {
		if c := s.totals()[outcome.VM{PID: v.PID()}]; c.Loss.Unpaired < rounds || g.Timeouts > 0 {
			t.Errorf("%d are unpaired, %d timed out", c.Loss.Unpaired, g.Timeouts)
		}
		return
	}
	if g.Successes != rounds {
		t.Errorf("%d messages are taken, want %d", g.Successes, rounds)
	}
	if g.Total > took {
		t.Errorf("they waited for %v, and took %v from send to receive", g.Total, took)
	}
	if c := s.totals()[outcome.VM{PID: v.PID()}]; c.Inferred > 0 || c.Loss.Total() > 0 {
		t.Errorf("%d are paired by their order, %d lost", c.Inferred, c.Loss.Total())
	}
}
