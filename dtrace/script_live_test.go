package dtrace_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// bpftrace and the kernel accept the script of all built-in outcomes and of conditions of each
// kind. It reports exactly the events that satisfy the conditions.
func TestBPFtraceScript(t *testing.T) {
	vmtest.NeedEBPF(t)
	vmtest.NeedProgram(t, "bpftrace")
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	spawn := func() string {
		return strings.Trim(vmtest.Eval(t, vm, "pid_to_list(spawn(fun F() -> receive _ -> F() end end))"), `"`)
	}
	sink, done := spawn(), spawn()
	outcomes := builtins()
	want := make(map[string]int)
	for _, test := range []struct {
		name, start string
		events      int
	}{
		{"everything", "message-send[receiver=SINK]", 35},
		{"prefix", `message-send[receiver="SHORT*"]`, 35},
		{"large", "message-send[receiver=SINK and size>=10]", 10},
		{"alternatives", "message-send[receiver=SINK and (size>=10 or label=7)]", 15},
		{"negated", "message-send[receiver=SINK and not label=7]", 30},
		{"unequal", "message-send[receiver=SINK and sender!=SINK]", 35},
		{"below", "message-send[receiver=SINK and label>-1 and label<7 and size<=0]", 20},
		{"quoted", `process-exit[reason="'100% \\\\ \"quoted\"'"]`, 1},
		{"monitors", "process-monitor[type=0 and target=SINK]", 8},
		{"begins", `process-monitor[target="SHORT*"]`, 8},
		{"ports", "process-monitor[type=1 and target=SINK]", 0},
	} {
		start := strings.NewReplacer("SINK", sink, "SHORT", strings.TrimSuffix(sink, "0>")).Replace(test.start)
		outcomes = append(outcomes, scriptOutcome(t, test.name, start))
		if test.events > 0 {
			want[test.name] = test.events
		}
	}
	outcomes = append(outcomes, scriptOutcome(t, "done", "message-send[receiver="+done+"]"))

	script := startBPFtrace(t, vm, outcomes)
	vmtest.Eval(t, vm, fmt.Sprintf(`
		Sink = list_to_pid("%s"), Done = list_to_pid("%s"),
		[Sink ! small || _ <- lists:seq(1, 20)],
		[Sink ! lists:seq(1, 10) || _ <- lists:seq(1, 10)],
		[erlang:demonitor(erlang:monitor(process, Sink)) || _ <- lists:seq(1, 8)],
		{P, M} = spawn_monitor(fun() -> exit('100%% \\ "quoted"') end),
		receive {'DOWN', M, process, P, _} -> ok end,
		gen_server:call(kernel_sup, which_children),
		garbage_collect(),
		{ok, _} = file:read_file(code:which(lists)),
		lists:sum(lists:seq(1, 1000000)),
		seq_trace:set_token(label, 7),
		[Sink ! small || _ <- lists:seq(1, 5)],
		seq_trace:set_token([]),
		Done ! done`, sink, done))
	lines := script.readTo("done")

	got := make(map[string]int)
	seen := make(map[string]bool)
	for _, line := range lines {
		if !scriptLine.MatchString(line) {
			t.Errorf("malformed: %q", line)
			continue
		}
		fields := strings.Fields(line)
		seen[fields[0]+" "+fields[1]] = true
		if _, counted := want[fields[1]]; counted && fields[0] == "s" {
			got[fields[1]]++
		}
		if fields[1] == "everything" && strings.Contains(line, "#7.") {
			got["tokens"]++
		}
	}
	want["tokens"] = 5
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("starts (-want +got):\n%s", diff)
	}
	for _, o := range builtins() {
		for _, kind := range kinds(o) {
			if rare := strings.HasSuffix(o.Name, "_busy"); !rare && !seen[kind+" "+o.Name] {
				t.Errorf("no line %s of %s", kind, o.Name)
			}
		}
	}
}

