package top

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/otheruser"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/price"
	"github.com/beamscope/beamscope/internal/vm"
	"github.com/beamscope/beamscope/internal/vmtest"
)

// Another user's VM that costs more than all may is left out, and everything of the others is
// observed still.
func TestLoudVM(t *testing.T) {
	vmtest.NeedEBPF(t)
	quiet := vmtest.Start(t, erlang.Options{})
	loud := vmtest.StartOn(t, vmtest.OfOtherUser(t), erlang.Options{})
	vmtest.Eval(t, loud, `spawn(fun Loop() -> self() ! x, receive x -> ok end, erlang:garbage_collect(), Loop() end), ok`)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var notices []string
	without := 0 // windows
	x, err := Open(t.Context(), Options{
		Window: 200 * time.Millisecond, By: outcome.GroupPID, Limit: price.Limit{Rate: 20_000},
		Source: func(_ context.Context, p outcome.Plan) (outcome.Source, error) {
			return outcome.NewVMSource(t.Context(), outcome.VMConfig{Target: vm.Target{}, Plan: p})
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
	want := fmt.Sprintf("pid %d of user %d is not observed for 1m0s: ", loud.PID(), otheruser.User)
	if text := strings.Join(notices, "\n"); !strings.Contains(text, want) || strings.Contains(text, "gave up") {
		t.Errorf("notices, want %q:\n%s", want, text)
	}
	if table := x.Table(); table.Level != Everything {
		t.Errorf("level %v, want everything:\n%s", table.Level, printed(t, table))
	}
}
