package outcome_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/vm"
	"github.com/beamscope/beamscope/internal/vmtest"
)

// Every delay is in the bucket that says so, buckets follow each other without gaps, and
// none but the first is wider than a quarter of its delays.
func TestBuckets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, 1<<43).Draw(t, "delay"))
		lo, hi := outcome.BucketBounds(outcome.Bucket(d))
		if d < lo || d >= hi {
			t.Fatalf("%d is not from %d to %d", d, lo, hi)
		}
		if lo >= 4 && (hi-lo)*4 > lo {
			t.Fatalf("the bucket from %d to %d is wide", lo, hi)
		}
	})
	for i := range outcome.DelayBuckets - 1 {
		_, hi := outcome.BucketBounds(i)
		if lo, _ := outcome.BucketBounds(i + 1); lo != hi {
			t.Errorf("bucket %d ends at %d, the next one begins at %d", i, hi, lo)
		}
	}
	if got := outcome.Bucket(math.MaxInt64); got != outcome.DelayBuckets-1 {
		t.Errorf("the longest delay is in bucket %d", got)
	}
}

// A quantile is within the bounds that are told.
func TestDelaysQuantile(t *testing.T) {
	if _, _, ok := outcome.Delays(nil).Quantile(0.5, 0); ok {
		t.Error("no delays have a quantile")
	}
	rapid.Check(t, func(t *rapid.T) {
		delays := rapid.SliceOfN(rapid.Int64Range(0, 1<<40), 1, 50).Draw(t, "delays")
		var d outcome.Delays
		for _, x := range delays {
			one := make(outcome.Delays, outcome.DelayBuckets)
			one[outcome.Bucket(time.Duration(x))]++
			d.Add(one)
		}
		slices.Sort(delays)
		n := rapid.IntRange(1, len(delays)).Draw(t, "rank")
		lo, hi, ok := d.Quantile(float64(n)/float64(len(delays)), 0)
		want := time.Duration(delays[n-1])
		if !ok || want < lo || want >= hi {
			t.Fatalf("quantile %d of %d is %d: from %d to %d, %v", n, len(delays), want, lo, hi, ok)
		}
	})
}

// The rank of a quantile is exact also where there are very many delays, and where a share
// cannot be written exactly.
func TestDelaysQuantileRank(t *testing.T) {
	fast, slow := outcome.Bucket(time.Microsecond), outcome.Bucket(time.Second)
	for _, tt := range []struct {
		p          float64
		fast, slow uint32
		others     uint64
		want       time.Duration
		beyond     bool
	}{
		{p: 0.5, fast: 1 << 31, slow: 1 << 31, want: time.Microsecond},
		{p: 0.5, fast: 1<<31 - 1, slow: 1<<31 + 1, want: time.Second},
		{p: 0.75, fast: 3 << 24, slow: 1 << 24, want: time.Microsecond},
		{p: 0.07, fast: 7, slow: 93, want: time.Microsecond},
		{p: 0.99, fast: 99, others: 1, want: time.Microsecond},
		{p: 0.99, fast: 98, others: 2, beyond: true},
		{p: 0.5, others: 3, beyond: true},
		{p: 1, fast: 1, want: time.Microsecond},
		{p: 0, fast: 1, slow: 5, want: time.Microsecond},
	} {
		d := make(outcome.Delays, outcome.DelayBuckets)
		d[fast], d[slow] = tt.fast, tt.slow
		lo, hi, ok := d.Quantile(tt.p, tt.others)
		if ok == tt.beyond || ok && (tt.want < lo || tt.want >= hi) {
			t.Errorf("%+v: from %v to %v, %v", tt, lo, hi, ok)
		}
	}
}

// grouped is the built-in outcome of messages' waits in mailboxes, grouped.
func grouped(group string) outcome.Spec {
	return outcome.Spec{
		Name: "mailbox", VM: outcome.Events{Builtin: "mailbox"}, Group: group,
		BinWidth: 100 * time.Millisecond, Bins: 100,
	}
}

// sums adds the groups of all batches by their keys.
func (s *source) sums() map[string]outcome.Group {
	sums := make(map[string]outcome.Group)
	for _, b := range s.batches {
		for _, c := range b.Counts {
			for _, g := range c.Groups {
				sum := g
				if before, ok := sums[g.Key]; ok {
					sum = g.Add(before)
				}
				sums[g.Key] = sum
			}
		}
	}
	return sums
}

// receivers starts processes that take messages until they are stopped, and has each be
// sent as many.
const receivers = `
	Loop = fun Loop() -> receive m -> Loop() end end,
	Registered = spawn(Loop),
	(catch register(taker_of_messages, Registered)),
	{ok, Manager} = gen_event:start(),
	[Registered ! m || _ <- lists:seq(1, 300)],
	[gen_event:sync_notify(Manager, ping) || _ <- lists:seq(1, 200)],
	ok`

