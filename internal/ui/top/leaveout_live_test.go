package top

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/sources/vmsource"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/price"
	"github.com/beamscope/beamscope/internal/testing/otheruser"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// Another user's VM that costs more than the limit is left out. All kinds are still observed in
// the other VMs.
func TestExpensiveVM(t *testing.T) {
	vmtest.NeedEBPF(t)
	ownOTP, otherOTP := vmtest.OfTwoUsers(t)
	quiet := vmtest.StartOn(t, ownOTP, erlang.Options{Carrier: erlang.Probes})
	busy := vmtest.StartOn(t, otherOTP, erlang.Options{Carrier: erlang.Probes})
	vmtest.Eval(t, busy, `spawn(fun Loop() -> self() ! x, receive x -> ok end, erlang:garbage_collect(), Loop() end), ok`)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var notices []string
	without := 0 // number of windows
	x, err := Open(t.Context(), Options{
		Window: 200 * time.Millisecond, By: outcome.GroupPID, Limit: price.Limit{Rate: 20_000},
		Source: func(_ context.Context, p outcome.Plan) (outcome.Source, error) {
			return vmsource.New(t.Context(), vmsource.Config{Target: vm.Target{Exe: ownOTP.Emulator()}, Plan: p})
		},
		Tabled: func(table *Table) error {
			if len(table.VMs) == 1 && table.VMs[0].PID == quiet.PID() {
				without++
			}
			if without == 15 || len(notices) > 20 {
				cancel()
			}
			return nil
		},
		Noticed: func(n outcome.Notice) { notices = append(notices, n.Text) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if err := x.Run(ctx, 0); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("the events of pid %d of user %d are not observed for 1m0s, its spans in the ring are: ", busy.PID(), otheruser.User)
	if text := strings.Join(notices, "\n"); !strings.Contains(text, want) || strings.Contains(text, "gave up") {
		t.Errorf("notices, want %q:\n%s", want, text)
	}
	if table := x.Table(); table.Level != Everything {
		t.Errorf("level %v, want everything:\n%s", table.Level, printed(t, table))
	}
}
