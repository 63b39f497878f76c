package bpf_test

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// A port is busy once for each wait of a writer. The instance lies within the waiting write, and
// lasts at least from the moment when its queue is seen to be full until the first read.
func TestBusyPortsAgainstWriter(t *testing.T) { busyPorts(t, vmtest.OTP(t)) }

// The same is true of a VM with stand-in functions.
func TestBusyPortsOfStockVM(t *testing.T) { onStock(t, busyPorts) }

func busyPorts(t *testing.T, otp erlang.OTP) {
	const times = 3
	vm := vmtest.StartOn(t, otp, oneClock())
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
	groups := groupsOf(c, 0)
	for key := range groups {
		if text, ok := key.(string); !ok || !strings.HasPrefix(text, "#Port<0.") {
			t.Errorf("%v is among the ports", key)
		}
	}
	if len(groups) != times {
		t.Errorf("%d ports, want %d", len(groups), times)
	}
}

// A connection without a reader on the other side is busy once, however often the sender is
// suspended: at most from its first send to the end of the last one, and at least from the moment
// when it is seen to be suspended until the other side continues.
func TestBusyDistributionAgainstSender(t *testing.T) {
	busyDistribution(t, vmtest.Private(t), "remote")
}

// The same is true of a VM with stand-in functions, which do not report the other node.
func TestBusyDistributionOfStockVM(t *testing.T) {
	onStock(t, func(t *testing.T, otp erlang.OTP) { busyDistribution(t, otp, "port") })
}

func busyDistribution(t *testing.T, otp erlang.OTP, group string) {
	nodes := newCongested(t, otp)
	c, streamed := collected(t, nodes.sender, builtin(t, "dist-busy", group))
	least, most := nodes.congest(t, c)
	instances := streamed()
	nothingLost(t, c, 0, nodes.sender)
	total := c.Total(0, nodes.sender.PID())
	if len(instances) != 1 || total.Successes != 1 {
		t.Fatalf("%d instances, want 1: %+v", len(instances), total)
	}
	busy := instances[0].End - instances[0].Start
	t.Logf("busy for %d ns, stopped for %d at least, suspended %d times; from the first send to the end of the last %d ns", busy, least, total.Starts, most)
	if busy < least || busy > most {
		t.Errorf("busy for %d ns, which is not between %d and %d", busy, least, most)
	}
}

// A congested node sends to another one that does not read.
type congested struct{ sender, other *erlang.VM }

func newCongested(t *testing.T, otp erlang.OTP) congested {
	t.Helper()
	distributed := func(name string, args ...string) erlang.Options {
		return oneClock(append(args, "-sname", name, "-setcookie", "beamscope", "-start_epmd", "false", "-erl_epmd_port", "43711")...)
	}
	n := congested{
		other:  vmtest.StartOn(t, otp, distributed("other@localhost")),
		sender: vmtest.StartOn(t, otp, distributed("sender@localhost", "-dist_listen", "false", "+zdbbl", "64")),
	}
	if got := vmtest.Call(t, n.sender, "net_kernel", "connect_node", "[other@localhost]"); got != "true" {
		t.Fatalf("the nodes do not connect: %s", got)
	}
	return n
}

// congest has the sender send until it is suspended, and the other node go on then. It returns how long
// the connection was busy: at least, and at most.
func (n congested) congest(t *testing.T, c *vmtest.Collector) (least, most int64) {
	t.Helper()
	if err := unix.Kill(n.other.PID(), unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	a := vmLoad(t, c, n.sender, "suspended_sender", "[other@localhost]")
	pid := fmt.Sprintf(`"<%d.%d.%d>"`, a.number(), a.number(), a.number())
	began, suspended := a.number(), a.number()
	resumes := newAnswer(t, vmtest.Call(t, n.sender, "erlang", "monotonic_time", "[nanosecond]")).number()
	if err := unix.Kill(n.other.PID(), unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	send := vmLoad(t, c, n.sender, "let_go", "[list_to_pid("+pid+")]").interval()
	return resumes - suspended, send.to - began
}
