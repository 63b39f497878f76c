package top

import (
	"context"
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

// startLoad starts processes with different activities, and returns their pids.
func startLoad(t *testing.T, beam *erlang.VM) (busy, maker, slow string) {
	t.Helper()
	pids := vmtest.Eval(t, beam, `
		Busy = spawn(synthetic_work, work, [1000000000000]),
		Maker = spawn(fun F() -> _ = [integer_to_list(N) || N <- lists:seq(1, 20000)], timer:sleep(10), F() end),
		Slow = spawn(fun F() -> receive work -> timer:sleep(5), F() end end),
		_ = spawn(fun F() -> [Slow ! work || _ <- lists:seq(1, 20)], timer:sleep(150), F() end),
		lists:map(fun erlang:pid_to_list/1, [Busy, Maker, Slow])`)
	all := strings.Split(strings.Trim(strings.TrimSpace(pids), "[]"), ",")
	if len(all) != 3 {
		t.Fatalf("pids %s", pids)
	}
	unquoted := func(s string) string { return strings.Trim(s, `" `) }
	return unquoted(all[0]), unquoted(all[1]), unquoted(all[2])
}

// On a real VM the busy process comes first by run time, the one that makes garbage by garbage
// collections, and the slow receiver by the wait in its mailbox.
func TestLive(t *testing.T) {
	vmtest.NeedEvents(t)
	vmtest.NeedEBPF(t)
	beam, err := erlang.StartVM(t.Context(), vmtest.Private(t), erlang.Options{Carrier: erlang.Probes})
	if err != nil {
		t.Fatal(err)
	}
	defer beam.Stop()
	busy, maker, slow := startLoad(t, beam)

	const enough = 4 // windows
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	windows := 0
	x, err := Open(t.Context(), Options{
		Window: 500 * time.Millisecond, By: outcome.GroupPID, Limit: price.Limit{Rate: 1e9},
		Source: func(_ context.Context, p outcome.Plan) (outcome.Source, error) {
			return vmsource.New(t.Context(), vmsource.Config{Target: vm.Target{PID: beam.PID()}, Plan: p})
		},
		Tabled: func(*Table) error {
			if windows++; windows == enough {
				cancel()
			}
			return nil
		},
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
	for c, want := range map[Column]string{ByCPU: busy, ByGC: maker, ByWords: maker, ByP99: slow, ByMessages: slow} {
		x.Do(func(m *Model) {
			m.Average(MaxAverage)
			m.SortBy(c)
		})
		table := x.Table()
		if len(table.Rows) == 0 || table.Rows[0].Key != want {
			t.Errorf("by %v: want %s first:\n%s", c, want, printed(t, table))
		}
	}
}

// The end of the VM ends top, with a notice.
func TestLiveEnd(t *testing.T) {
	vmtest.NeedEvents(t)
	vmtest.NeedEBPF(t)
	beam, err := erlang.StartVM(t.Context(), vmtest.Private(t), erlang.Options{Carrier: erlang.Probes})
	if err != nil {
		t.Fatal(err)
	}
	defer beam.Stop()
	var notices []string
	x, err := Open(t.Context(), Options{
		Window: 200 * time.Millisecond, By: outcome.GroupPID, Limit: price.Limit{Rate: 1e9},
		Source: func(_ context.Context, p outcome.Plan) (outcome.Source, error) {
			return vmsource.New(t.Context(), vmsource.Config{Target: vm.Target{PID: beam.PID()}, Plan: p})
		},
		Tabled: func(*Table) error {
			go beam.Stop()
			return nil
		},
		Noticed: func(n outcome.Notice) { notices = append(notices, n.Text) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if err := x.Run(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(notices, "\n"); !strings.Contains(text, "has exited") {
		t.Errorf("notices:\n%s", text)
	}
}

func printed(t *testing.T, table *Table) string {
	t.Helper()
	var out strings.Builder
	if err := NewText(&out, 10).Table(table); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