// scriptLine is the form of a line that scripts write.
var scriptLine = regexp.MustCompile(`^(beamscope events 1|t \d+|` +
	`[sev] \w+ \d+ (<0\.\d+\.\d+>|#Port<0\.\d+>|\d+) \d+( <0\.\d+\.\d+>)?( =\d+)?( #-?\d+\.-?\d+)?|` +
	`y \w+ \d+ <0\.\d+\.\d+> \d+|` +
	`a \w+ \d+ <0\.\d+\.\d+> <0\.\d+\.\d+> \d+)$`)

// builtins returns the built-in outcomes that scripts support.
func builtins() []dtrace.ScriptOutcome {
	var outcomes []dtrace.ScriptOutcome
	for _, b := range dtrace.Builtins() {
		if !b.Rule.RunQueue {
			outcomes = append(outcomes, dtrace.ScriptOutcome{Name: strings.ReplaceAll(b.Name, "-", "_"), Rule: &b.Rule})
		}
	}
	return outcomes
}

// kinds returns the kinds of lines of an outcome.
func kinds(o dtrace.ScriptOutcome) []string {
	list := []string{"s", "e"}
	if o.Rule.Via != nil {
		list = append(list, "v")
	}
	if o.Rule.Sync != nil {
		list = append(list, "y")
	}
	if o.Rule.Arm != nil {
		list = append(list, "a")
	}
	return list
}

// scriptOutcome returns an outcome for tests that only look at its starts. Its pairing is FIFO, so that
// tokens are printed.
func scriptOutcome(t *testing.T, name, start string) dtrace.ScriptOutcome {
	t.Helper()
	rule := &dtrace.Rule{Key: dtrace.Key{Start: "pid", End: "pid"}, Pairing: dtrace.FIFO}
	for text, expr := range map[string]*dtrace.Expr{start: &rule.Start, "process-hibernate": &rule.End} {
		var err error
		if *expr, err = dtrace.ParseExpr(text); err != nil {
			t.Fatal(err)
		}
	}
	return dtrace.ScriptOutcome{Name: name, Rule: rule}
}

// A bpftraceRun is a running script.
type bpftraceRun struct {
	t       *testing.T
	command *exec.Cmd
	lines   *bufio.Scanner
	log     *strings.Builder // standard error
}

// startBPFtrace runs a script until the test ends. It returns when all probes are attached.
func startBPFtrace(t *testing.T, vm *erlang.VM, outcomes []dtrace.ScriptOutcome) bpftraceRun {
	t.Helper()
	exe, _ := vmtest.Probes(t, vm.PID())
	path := filepath.Join(t.TempDir(), "script.bt")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := dtrace.WriteScript(file, dtrace.FormatBPFtrace, outcomes, dtrace.ScriptTarget{Exe: exe, PID: vm.PID(), Releases: []int{25}, Terms: dtrace.Terms{Form: dtrace.TermsByNumber}}); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	command := exec.CommandContext(t.Context(), "bpftrace", "-q", "-p", fmt.Sprint(vm.PID()), path)
	command.Env = append(os.Environ(), "BPFTRACE_PERF_RB_PAGES=1024")
	command.Stderr = &log
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Wait() })
	run := bpftraceRun{t, command, bufio.NewScanner(out), &log}
	run.next() // reads the first line, which is written when all probes are attached
	return run
}

// next returns the next line.
func (r bpftraceRun) next() string {
	r.t.Helper()
	if !r.lines.Scan() {
		err := r.command.Wait() // then the log is complete
		r.t.Fatalf("bpftrace ended: %v\n%s", err, r.log)
	}
	return r.lines.Text()
}

// readTo returns the lines up to the first start of an outcome, and lines of other processors that
// come shortly after it.
func (r bpftraceRun) readTo(outcome string) []string {
	r.t.Helper()
	const heartbeats = 3
	var lines []string
	for after := 0; after < heartbeats; {
		line := r.next()
		lines = append(lines, line)
		switch {
		case after == 0 && strings.HasPrefix(line, "s "+outcome+" "), after > 0 && strings.HasPrefix(line, "t "):
			after++
		}
	}
	return lines
}
