package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/vmtest"
)

// Spans that are slow for a known reason are explained by it: beamscope trace on a live
// VM, without a scope file.
func TestTraceLive(t *testing.T) {
	vmtest.NeedEBPF(t)
	beam := vmtest.Start(t, erlang.Options{})
	for _, test := range []struct{ scenario, want string }{
		{"gc", "garbage collection of its own process"},
		{"mailbox", "mailbox wait of "},
		{"callee", "running of "},
	} {
		t.Run(test.scenario, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			slow := make(chan struct{})
			go func() {
				defer close(slow)
				for ctx.Err() == nil {
					vmtest.Call(t, beam, "causes", "run", "["+test.scenario+", #{spans => 5}]")
				}
			}()
			f := traceFlags{count: 1, outcome: "slow"}
			f.observe.pid, f.observe.duration = beam.PID(), 6*time.Second
			var out, log strings.Builder
			err := f.live(ctx, &out, &log)
			cancel()
			<-slow
			if err != nil || !strings.Contains(out.String(), test.want) {
				t.Errorf("%v: want %q in\n%s\n%s", err, test.want, out.String(), log.String())
			}
			t.Log(out.String(), log.String())
		})
	}
}
