package procname

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
	"github.com/beamscope/beamscope/usdt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a VM that has been started.
func open(t testing.TB, vm *erlang.VM) *Reader {
	t.Helper()
	var layouts Layouts
	r, err := layouts.Open(t.Context(), vm.PID())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// written evaluates an expression and returns its value, a list of lists of texts.
func written(t testing.TB, vm *erlang.VM, expression string) [][]string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "written")
	vmtest.Eval(t, vm, fmt.Sprintf(`ok = file:write_file(%q, unicode:characters_to_binary(
		[[[Text, "\x01"] || Text <- Line] ++ "\x02" || Line <- begin %s end]))`, path, expression))
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all [][]string
	for line := range strings.SplitSeq(strings.TrimSuffix(string(data), "\x02"), "\x02") {
		all = append(all, strings.Split(strings.TrimSuffix(line, "\x01"), "\x01"))
	}
	return all
}

// truth contains the VM's own data about a list of processes.
const truth = `
	MFA = fun({M, F, A}) -> io_lib:format("~tw:~tw/~w", [M, F, A]) end,
	Name = fun(P) -> case process_info(P, registered_name) of
		{_, N} -> io_lib:format("~tw", [N]); [] -> "" end end,
	Initial = fun(P) -> {_, D} = process_info(P, dictionary),
		case lists:keyfind('$initial_call', 1, D) of
			{_, {_, _, _}} -> MFA(proc_lib:translate_initial_call(P)); _ -> "" end end,
	Spawned = fun(P) -> {_, C} = process_info(P, initial_call), MFA(C) end,
	[[pid_to_list(P), Name(P), Initial(P), Spawned(P)] || P <- %s]`

// ask returns the VM's own data about the processes in an Erlang list.
func ask(t testing.TB, vm *erlang.VM, processes string) map[string]Name {
	t.Helper()
	all := make(map[string]Name)
	for _, line := range written(t, vm, fmt.Sprintf(truth, processes)) {
		all[line[0]] = Name{Registered: line[1], Initial: line[2], Spawned: line[3]}
	}
	return all
}

// names returns the names of all processes by pid.
func names(t testing.TB, r *Reader) map[string]Name {
	t.Helper()
	all, err := r.All()
	if err != nil {
		t.Fatal(err)
	}
	named := make(map[string]Name)
	for _, p := range all {
		named[p.PID()] = p.Name
	}
	return named
}

// numbers returns the numbers of "<0.number.serial>".
func numbers(t testing.TB, pid string) (number, serial uint32) {
	t.Helper()
	if _, err := fmt.Sscanf(pid, "<0.%d.%d>", &number, &serial); err != nil {
		t.Fatalf("%s: %v", pid, err)
	}
	return number, serial
}

// settled repeats a lookup until the process does not change: garbage collection takes long if the
// VM gets no processor.
func settled(t testing.TB, r *Reader, pid string) (Name, error) {
	t.Helper()
	for {
		name, err := r.Lookup(numbers(t, pid))
		if !errors.Is(err, ErrUnsettled) {
			return name, err
		}
	}
}

// All processes of a VM have the names that the VM itself returns: those of the runtime system,
// which are spawned in C, those of the kernel, and some of every kind.
func TestNamesAreTheVMs(t *testing.T) {
	vmtest.NeedNames(t)
	t.Run("with probes", func(t *testing.T) { namesAreTheVMs(t, vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})) })
	onStock(t, namesAreTheVMs)
	t.Run("large pids", func(t *testing.T) {
		vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes, Args: []string{"+P", "4000000"}})
		vmtest.SpawnMany(t, vm)
		namesAreTheVMs(t, vm)
	})
	for _, release := range vmtest.StockReleases() {
		t.Run(fmt.Sprintf("rebuilt OTP %d", release), func(t *testing.T) {
			namesAreTheVMs(t, vmtest.StartOn(t, vmtest.Rebuilt(t, release), erlang.Options{}))
		})
	}
}

