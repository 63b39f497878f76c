package bpf_test

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/vmtest"
)

// A port is busy once for each time that a writer has to wait, within the write that
// waits, and at least from when its queue is seen to be full until somebody reads.
func TestBusyPortsAgainstWriter(t *testing.T) {
	const times = 3
	vm := vmtest.Start(t, oneClock())
	c, streamed := collected(t, vm, builtin(t, "port-busy", "port"))
	var writes []interval
	var least []int64
	for range times {
		a := vmLoad(t, c, vm, "congested_port", "[100]")
		writes = append(writes, a.interval())
		full, read := a.number(), a.number()
		least = append(least, read-full)
	}
	instances := chosen(streamed(), func(bpf.Instance) bool { return true })
	nothingLost(t, c, 0, vm)
	shorter := within(t, instances, writes)
	for i, busy := range lengths(instances) {
		if busy < least[i] {
			t.Errorf("port %d: busy for %d ns, and full for %d at least", i, busy, least[i])
		}
		t.Logf("port %d: busy for %d ns, full for %d at least; the write that waits takes %d ns more", i, busy, least[i], shorter[i])
	}
	if groups := groupsOf(c, 0); len(groups) != times {
		t.Errorf("%d ports, want %d", len(groups), times)
	}
}

// A connection that its other side does not read is busy once, however often the sender is
// suspended: at most from its first send until the last one is over, and at least from when it
// is seen to be suspended until the other side goes on.
func TestBusyDistributionAgainstSender(t *testing.T) {
	otp := vmtest.Private(t)
	distributed := func(name string, args ...string) erlang.Options {
		return oneClock(append(args, "-sname", name, "-setcookie", "beamscope", "-start_epmd", "false", "-erl_epmd_port", "43711")...)
	}
	other := vmtest.StartOn(t, otp, distributed("other@localhost"))
	sender := vmtest.StartOn(t, otp, distributed("sender@localhost", "-dist_listen", "false", "+zdbbl", "64"))
	if got := vmtest.Call(t, sender, "net_kernel", "connect_node", "[other@localhost]"); got != "true" {
		t.Fatalf("the nodes do not connect: %s", got)
	}
	c, streamed := collected(t, sender, builtin(t, "dist-busy", "remote"))
	if err := unix.Kill(other.PID(), unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	a := vmLoad(t, c, sender, "suspended_sender", "[other@localhost]")
	pid := fmt.Sprintf(`"<%d.%d.%d>"`, a.number(), a.number(), a.number())
	began, suspended := a.number(), a.number()
	resumes := newAnswer(t, vmtest.Call(t, sender, "erlang", "monotonic_time", "[nanosecond]")).number()
	if err := unix.Kill(other.PID(), unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	send := vmLoad(t, c, sender, "let_go", "[list_to_pid("+pid+")]").interval()
	instances := streamed()
	nothingLost(t, c, 0, sender)
	total := c.Total(0, sender.PID())
	if len(instances) != 1 || total.Successes != 1 {
		t.Fatalf("%d instances, want 1: %+v", len(instances), total)
	}
	busy, least := instances[0].End-instances[0].Start, resumes-suspended
	t.Logf("busy for %d ns, stopped for %d at least, suspended %d times; from the first send to the end of the last %d ns", busy, least, total.Starts, send.to-began)
	if busy < least || busy > send.to-began {
		t.Errorf("busy for %d ns, which is not between %d and %d", busy, least, send.to-began)
	}
}
