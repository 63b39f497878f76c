package procname

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// onEachTable runs a test on VMs of each release, and since OTP 26 also with a larger process
// table, because the term of a process depends on the table's size. It also runs the test on the
// distribution's VMs.
func onEachTable(t *testing.T, test func(*testing.T, *erlang.VM)) {
	vmtest.OnEach(t, func(t *testing.T, otp erlang.OTP) {
		t.Run("small table", func(t *testing.T) { test(t, vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes})) })
		if vm.ReleaseOf(otp.Emulator()) > 25 {
			t.Run("large table", func(t *testing.T) {
				test(t, vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes, Args: []string{"+P", "5000000"}}))
			})
		}
	})
	onStock(t, test)
}

// surveyed returns the figures of all processes by pid.
func surveyed(t testing.TB, r *Reader) map[string]Figures {
	t.Helper()
	all := make(map[string]Figures)
	for from := uint32(0); ; {
		some, next, err := r.Survey(from, surveyMost)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range some {
			all[f.PID()] = f
		}
		if from = next; next == 0 {
			return all
		}
	}
}

// told contains process_info of processes.
const told = `
	MFA = fun({M, F, A}) -> io_lib:format("~tw:~tw/~w", [M, F, A]) end,
	[begin
		[{_, Heap}, {_, Reds}, {_, Current}, {_, Len}] = process_info(P, [total_heap_size, reductions, current_function, message_queue_len]),
		[pid_to_list(P), integer_to_list(Heap * 8), integer_to_list(Reds), MFA(Current), integer_to_list(Len)]
	end || P <- %s]`

// numberOf returns a number from process_info.
func numberOf(t testing.TB, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The figures of processes agree with process_info. Each call of process_info makes the process
// handle a request, which costs reductions. So the figures are between the values before and after.
func TestSurveyAgrees(t *testing.T) { onEachTable(t, surveyAgrees) }

func surveyAgrees(t *testing.T, vm *erlang.VM) {
	r := open(t, vm)
	vmtest.Eval(t, vm, `
		Keep = fun F(X) -> receive {never, Y} -> F(Y) end, X end,
		[begin
			P = spawn(fun() -> Keep(lists:seq(1, 1000 * N)) end),
			[P ! {message, I} || N rem 2 =:= 0, I <- lists:seq(1, 10 * N)],
			register(list_to_atom("idle" ++ integer_to_list(N)), P)
		end || N <- lists:seq(1, 20)],
		{module, _} = code:ensure_loaded(timer),
		Off = spawn_opt(fun() -> timer:sleep(infinity) end, [{message_queue_data, off_heap}]),
		[Off ! x || _ <- lists:seq(1, 7)],
		register(off, Off)`)
	processes := `[whereis(list_to_atom("idle" ++ integer_to_list(N))) || N <- lists:seq(1, 20)] ++ [whereis(N) || N <- [off, init, logger, code_server]]`
	ask := func() [][]string { return written(t, vm, fmt.Sprintf(told, processes)) }
	ask() // then they have fetched their messages
	before := ask()
	got := surveyed(t, r)
	after := ask()
	for i, line := range before {
		f, known := got[line[0]]
		if !known {
			t.Errorf("%s is missing", line[0])
			continue
		}
		if w := numberOf(t, line[4]); f.Waiting != w || f.Unfetched != 0 {
			t.Errorf("%s: %d messages, %d of them not fetched, VM: %d", line[0], f.Waiting, f.Unfetched, w)
		}
		if f.Function != line[3] && f.Function != after[i][3] {
			t.Errorf("%s: in %s, VM: %s, then %s", line[0], f.Function, line[3], after[i][3])
		}
		if f.Reductions < uint64(numberOf(t, line[2])) || f.Reductions > uint64(numberOf(t, after[i][2])) {
			t.Errorf("%s: %d reductions, VM: %s to %s", line[0], f.Reductions, line[2], after[i][2])
		}
		// The VM's figure includes the messages that are not on the heap yet.
		if least, most := numberOf(t, line[1]), numberOf(t, after[i][1]); f.Memory != least && f.Memory != most && (f.Waiting == 0 || f.Memory > most || f.Memory <= 0) {
			t.Errorf("%s: %d bytes, VM: %s, then %s", line[0], f.Memory, line[1], after[i][1])
		}
	}
	if len(before) != 24 || len(got) < len(before) {
		t.Errorf("%d processes, %d of them asked for", len(got), len(before))
	}
}

// The messages of a process that does not run are counted, although it does not fetch them. Signals
// that are not messages are not counted.
func TestSurveySuspended(t *testing.T) { onEachTable(t, surveySuspended) }

func surveySuspended(t *testing.T, vm *erlang.VM) {
	r := open(t, vm)
	pid := strings.Trim(vmtest.Eval(t, vm, `
		{module, _} = code:ensure_loaded(timer),
		P = spawn(timer, sleep, [infinity]),
		[P ! {before, N} || N <- lists:seq(1, 3)],
		{_, 3} = process_info(P, message_queue_len),
		Self = self(),
		spawn(fun() ->
			erlang:suspend_process(P),
			[P ! {later, N} || N <- lists:seq(1, 5000)],
			Self ! suspended,
			timer:sleep(infinity)
		end),
		receive suspended -> pid_to_list(P) end`), `"`)
	if f := surveyed(t, r)[pid]; f.Waiting != 5003 || f.Unfetched != 5000 || f.UnfetchedSignals || f.AtLeast {
		t.Errorf("suspended: %+v", f)
	}
	vmtest.Eval(t, vm, fmt.Sprintf(`P = list_to_pid(%q), [begin link(P), unlink(P) end || _ <- lists:seq(1, 100)]`, pid))
	if f := surveyed(t, r)[pid]; f.Waiting != 5003 {
		t.Errorf("with other signals: %+v", f)
	}
	if said := vmtest.Eval(t, vm, fmt.Sprintf(`element(2, process_info(list_to_pid(%q), message_queue_len))`, pid)); strings.TrimSpace(said) != "5003" {
		t.Errorf("VM: %s", said)
	}
}