func namesAreTheVMs(t *testing.T, vm *erlang.VM) {
	vmtest.Eval(t, vm, `
		Wait = fun() -> receive stop -> ok end end,
		spawn(Wait),
		spawn(timer, sleep, [infinity]),
		spawn_opt(timer, sleep, [infinity], [{min_heap_size, 10000}]),
		proc_lib:spawn(Wait),
		proc_lib:spawn(timer, sleep, [infinity]),
		spawn(fun() -> put('$initial_call', {by, hand, 7}), Wait() end),
		spawn(fun() -> put('$initial_call', other), Wait() end),
		spawn(fun() -> [put({key, N}, N) || N <- lists:seq(1, 5000)],
			put('$initial_call', {among, many, 255}), Wait() end),
		spawn(fun() -> [put(N, N) || N <- lists:seq(1, 5000)],
			put('$initial_call', {of_few, again, 0}),
			[erase(N) || N <- lists:seq(1, 4990)], garbage_collect(), Wait() end),
		{ok, _} = timer:apply_after(1000000, erlang, self, [])`)
	r := open(t, vm)
	want := ask(t, vm, "processes(), P =/= self()")
	got := make(map[string]Name)
	for pid, among := range names(t, r) {
		name, err := settled(t, r, pid)
		if errors.Is(err, ErrNoProcess) {
			continue // the process that asked was exiting
		}
		if err != nil || among != name && among.Initial != "" {
			t.Errorf("%s: %v, error %v; among all %v", pid, name, err, among)
		}
		got[pid] = name
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-VM +read)\n%s", diff)
	}
	for _, name := range []string{"init", "kernel_sup", "code_server", "logger", "erl_prim_loader"} {
		pid := strings.Trim(vmtest.Eval(t, vm, "pid_to_list(whereis("+name+"))"), `"`)
		if got[pid].Registered != name || got[pid].String() != name {
			t.Errorf("%s, registered as %s, is %+v", pid, name, got[pid])
		}
	}
	for want, of := range map[string]Name{
		"supervisor:kernel/1": {Initial: "supervisor:kernel/1", Spawned: "proc_lib:init_p/5"},
		"timer:sleep/1":       {Spawned: "timer:sleep/1"},
		"by:hand/7":           {Initial: "by:hand/7", Spawned: "erlang:apply/2"},
	} {
		if of.String() != want {
			t.Errorf("%+v is shown as %s", of, of)
		}
	}
	for _, initial := range []string{"by:hand/7", "among:many/255", "of_few:again/0", "timer:sleep/1"} {
		if !slices.ContainsFunc(slices.Collect(maps.Values(got)), func(n Name) bool { return n.Initial == initial }) {
			t.Errorf("no initial call %s among %v", initial, got)
		}
	}
}

// Atoms with any characters are written as Erlang writes them.
func TestAtoms(t *testing.T) {
	vmtest.NeedNames(t)
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	vmtest.Eval(t, vm, `
		Words = ["", "end", "maybe", "else", "Elixir.Shop", "gen_server", "'", "\\", "a'b", "it is",
			[$a | lists:duplicate(254, 16#20ac)], lists:duplicate(255, 16#1f600), [16#fffd], [16#10ffff]],
		Atoms = [list_to_atom(W) || W <- Words ++ [[C] || C <- lists:seq(0, 16#2ff)]
			++ [[$a, C] || C <- lists:seq(0, 16#2ff)]],
		[true = register(A, spawn(timer, sleep, [infinity])) || A <- lists:usort(Atoms)]`)
	want := ask(t, vm, "processes(), process_info(P, initial_call) =:= {initial_call, {timer, sleep, 1}}")
	if len(want) < 2*0x300 {
		t.Fatalf("%d processes", len(want))
	}
	r := open(t, vm)
	for pid, name := range want {
		if got, err := settled(t, r, pid); err != nil || got != name {
			t.Errorf("%s: %q, error %v; VM: %q", pid, got, err, name)
		}
	}
}

// An identifier without a process has no name, and a name that was unregistered is not returned.
func TestGone(t *testing.T) {
	vmtest.NeedNames(t)
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	r := open(t, vm)
	pid := strings.Trim(vmtest.Eval(t, vm, `
		P = spawn(timer, sleep, [infinity]), register(short, P), pid_to_list(P)`), `"`)
	number, serial := numbers(t, pid)
	if name, err := r.Lookup(number, serial); err != nil || name.Registered != "short" {
		t.Fatalf("%v, error %v", name, err)
	}
	vmtest.Eval(t, vm, "unregister(short)")
	if name, err := r.Lookup(number, serial); err != nil || name.Registered != "" || name.String() != "timer:sleep/1" {
		t.Errorf("unregistered: %v, error %v", name, err)
	}
	vmtest.Eval(t, vm, fmt.Sprintf(`
		P = list_to_pid(%q), M = monitor(process, P), exit(P, kill),
		receive {'DOWN', M, process, P, killed} -> ok end`, pid))
	for _, other := range [][2]uint32{{number, serial}, {number, serial + 1}, {30000, 0}, {1 << 15, 0}, {0, 1 << 13}, {1<<32 - 1, 1<<32 - 1}} {
		if name, err := r.Lookup(other[0], other[1]); !errors.Is(err, ErrNoProcess) {
			t.Errorf("<0.%d.%d>: %v, error %v", other[0], other[1], name, err)
		}
	}
	if err := vm.Stop(); err != nil {
		t.Fatal(err)
	}
	if name, err := r.Lookup(0, 0); !errors.Is(err, usdt.ErrProcessGone) {
		t.Errorf("after the VM's end: %v, error %v", name, err)
	}
	if all, err := r.All(); !errors.Is(err, usdt.ErrProcessGone) {
		t.Errorf("after the VM's end: %v, error %v", all, err)
	}
	if _, err := new(Layouts).Open(t.Context(), vm.PID()); !errors.Is(err, usdt.ErrProcessGone) {
		t.Errorf("opened after the VM's end: %v", err)
	}
}

