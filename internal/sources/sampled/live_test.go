package sampled_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/sources/sampled"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// The work of three processes: each in turn does a number of units in its own function. In compiled
// code, a unit is a number of reductions; the other kind of work runs in C code.
const (
	module = `
-module('Elixir.Busy').
-export([start/0, counts/0, a/2, b/2, c/2]).
start() -> register(busy, spawn(fun() -> rounds([spawn(fun() -> worker(K) end) || K <- [a, b, c]], 0) end)).
rounds(Ps, N) -> [begin P ! {self(), U}, receive {P, done} -> ok end end || {P, U} <- lists:zip(Ps, [6, 3, 1])],
	receive {From, counts} -> From ! {counts, N + 1, Ps} after 0 -> ok end, rounds(Ps, N + 1).
counts() -> busy ! {self(), counts}, receive {counts, N, Ps} -> {N, [element(2, process_info(P, reductions)) || P <- Ps], Ps} end.
worker(K) -> receive {From, U} -> 'Elixir.Busy':K(U, 20000), From ! {self(), done} end, worker(K).
a(0, _) -> ok; a(U, N) -> a1(N), a(U - 1, N).
b(0, _) -> ok; b(U, N) -> b1(N), b(U - 1, N).
c(0, _) -> ok; c(U, N) -> c1(N), c(U - 1, N).
`
	compiled = `
a1(0) -> ok; a1(N) -> a1(N - 1).
b1(0) -> ok; b1(N) -> b1(N - 1).
c1(0) -> ok; c1(N) -> c1(N - 1).
`
	inC = `
a1(N) -> erlang:crc32(binary:copy(<<1, 2, 3, 4, 5>>, N)), spin(N div 10).
b1(N) -> erlang:crc32(binary:copy(<<1, 2, 3, 4, 5>>, N)), spin(N div 10).
c1(N) -> erlang:crc32(binary:copy(<<1, 2, 3, 4, 5>>, N)), spin(N div 10).
spin(0) -> ok; spin(N) -> spin(N - 1).
`
)

// units is the number of units that each process does in a round.
var units = [...]float64{6, 3, 1}

func start(t *testing.T, otp erlang.OTP, work string) *erlang.VM {
	t.Helper()
	v := vmtest.StartOn(t, otp, erlang.Options{Args: []string{"+S", "1:1"}})
	text := strings.NewReplacer("\n", " ", "\t", " ").Replace(module + work)
	vmtest.Eval(t, v, fmt.Sprintf(`{ok, Tokens, _} = erl_scan:string("%s"),
		Forms = (fun Parse([], []) -> []; Parse([{dot, _} = D | Rest], Form) -> {ok, F} = erl_parse:parse_form(lists:reverse([D | Form])), [F | Parse(Rest, [])];
			Parse([T | Rest], Form) -> Parse(Rest, [T | Form]) end)(Tokens, []),
		{ok, M, Binary} = compile:forms(Forms), {module, M} = code:load_binary(M, "busy", Binary), M:start()`, text))
	return v
}

// run sums the samples of a VM over some windows.
func run(t *testing.T, pid, windows int) (cells []sampled.Cell, notices []string) {
	t.Helper()
	s, err := sampled.Open(t.Context(), sampled.Config{Target: vm.Target{PID: pid}, Window: 500 * time.Millisecond, Rate: 997})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	for n := range windows {
		w, err := s.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, notice := range w.Notices {
			notices = append(notices, notice.Text)
		}
		if n == 0 {
			continue // the location of the schedulers' data is not proven yet
		}
		var sum uint64
		for _, c := range w.Cells {
			sum += c.N
			cells = append(cells, c)
		}
		if sum != w.Cost.Events || sum > w.Taken {
			t.Errorf("%d samples in cells, %d of the VM, %d in all", sum, w.Cost.Events, w.Taken)
		}
	}
	return cells, notices
}

// counts asks the VM what work its processes have done.
func counts(t *testing.T, v *erlang.VM) (rounds int64, reductions [3]float64, pids []string) {
	t.Helper()
	term := vmtest.Eval(t, v, `{N, R, Ps} = 'Elixir.Busy':counts(), {N, R, [pid_to_list(P) || P <- Ps]}`)
	all := vmtest.Integers(t, term)
	for i := range reductions {
		reductions[i] = float64(all[1+i])
		pids = append(pids, fmt.Sprintf("<0.%d.%d>", all[4+3*i+1], all[4+3*i+2]))
	}
	return all[0], reductions, pids
}

