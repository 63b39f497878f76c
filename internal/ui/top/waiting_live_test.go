package top

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/sources/vmsource"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/price"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// watch observes a VM until enough returns true for a table, and returns that table.
func watch(t *testing.T, beam *erlang.VM, by string, enough func(*Table) bool) *Table {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last *Table
	x, err := Open(t.Context(), Options{
		Window: 250 * time.Millisecond, By: by, Sort: Automatic, Limit: price.Limit{Rate: 1e9}, Processor: ProcessorOf,
		Source: func(_ context.Context, p outcome.Plan) (outcome.Source, error) {
			return vmsource.New(t.Context(), vmsource.Config{Target: vm.Target{PID: beam.PID()}, Plan: p})
		},
		Tabled: func(table *Table) error {
			if last = table; enough(table) {
				cancel()
			}
			return nil
		},
		Noticed: func(n outcome.Notice) { t.Log(n.Text) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := x.Run(ctx, 0); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", printed(t, last))
	return last
}

// rowIn returns the row of a table with a key, or nil.
func rowIn(table *Table, key string) *Row {
	for i := range table.Rows {
		if table.Rows[i].Key == key {
			return &table.Rows[i]
		}
	}
	return nil
}

// pids evaluates an expression whose value is a list of pids.
func pids(t *testing.T, beam *erlang.VM, expression string) []string {
	t.Helper()
	said := vmtest.Eval(t, beam, "lists:map(fun erlang:pid_to_list/1, begin "+expression+" end)")
	var all []string
	for _, text := range strings.Split(strings.Trim(strings.TrimSpace(said), "[]"), ",") {
		all = append(all, strings.Trim(text, "\" \n"))
	}
	return all
}

// Growing queues without a receiver come first although they have no throughput, and their
// lengths equal those that the VM reports. The processes are one that takes other messages, one
// that is suspended, and one in a dirty function.
func TestLiveQueuesGrow(t *testing.T) {
	vmtest.NeedEvents(t)
	vmtest.NeedEBPF(t)
	beam, err := erlang.StartVM(t.Context(), vmtest.Private(t), erlang.Options{Carrier: erlang.Probes})
	if err != nil {
		t.Fatal(err)
	}
	defer beam.Stop()
	all := pids(t, beam, `
		{module, _} = code:ensure_loaded(timer),
		Deaf = spawn(fun() -> receive never -> ok end end),
		Asleep = spawn(timer, sleep, [infinity]),
		Still = spawn(fun() -> receive never -> ok end end),
		[[P ! {before, N} || N <- lists:seq(1, 5000)] || P <- [Deaf, Asleep]],
		[Still ! {before, N} || N <- lists:seq(1, 20000)],
		spawn(fun() -> erlang:suspend_process(Asleep), receive never -> ok end end),
		Grow = spawn(fun F() -> receive grow ->
			(fun G(30000) -> ok; G(N) -> Deaf ! {later, N}, Asleep ! {later, N}, N rem 50 =:= 0 andalso timer:sleep(5), G(N + 1) end)(5000)
			, F() end end),
		register(grow, Grow), register(deaf, Deaf),
		[Deaf, Asleep, Still]`)
	deaf, asleep, still := all[0], all[1], all[2]
	started, sorted := false, false
	table := watch(t, beam, outcome.GroupPID, func(table *Table) bool {
		row := rowIn(table, deaf)
		if row == nil || !row.Seen.Known {
			return false
		}
		if !started {
			if started = true; row.Seen.Waiting != 5000 || !rowIn(table, still).Seen.Known || table.Sort == ByWaiting {
				t.Errorf("before it grows: %+v, sorted by %v", row.Seen, table.Sort)
			}
			vmtest.Eval(t, beam, "grow ! grow")
		}
		sorted = sorted || table.Sort == ByWaiting && row.Seen.Growing && row.Seen.Waiting < 30000
		other := rowIn(table, asleep)
		return other != nil && other.Seen.Waiting == 30000 && row.Seen.Waiting == 30000 && row.Seen.Aged && other.Seen.Aged
	})
	if !sorted {
		t.Error("the table was never sorted by waiting messages")
	}
	if table.Rows[0].Key != deaf && table.Rows[0].Key != asleep {
		t.Errorf("%s is first", table.Rows[0].Key)
	}
	for _, key := range all {
		said := strings.TrimSpace(vmtest.Eval(t, beam, fmt.Sprintf(`element(2, process_info(list_to_pid(%q), message_queue_len))`, key)))
		seen := rowIn(table, key).Seen
		if strconv.FormatInt(seen.Waiting, 10) != said {
			t.Errorf("%s: %d waiting, VM: %s", key, seen.Waiting, said)
		}
		if !seen.Before && key == deaf || seen.Growing && key == still {
			t.Errorf("%s: %+v", key, seen)
		}
	}
	if seen := rowIn(table, asleep).Seen; seen.Unfetched != 25000 {
		t.Errorf("suspended: %+v", seen)
	}
	if seen := rowIn(table, deaf).Seen; seen.Function == "" || seen.Memory <= 0 || seen.Unfetched != 0 {
		t.Errorf("%+v", seen)
	}
	if total := table.Total.Seen; total.Waiting < 80000 {
		t.Errorf("total %+v", total)
	}
}

// Each window of a small VM has its own survey: a queue that only grows is longer in each of
// them.
func TestLiveSurveyOfEachWindow(t *testing.T) {
	vmtest.NeedEvents(t)
	vmtest.NeedEBPF(t)
	beam, err := erlang.StartVM(t.Context(), vmtest.Private(t), erlang.Options{Carrier: erlang.Probes})
	if err != nil {
		t.Fatal(err)
	}
	defer beam.Stop()
	deaf := pids(t, beam, `
		Deaf = spawn(fun() -> receive never -> ok end end),
		spawn(fun F() -> Deaf ! x, timer:sleep(5), F() end),
		[Deaf]`)[0]
	before, inARow := int64(0), 0
	watch(t, beam, outcome.GroupPID, func(table *Table) bool {
		row := rowIn(table, deaf)
		if row == nil || !row.Seen.Known || row.Seen.Stale {
			inARow = 0
			return false
		}
		if row.Seen.Waiting <= before {
			t.Errorf("%d messages wait, but %d waited in the window before", row.Seen.Waiting, before)
		}
		before = row.Seen.Waiting
		inARow++
		return inARow == 8
	})
}

// The processor time of processes agrees with that of their threads according to the operating
// system. A process that sleeps in a dirty function has dirty time, but hardly any processor
// time.
func TestLiveProcessorAndDirtyTime(t *testing.T) {
	vmtest.NeedEvents(t)
	vmtest.NeedEBPF(t)
	beam, err := erlang.StartVM(t.Context(), vmtest.Private(t), erlang.Options{Carrier: erlang.Probes, Args: []string{"+S", "1:1", "+SDio", "2", "+sbwt", "none", "+sbwtdio", "none"}})
	if err != nil {
		t.Fatal(err)
	}
	defer beam.Stop()
	fifo := filepath.Join(t.TempDir(), "fifo")
	all := pids(t, beam, fmt.Sprintf(`
		[] = os:cmd("mkfifo %[1]s"),
		Sleeper = spawn(fun() ->
			{ok, F} = file:open(%[1]q, [raw, read, write, binary]),
			(fun G() -> {ok, _} = file:read(F, 1), G() end)() end),
		Busy = spawn(synthetic_work, work, [1000000000000]),
		[Sleeper, Busy]`, fifo))
	pipe, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	feeding, stop := context.WithCancel(t.Context())
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		for tick := time.NewTicker(50 * time.Millisecond); ; {
			select {
			case <-feeding.Done():
				tick.Stop()
				return
			case <-tick.C:
				pipe.Write([]byte{1})
			}
		}
	}()
	defer func() { stop(); <-fed }()
	var dirty, processor, busy, used, others float64
	windows := 0
	watch(t, beam, outcome.GroupPID, func(table *Table) bool {
		sleeper, worker := rowIn(table, all[0]), rowIn(table, all[1])
		if sleeper == nil || worker == nil || !table.Used.Known || !sleeper.Kinds[Run].Known {
			return false
		}
		windows++
		dirty += sleeper.Kinds[Run].Dirty
		processor += sleeper.Kinds[Run].Processor
		busy += worker.Kinds[Run].Processor
		used += table.Used.Share
		others += table.Total.Kinds[Run].Processor
		return windows == 12
	})
	n := float64(windows)
	t.Logf("sleeper: %.3f dirty, %.4f on a processor; busy %.3f, all %.3f, of the VM %.3f", dirty/n, processor/n, busy/n, others/n, used/n)
	if !(dirty/n >= 0.8 && dirty/n <= 1.2 && processor/n <= 0.1) {
		t.Errorf("sleeper: %.3f dirty, %.4f on a processor", dirty/n, processor/n)
	}
	if !(busy > 0 && others <= used*1.05 && others >= used*0.5) {
		t.Errorf("processes had %.3f, the VM %.3f", others/n, used/n)
	}
}