// storm lets processes come and go, register and unregister, collect garbage, and change their
// dictionaries, as fast as they can. Their names show their kind: one kind is spawned by proc_lib
// and the other is not. Their registered names and initial calls contain their pids.
const storm = `
	Words = fun(Kind) -> P = pid_to_list(self()),
		{list_to_atom(Kind ++ P), list_to_atom(Kind ++ "x" ++ P)} end,
	Churn = fun() ->
		[put({key, K}, lists:seq(1, K)) || K <- lists:seq(1, 20)],
		erlang:garbage_collect(),
		[erase({key, K}) || K <- lists:seq(1, 20)],
		erlang:garbage_collect(self(), [{type, minor}]) end,
	Life = fun(Kind, Rounds) ->
		{A, B} = Words(Kind),
		put('$initial_call', {A, A, 1}),
		(fun Loop(0) -> ok; Loop(N) ->
			register(A, self()), Churn(),
			put('$initial_call', {B, B, 2}),
			unregister(A), register(B, self()), Churn(),
			put('$initial_call', {A, A, 1}),
			unregister(B),
			Loop(if N =:= infinity -> N; true -> N - 1 end) end)(Rounds) end,
	Start = fun(N, Rounds) when N rem 2 =:= 0 -> spawn_monitor(fun() -> Life("s", Rounds) end);
		(_, Rounds) -> P = proc_lib:spawn(fun() -> Life("p", Rounds) end), {P, monitor(process, P)} end,
	Await = fun({P, M}) -> receive {'DOWN', M, process, P, _} -> ok end end,
	spawn(fun() ->
		[Start(N, infinity) || N <- lists:seq(1, 10)],
		(fun Go() -> [Await(P) || P <- [Start(N, 1) || N <- lists:seq(1, 20)]], Go() end)()
	end)`

// During a storm there are names, and never a wrong one.
func TestStorm(t *testing.T) {
	vmtest.NeedNames(t)
	options := erlang.Options{Args: []string{"+t", "5000000"}}
	t.Run("with probes", func(t *testing.T) { namesInStorm(t, vmtest.Start(t, options)) })
	t.Run("stock", func(t *testing.T) { namesInStorm(t, vmtest.StartOn(t, vmtest.Stock(t, 25), options)) })
}

func namesInStorm(t *testing.T, vm *erlang.VM) {
	const enough = 2000 // names of each kind that must be seen
	r := open(t, vm)
	spawned := map[string]bool{"erlang:apply/2": true, "proc_lib:init_p/3": true}
	for _, name := range names(t, r) {
		spawned[name.Spawned] = true
	}
	vmtest.Eval(t, vm, storm)
	var registered, initial, unsettled, seen int
	for registered < enough || initial < enough {
		all, err := r.All()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			for range 3 { // also those that have ended since
				name, err := r.Lookup(p.Number, p.Serial)
				switch {
				case errors.Is(err, ErrUnsettled):
					unsettled++
				case errors.Is(err, ErrNoProcess):
				case err != nil:
					t.Fatal(err)
				}
				p.Name = name
				checkStorm(t, p)
				if err == nil && !spawned[name.Spawned] {
					t.Errorf("%s is named %+v", p.PID(), name)
				}
				seen++
				if strings.Contains(name.Registered, "<") {
					registered++
				}
				if strings.Contains(name.Initial, "<") {
					initial++
				}
			}
		}
	}
	t.Logf("%d looked up, %d registered, %d initial calls, %d unsettled", seen, registered, initial, unsettled)
}

