package bpf_test

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
	"github.com/beamscope/beamscope/usdt"
)

// tokenRule is an outcome of messages with a token of the wrapper, from the send to the receipt.
// With [dtrace.FIFO] they are paired by tokens in addition to the key.
func tokenRule(t *testing.T, name string, pairing dtrace.Pairing, key dtrace.Key) bpf.Outcome {
	t.Helper()
	rule := dtrace.Rule{Key: key, Pairing: pairing}
	for probe, expr := range map[string]*dtrace.Expr{"message-send": &rule.Start, "message-receive": &rule.End} {
		var err error
		if *expr, err = dtrace.ParseExpr(probe + "[label>=0x40000000]"); err != nil {
			t.Fatal(err)
		}
	}
	return bpf.Outcome{Name: name, Rule: &rule, DMax: int64(time.Minute), BinWidth: int64(time.Second), Bins: 60}
}

// A call with a finite timeout, through a second server: a received message has the token that was
// sent, and an answer has the numbers of its request. Answers to aliases have only a receipt.
func TestTokensOfACall(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	same := func(arg string) dtrace.Key { return dtrace.Key{Start: arg, End: arg} }
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{
		tokenRule(t, "label", dtrace.FIFO, same("label")),
		tokenRule(t, "prev", dtrace.FIFO, same("prev")),
		tokenRule(t, "cur", dtrace.FIFO, same("cur")),
		tokenRule(t, "answered", dtrace.Last, dtrace.Key{Start: "cur", End: "prev"}),
		{Name: "slow", DMax: int64(time.Minute), BinWidth: int64(time.Second), Bins: 60},
	}})
	c.Observe(vm)
	for range 3 {
		// Without the option nothing has a token, even after a span that had one.
		c.Call(vm, "causes", "run", "[callee, #{cause => 1, seq_trace => true}]")
		c.Call(vm, "causes", "run", "[callee, #{cause => 1}]")
	}
	for outcome := range 4 {
		got := c.Total(outcome, vm.PID()).Counters
		want := bpf.Counters{Starts: 6, Ends: 12, Successes: 6, Orphans: 6}
		got.Dropped = 0 // messages without a token
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.Opts.Outcomes[outcome].Name, diff)
		}
	}
}

// The token of a probe stays with it through both queues, and with no other message.
func TestTokensOfMM1K(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes, Main: []string{"mm1k", "rate=0", "k=2", "loops=10000", "seq_trace=true", "seed=1"}})
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{
		tokenRule(t, "tokens", dtrace.FIFO, dtrace.Key{Start: "label", End: "label"}),
		{Name: "probe", DMax: int64(time.Minute), BinWidth: int64(time.Second), Bins: 60},
	}})
	c.Observe(vm)
	info := c.Call(vm, "erlang", "apply", vmtest.Fun(`
		mm1k:set(rate, 3000),
		Until = fun Until(Is) -> Info = mm1k:info(),
			case Is(Info) of true -> Info; false -> erlang:yield(), Until(Is) end end,
		Until(fun(#{done := Done}) -> Done >= 200 end),
		mm1k:set(rate, 0),
		Until(fun(#{sent := Sent, dropped_1 := D1, dropped_2 := D2, done := Done}) -> Sent =:= D1 + D2 + Done end)`))
	count := func(key string) uint64 {
		n, err := strconv.ParseUint(regexp.MustCompile(key + ` => (\d+)`).FindStringSubmatch(info)[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	// To the queue, to its worker, back to the queue, and so on.
	n := 1*count("dropped_1") + 4*count("dropped_2") + 6*count("done")
	want := bpf.Counters{Starts: n, Ends: n, Successes: n}
	got := c.Total(0, vm.PID()).Counters
	got.Dropped = 0 // messages without a token
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n-want +got:\n%s", info, diff)
	}
	if got := c.Total(1, vm.PID()).Starts; got != count("sent") {
		t.Errorf("%d probes, want %d", got, count("sent"))
	}
}

// BenchmarkToken measures the cost of a span's token for the observed system. It takes the fastest
// of forty turns, because other programs on the machine can only slow them down. It measures a
// span, and a span with a message and its answer, with an attached empty program and without a
// program.
func BenchmarkToken(b *testing.B) {
	vmtest.NeedEBPF(b)
	vm := vmtest.Start(b, erlang.Options{Carrier: erlang.Probes, Args: []string{"+S", "1:1"}})
	target := vmtest.Target(b, vm)
	i := slices.IndexFunc(target.Probes, func(p usdt.Probe) bool {
		return p.Name == fmt.Sprintf("user_trace__n%d", bpf.Label("load"))
	})
	perSpan := regexp.MustCompile(`ns_per_span => ([0-9.e+]+)`)
	measure := func(function string, token bool) float64 {
		result := vmtest.Call(b, vm, "span_load", function,
			fmt.Sprintf("[#{procs => 1, spans => 20000, attrs => #{seq_trace => %t}}]", token))
		ns, err := strconv.ParseFloat(perSpan.FindStringSubmatch(result)[1], 64)
		if err != nil {
			b.Fatal(err)
		}
		return ns
	}
	for _, watched := range []bool{false, true} {
		for _, function := range []string{"run", "calling"} {
			b.Run(fmt.Sprintf("%s/watched=%t", function, watched), func(b *testing.B) {
				if watched {
					detach, err := bpf.AttachEmpty(target.Path, target.Probes[i].Sites[0], vm.PID())
					if err != nil {
						b.Fatal(err)
					}
					defer detach()
				}
				var idle, off, on float64
				for b.Loop() {
					idle, off, on = math.Inf(1), math.Inf(1), math.Inf(1)
					for range 40 {
						idle = min(idle, measure("idle", false))
						off = min(off, measure(function, false))
						on = min(on, measure(function, true))
					}
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(off-idle, "ns/off")
				b.ReportMetric(on-idle, "ns/on")
				b.ReportMetric((on-idle)/(off-idle), "on/off")
			})
		}
	}
}
