package wrapper

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// An Erlang VM that connects is recognised. Its instances belong to the same VM as those observed
// with eBPF, and its times are converted to this machine's clock.
func TestErlangVM(t *testing.T) {
	v := vmtest.Start(t, erlang.Options{Args: []string{
		"-sname", "wrapped@localhost", "-start_epmd", "false", "-erl_epmd_port", "43721",
	}})
	p := outcome.Plan{From: monotonic.Now(), Window: time.Hour, Specs: []outcome.Spec{spec("a", 20)}}
	s, err := New(Config{Listen: "127.0.0.1:0", Plan: p})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	id := outcome.VM{PID: v.PID(), Node: "wrapped@localhost"}

	connect := fmt.Sprintf(`gen_tcp:connect("127.0.0.1", %d, [binary, {active, false}])`, s.Addr().(*net.TCPAddr).Port)
	vmtest.Eval(t, v, fmt.Sprintf(`begin {ok, S} = %s, End = erlang:system_time(nanosecond),
		[ok = gen_tcp:send(S, io_lib:format("n:a;b:~b;e:~b;s:~s~n", [End - 3000000, End, Status]))
			|| Status <- [ok, ok, fa]],
		{ok, <<"start_stub\nset_timeout;a;20\n">>} = gen_tcp:recv(S, 28, 10000),
		gen_tcp:close(S) end`, connect))
	await(t, "the VM to have come and gone", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		b := s.books[id]
		return b != nil && b.connections == 0
	})
	b, err := s.Collect(t.Context(), p.At(0))
	if err != nil {
		t.Fatal(err)
	}
	want := outcome.Counts{Outcome: "a", VM: id, Ends: 3, Successes: 2, Failures: 1}
	got := b.Counts[0]
	got.Bins = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