// checkStorm checks a name that may be one of the storm.
func checkStorm(t *testing.T, p Process) {
	t.Helper()
	pid := p.PID()
	var kinds []string
	for _, kind := range []string{"s", "p"} {
		for _, x := range []string{"", "x"} {
			word := "'" + kind + x + pid + "'"
			if p.Name.Registered == word {
				kinds = append(kinds, kind)
			}
			arity := 1 + len(x)
			if p.Name.Initial == word+":"+word+"/"+strconv.Itoa(arity) {
				kinds = append(kinds, kind)
			}
		}
	}
	told := strings.Count(p.Name.Registered, "<") + strings.Count(p.Name.Initial, "<")/2
	if len(kinds) != told {
		t.Errorf("%s is named %+v", pid, p.Name)
	}
	spawned := map[string]string{"s": "erlang:apply/2", "p": "proc_lib:init_p/3"}
	for _, kind := range kinds {
		if p.Name.Spawned != spawned[kind] {
			t.Errorf("%s is named %+v", pid, p.Name)
		}
	}
}

// A program that is not a VM, or has no debugging information of one, is refused.
func TestNoLayout(t *testing.T) {
	if _, err := new(Layouts).Open(t.Context(), os.Getpid()); !errors.Is(err, ErrNoLayout) {
		t.Errorf("this process: %v", err)
	}
}

// A Namer has names once the VM has been opened.
func TestNamer(t *testing.T) {
	vmtest.NeedNames(t)
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	var layouts Layouts
	n := NewNamer(&layouts, vm.PID())
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	now := int64(1)
	n.now = func() int64 { return now }
	<-n.opened
	pid := strings.Trim(vmtest.Eval(t, vm, `
		P = spawn(timer, sleep, [infinity]), register(before, P), pid_to_list(P)`), `"`)
	number, serial := numbers(t, pid)
	check := func(want string) {
		t.Helper()
		if name, ok := n.Name(number, serial); name.String() != want || ok != (want != "") {
			t.Errorf("%q, %v; want %q", name, ok, want)
		}
	}
	check("before")
	vmtest.Eval(t, vm, "P = whereis(before), unregister(before), register('after', P)")
	now += maxAge - 1
	check("before")
	now++
	check("'after'")
	vmtest.Eval(t, vm, "M = monitor(process, 'after'), exit(whereis('after'), kill), receive {'DOWN', M, _, _, _} -> ok end")
	now += maxMemory - 1
	check("'after'")
	now++
	check("")
	check("")
	number = 0
	check("init")
	if err := vm.Stop(); err != nil {
		t.Fatal(err)
	}
	now += maxAge
	check("")
	if err := n.Err(); !errors.Is(err, usdt.ErrProcessGone) {
		t.Errorf("error %v", err)
	}
}

// A process of proc_lib has its initial call as its name as soon as it has stored it: the spawned
// function of proc_lib is not cached.
func TestNamerOfStartingProcess(t *testing.T) {
	vmtest.NeedNames(t)
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	var layouts Layouts
	n := NewNamer(&layouts, vm.PID())
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	n.now = func() int64 { return 1 } // no time passes
	<-n.opened
	pid := strings.Trim(vmtest.Eval(t, vm, `
		Self = self(),
		P = proc_lib:spawn(fun() ->
			Call = erase('$initial_call'), Self ! ready,
			receive {note, From} -> put('$initial_call', Call), From ! noted end,
			receive never -> ok end
		end),
		receive ready -> ok end,
		persistent_term:put(starting, P),
		pid_to_list(P)`), `"`)
	number, serial := numbers(t, pid)
	if name, ok := n.Name(number, serial); !ok || name.String() != "proc_lib:init_p/3" {
		t.Fatalf("before: %v, %v", name, ok)
	}
	vmtest.Eval(t, vm, "persistent_term:get(starting) ! {note, self()}, receive noted -> ok end")
	if name, ok := n.Name(number, serial); !ok || !strings.HasPrefix(name.String(), "erl_eval:") {
		t.Errorf("after: %v, %v", name, ok)
	}
}

// A Namer of no VM says why it has no names.
func TestNamerRefused(t *testing.T) {
	var layouts Layouts
	n := NewNamer(&layouts, os.Getpid())
	<-n.opened
	if name, ok := n.Name(0, 0); ok {
		t.Errorf("named %v", name)
	}
	if err := n.Err(); !errors.Is(err, ErrNoLayout) {
		t.Errorf("error %v", err)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}