// agree compares numbers of samples with known shares, within five standard deviations.
func agree(t *testing.T, what string, n, shares [3]float64) {
	t.Helper()
	all, whole := n[0]+n[1]+n[2], shares[0]+shares[1]+shares[2]
	if all < 200 {
		t.Errorf("%s: only %v samples", what, all)
		return
	}
	for i := range n {
		p := shares[i] / whole
		if tolerance := 5*math.Sqrt(all*p*(1-p)) + 1; math.Abs(n[i]-all*p) > tolerance {
			t.Errorf("%s: %v of %v samples are of process %d, want %.0f ± %.0f", what, n[i], all, i, all*p, tolerance)
		}
	}
	t.Logf("%s: %v of %v samples, shares %v", what, n, all, shares)
}

// On VMs of each release, with and without symbols, the shares of processes and functions match the
// work that they do.
func TestSharesOfWork(t *testing.T) {
	vmtest.NeedEBPF(t)
	vmtest.OnEach(t, func(t *testing.T, otp erlang.OTP) {
		for _, stripped := range []bool{false, true} {
			if stripped {
				vmtest.Strip(t, otp.Emulator())
			}
			hidden := stripped && vm.ReleaseOf(otp.Emulator()) == 29 // this release exports no symbols
			t.Run(fmt.Sprintf("compiled, stripped %v", stripped), func(t *testing.T) { testShares(t, otp, compiled, hidden) })
			t.Run(fmt.Sprintf("in C, stripped %v", stripped), func(t *testing.T) { testShares(t, otp, inC, hidden) })
		}
	})
}

func testShares(t *testing.T, otp erlang.OTP, work string, hidden bool) {
	v := start(t, otp, work)
	rounds, before, pids := counts(t, v)
	cells, notices := run(t, v.PID(), 6)
	after, reductions, _ := counts(t, v)
	if after-rounds < 20 {
		t.Fatalf("only %d rounds", after-rounds)
	}
	for i := range reductions {
		reductions[i] -= before[i]
	}
	var processes, functions [3]float64
	kinds := make(map[sampled.Kind]uint64)
	terms := make(map[string]bool)
	for _, c := range cells {
		kinds[c.Who.Kind] += c.N
		for i, pid := range pids {
			if c.Who.Kind == sampled.Process && c.Who.String() == pid {
				processes[i] += float64(c.N)
			}
			if strings.HasPrefix(c.Function, "'Elixir.Busy':"+string(rune('a'+i))) {
				functions[i] += float64(c.N)
				terms[fmt.Sprint(i, c.Who)] = true
				if c.Who.Kind == sampled.Process && c.Who.String() != pid {
					t.Errorf("%v is in %s, which is the work of %s", c.Who, c.Function, pid)
				}
			}
		}
	}
	t.Log(kinds, notices)
	if work == compiled {
		agree(t, "functions by work", functions, units)
		agree(t, "functions by reductions", functions, reductions)
	}
	if hidden {
		if kinds[sampled.Process] > 0 || kinds[sampled.Nobody] > 0 || kinds[sampled.Term]+kinds[sampled.Unknown] == 0 || len(notices) < 2 {
			t.Errorf("%v %q", kinds, notices)
		}
		if work == compiled && len(terms) != 3 {
			t.Errorf("%d terms of three processes: %v", len(terms), terms)
		}
		return
	}
	agree(t, "processes", processes, units)
	if kinds[sampled.Term] > 0 || kinds[sampled.NoRoom] > 0 {
		t.Errorf("%v", kinds)
	}
}

// When a VM ends, by itself or killed, the source reports that it has ended and nothing else. There
// are no windows after that.
func TestVMEnds(t *testing.T) {
	vmtest.NeedEBPF(t)
	for name, end := range map[string]func(*erlang.VM) error{
		"stopped": (*erlang.VM).Stop,
		"killed":  func(v *erlang.VM) error { return unix.Kill(v.PID(), unix.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) { testEnds(t, end) })
	}
}

func testEnds(t *testing.T, end func(*erlang.VM) error) {
	v := vmtest.Start(t, erlang.Options{})
	s, err := sampled.Open(t.Context(), sampled.Config{Target: vm.Target{PID: v.PID()}, Window: 100 * time.Millisecond, Rate: sampled.DefaultRate})
	if err != nil {
		t.Fatal(err)
	}
	if w, err := s.Next(t.Context()); err != nil || len(w.VMs) != 1 {
		t.Fatalf("%v %v", w, err)
	}
	if err := end(v); err != nil {
		t.Fatal(err)
	}
	var notices []string
	for {
		w, err := s.Next(t.Context())
		if errors.Is(err, sampled.ErrEnded) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(w.VMs) > 1 {
			t.Errorf("%v", w.VMs)
		}
		for _, n := range w.Notices {
			notices = append(notices, n.Text)
		}
	}
	if len(notices) != 1 || !strings.HasSuffix(notices[0], " has ended") {
		t.Errorf("%q", notices)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