// Groups are the processes, with the names that they have, and all of the instances are
// in them.
func TestGroupsByPID(t *testing.T) {
	v := vmtest.Start(t, erlang.Options{})
	s := newSourceEvery(t, vm.Target{PID: v.PID()}, 200*time.Millisecond, []outcome.Spec{grouped(outcome.GroupPID)})
	vmtest.Eval(t, v, receivers)
	s.collectNow()
	s.collectUntil("the names", func() bool { // which are read in the background at first
		vmtest.Eval(t, v, `whereis(taker_of_messages) ! m`)
		for _, g := range s.sums() {
			if g.Name == "taker_of_messages" {
				return true
			}
		}
		return false
	})
	var all, instances uint64
	for key, g := range s.sums() {
		all += g.Instances()
		if g.Name == "taker_of_messages" && (g.Successes < 300 || g.Process.String() != key) {
			t.Errorf("%+v", g)
		}
	}
	for _, c := range s.totals() {
		instances += c.Instances()
	}
	if all != instances {
		t.Errorf("%d instances, %d in groups", instances, all)
	}
}

// Groups are functions: that of an OTP process is the one behind proc_lib.
func TestGroupsByMFA(t *testing.T) {
	v := vmtest.Start(t, erlang.Options{})
	s := newSourceEvery(t, vm.Target{PID: v.PID()}, 200*time.Millisecond, []outcome.Spec{grouped(outcome.GroupMFA)})
	const want = "gen_event:init_it/6"
	s.collectUntil(fmt.Sprintf("a group %s among groups", want), func() bool {
		vmtest.Eval(t, v, receivers)
		_, otp := s.sums()[want]
		_, fun := s.sums()["erlang:apply/2"]
		return otp && fun
	})
}

// startServers starts OTP processes, and keeps them for pingServers.
const startServers = `
	Started = [begin {ok, P} = gen_event:start(), P end || _ <- lists:seq(1, %d)],
	persistent_term:put(servers, Started ++ persistent_term:get(servers, [])),
	ok`

// pingServers sends a message to each of the servers, and waits for the answer, until all
// have got as many.
const pingServers = `
	[gen_event:sync_notify(P, ping) || _ <- lists:seq(1, %d), P <- persistent_term:get(servers)],
	ok`

// functionsOf returns how many instances each function has in a batch.
func functionsOf(b outcome.Batch) map[string]uint64 {
	n := make(map[string]uint64)
	for _, c := range b.Counts {
		for _, g := range c.Groups {
			n[g.Key] += g.Instances()
		}
	}
	return n
}

// Functions are known from the first window on, of as many processes as there are, and of
// those that are spawned meanwhile as soon as they do anything.
func TestFunctionsOfManyProcesses(t *testing.T) {
	const servers, rounds, function = 400, 40, "gen_event:init_it/6"
	v := vmtest.Start(t, erlang.Options{})
	vmtest.Eval(t, v, fmt.Sprintf(startServers, servers))
	pinged := make(chan error, 1)
	go func() {
		_, err := v.Call(t.Context(), "erlang", "apply", vmtest.Fun(fmt.Sprintf(pingServers, 1000)))
		pinged <- err
	}()
	s := newSourceEvery(t, vm.Target{PID: v.PID()}, 200*time.Millisecond, []outcome.Spec{grouped(outcome.GroupMFA)})
	if n := functionsOf(s.first); n[""] > 0 || n[function] == 0 {
		t.Errorf("the first window: %v", n)
	}
	s.collectDuring(func() {
		if err := <-pinged; err != nil {
			t.Error(err)
		}
		vmtest.Eval(t, v, fmt.Sprintf(startServers, servers)+", "+fmt.Sprintf(pingServers, rounds))
	})
	s.collectNow()
	sums := s.sums()
	if n := sums[function].Successes; n < 2*servers*rounds {
		t.Errorf("%d messages of %s, want %d at least", n, function, 2*servers*rounds)
	}
	if n := sums[""].Instances(); n > 0 {
		t.Errorf("of %d messages the function is not known", n)
	}
}

// Spans are grouped by the processes that start them.
func TestSpansByPID(t *testing.T) {
	v := vmtest.Start(t, erlang.Options{})
	spec := outcome.Spec{Name: "outcome", Span: "load", Group: outcome.GroupPID, BinWidth: 100 * time.Millisecond, Bins: 100}
	s := newSourceEvery(t, vm.Target{PID: v.PID()}, 200*time.Millisecond, []outcome.Spec{spec})
	vmtest.Call(t, v, "span_load", "run", "[#{spans => 100, procs => 4}]")
	s.collectNow()
	var all uint64
	sums := s.sums()
	for key, g := range sums {
		all += g.Successes
		if g.Process.String() != key || g.Successes != 25 {
			t.Errorf("%+v", g)
		}
	}
	if len(sums) != 4 || all != 100 {
		t.Errorf("%d groups of %d spans, want 4 of 100", len(sums), all)
	}
}
