//go:build amd64

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
	"github.com/beamscope/beamscope/internal/ui/top"
)

// An examination tries the features of a VM, with the commands that a user has.
type examination struct {
	t     *testing.T
	otp   erlang.OTP
	vm    *erlang.VM
	all   bool              // try the slow features too: all but most outcomes
	flags []string          // of every command
	cells map[string]string // by feature, only tried ones

	noProbeSpans string // why the VM has no probes for spans, by the command
}

// examine tries the features of an installation's VM.
func examine(t *testing.T, otp erlang.OTP, all bool, flags ...string) *examination {
	t.Helper()
	e := &examination{t: t, otp: otp, all: all, flags: flags, cells: make(map[string]string)}
	e.vm = vmtest.StartOn(t, otp, distributed("examined", "-dist_listen", "false", "+zdbbl", "64", "+C", "multi_time_warp"))
	claims := e.claims()
	e.outcomes(claims)
	if !all {
		return e
	}
	e.groups()
	// It is busy all the time, so it comes after the counted loads.
	vmtest.Eval(t, e.vm, "register(busy, spawn(vm_load, make_lists, []))")
	e.top()
	e.sampled()
	vmtest.Eval(t, e.vm, "exit(whereis(busy), kill)")
	vmtest.Favour(t, e.vm) // time that the operating system takes from a span is not its cause
	e.trace()
	return e
}

// distributed returns the options of a node that finds others without epmd.
func distributed(name string, args ...string) erlang.Options {
	return erlang.Options{Args: append(args, "-sname", name+"@localhost", "-setcookie", "beamscope", "-start_epmd", "false", "-erl_epmd_port", "43712")}
}

// claims returns what the command `probes` says of the built-in outcomes, and of the probes of
// spans. If it says of an outcome that the kernel decides, the VM is no obstacle. If the VM has no
// probes, the outcome that needs none remains.
func (e *examination) claims() map[string]bool {
	e.t.Helper()
	claims := make(map[string]bool)
	out, log, err := e.command("probes", "--json", "--all")
	if err != nil {
		claims[osWait] = true // it needs nothing that the command looks for
		e.noProbeSpans = reason(log)
		return claims
	}
	for line := range strings.Lines(out) {
		var l struct {
			Builtin  string
			Possible *bool
			Probe    string
			State    string
			Seen     struct{ By any } // a string for a probe, a list for an outcome
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			e.t.Fatalf("%v: %s", err, line)
		}
		switch {
		case l.Builtin != "":
			claims[l.Builtin] = l.Possible == nil || *l.Possible
		case strings.HasPrefix(l.Probe, "user_trace-n"):
			claims[probeSpans] = claims[probeSpans] || l.Seen.By == "probe"
			e.noProbeSpans = "the probes user_trace-n are " + l.State
		}
	}
	return claims
}

// command runs the command on the VM, and returns its output.
func (e *examination) command(args ...string) (stdout, stderr string, err error) {
	e.t.Helper()
	const patience = 30 * time.Second

	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	defer cancel()
	var out, log bytes.Buffer
	cmd := e.started(ctx, args...)
	cmd.Stdout, cmd.Stderr = &out, &log
	err = cmd.Run()
	if ctx.Err() != nil {
		e.t.Fatalf("%q does not end: %s", args, &log)
	}
	return out.String(), log.String(), err
}

// started returns the command on the VM, which is yet to be started.
func (e *examination) started(ctx context.Context, args ...string) *exec.Cmd {
	args = append(args, "--pid", strconv.Itoa(e.vm.PID()))
	return exec.CommandContext(ctx, "beamscope", append(args, e.flags...)...)
}

// refusal returns why a command is refused on the VM. It fails the test unless the command fails
// with one line.
func (e *examination) refusal(args ...string) string {
	e.t.Helper()
	_, log, err := e.command(args...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || strings.Count(log, "\n") != 1 {
		e.t.Errorf("%q: %v, want status 1 and one line: %s", args, err, log)
	}
	return reason(log)
}

// ofProcess matches what differs between two VMs with the same executable.
var ofProcess = regexp.MustCompile(`(^| of )pid \d+ \([^)]*\):? ?`)

// reason returns the first line of a text on standard error about a VM, without its pid and path.
func reason(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	line, _, _ = strings.Cut(line, `\n`) // as a notice has it
	line = strings.TrimPrefix(strings.TrimSpace(line), "beamscope: ")
	return strings.TrimSpace(attachedTo.ReplaceAllString(ofProcess.ReplaceAllString(line, " "), ""))
}

// attachedTo matches how an error names the file that could not be attached to, and the outcome.
var attachedTo = regexp.MustCompile(`attach to \S+: |outcome "\w+": |(refused|by_function): `)

// scope writes a scope file with some outcomes, in windows of half a second.
func (e *examination) scope(outcomes []string) string {
	e.t.Helper()
	path := filepath.Join(e.t.TempDir(), "scope.yaml")
	text := "window: 500ms\noutcomes:\n  " + strings.Join(outcomes, "\n  ") + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		e.t.Fatal(err)
	}
	return path
}

// grouped contains the groups of the outcomes, by name. A load knows the key of its group, so other
// activity of the VM is not counted.
func grouped() map[string]string {
	return map[string]string{
		"gc": "pid", "run": "pid", "run-wait": "pid", "call": "pid", "dirty-nif": "pid", "file-io": "pid",
		"message": "receiver", "mailbox": "receiver", "hop": "receiver", "lifetime": "mfa", "port-busy": "port",
	}
}

// A quantity is the number of instances of an outcome that a load made: in the group with this key
// or, if the key is "", in all groups except one.
type quantity struct {
	feature, outcome, key, except string
	least, most                   int
}

// outcomes has the VM do a known number of things, observes all outcomes that the VM offers, and
// compares. It makes sure that the other ones are refused.
func (e *examination) outcomes(claims map[string]bool) {
	e.t.Helper()
	wanted := []string{"load: {span: load, dmax: 10s, bins: 100}", "raw: {span: raw, dmax: 10s, bins: 100}"}
	for _, b := range dtrace.Builtins() {
		switch {
		case b.Name == "dist-busy" && !e.all || !slices.Contains(features(), b.Name):
		case !claims[b.Name]:
			path := e.scope([]string{"refused: {vm: " + b.Name + "}"})
			e.cells[b.Name] = no + ": " + e.refusal("run", "--json", "-c", path)
		case grouped()[b.Name] != "":
			wanted = append(wanted, fmt.Sprintf("%s: {vm: %s, group: %s}", named(b.Name), b.Name, grouped()[b.Name]))
		default:
			wanted = append(wanted, fmt.Sprintf("%s: {vm: %s}", named(b.Name), b.Name))
		}
	}
	const attempts = 3
	var made []quantity
	var sum tally
	for attempt := range attempts {
		made, sum = e.counted(wanted, claims)
		lost := lostSome(made, sum)
		if lost == "" || attempt == attempts-1 {
			break
		}
		e.t.Logf("instances are lost, so it is tried again: %s", lost)
	}
	for _, q := range made {
		got, counts := sum.of(q), sum[named(q.outcome)]
		switch {
		case q.feature == probeSpans && !claims[probeSpans]:
			e.cells[q.feature] = no + ": " + e.noProbeSpans
			if got != 0 {
				e.t.Errorf("%d spans by probes that the VM does not have", got)
			}
		case got < q.least || got > q.most:
			e.t.Errorf("%s: %d instances of %q, want %d to %d: %+v", q.feature, got, q.key, q.least, q.most, counts)
		case !ofProcesses(q.outcome) && counts.lost > 0: // other processes may have lost some
			e.t.Errorf("%s: %d instances are lost", q.feature, counts.lost)
		default:
			e.t.Logf("%s: %d instances of %q, want %d to %d", q.feature, got, q.key, q.least, q.most)
			e.cells[q.feature] = yes
		}
	}
}

// counted observes outcomes while the VM does a known number of things.
func (e *examination) counted(wanted []string, claims map[string]bool) (made []quantity, sum tally) {
	e.t.Helper()
	before := e.arrivals()
	sum, refused := e.count(wanted, func() { made = e.loads(claims) }, func(sum tally) bool {
		return !slices.ContainsFunc(made, func(q quantity) bool { return sum.of(q) < q.least })
	})
	if refused != "" {
		e.t.Errorf("what it says that it can observe is refused: %s", refused)
	}
	for i, q := range made {
		if q.feature == osWait {
			made[i].most = e.arrivals() - before // the windows lie between
		}
	}
	return made, sum
}

// lostSome returns the outcomes that cannot be compared, because the command reports that instances are
// lost: on a busy machine it may have no processor for a while. Other differences are none of these.
func lostSome(made []quantity, sum tally) string {
	var text []string
	for _, q := range made {
		c := sum[named(q.outcome)]
		if c != nil && c.lost > 0 && (sum.of(q) < q.least || !ofProcesses(q.outcome)) {
			text = append(text, fmt.Sprintf("%d of %s", c.lost, q.outcome))
		}
	}
	return strings.Join(text, ", ")
}

// named returns the name in the scope file of a built-in outcome.
func named(builtin string) string { return strings.ReplaceAll(builtin, "-", "_") }

var pidText = regexp.MustCompile(`<\d+\.\d+\.\d+>`)

// osWait is the outcome whose instances the kernel counts too.
const osWait = "os-wait"

// ofProcesses reports whether the groups of an outcome are processes.
func ofProcesses(outcome string) bool {
	return slices.Contains([]string{"pid", "receiver"}, grouped()[outcome])
}

// portText matches how Erlang writes a port.
var portText = regexp.MustCompile(`#Port<\d+\.\d+>`)

// loads makes the VM do a known amount of work, and returns the number of instances. The VM itself
// counts them: the load counts its own actions, and if the VM adds some of its own, erlang:trace
// counts both. The kernel counts the waits for a processor.
func (e *examination) loads(claims map[string]bool) []quantity {
	const (
		spans    = 2000
		raw      = 100
		each     = 100 // of most other things
		messages = 50
		lives    = 2000
	)
	before := e.arrivals()
	all := []quantity{{feature: ringSpans, outcome: "load", least: spans, most: spans}}
	e.call("span_load", "run", fmt.Sprintf("[#{procs => 4, spans => %d}]", spans))
	e.eval(fmt.Sprintf(`Label = 1 + erlang:crc32(<<"raw">>) rem 950,
		[begin catch dyntrace:pn(Label, I, 1, 1, 0, <<"raw">>, <<>>), catch dyntrace:pn(Label, I, 2, 1, 0, <<"raw">>, <<>>) end || I <- lists:seq(1, %d)], ok`, raw))
	want := raw
	if !claims[probeSpans] {
		want = 0
	}
	all = append(all, quantity{feature: probeSpans, outcome: "raw", least: want, most: want})
	add := func(outcome, key string, n int) {
		if claims[outcome] {
			all = append(all, quantity{feature: outcome, outcome: outcome, key: key, least: n, most: n})
		}
	}

	answer := e.call("vm_load", "collections", "[50]")
	const rest = 3 + 2 // numbers of the pid, and of the VM's statistics
	add("gc", pidText.FindString(answer), (len(vmtest.Integers(e.t, answer))-rest)/4)

	// A process that gives way is a slice each time. One that uses up its reductions waits for its turn.
	// The trace does not have the slice in which the process was spawned. It has turns in which the
	// scheduler only handles signals for the process, which are none.
	process, in := e.yields(each)
	if add("run", process, in+1); claims["run"] {
		all[len(all)-1].least = 1 + each
	}
	add("run-wait", pidText.FindString(e.call("vm_load", "exhaustions", fmt.Sprintf("[%d]", each))), each)

	answer = e.call("vm_load", "calls", "[["+strings.Repeat("{0,infinity},", each-1)+"{0,infinity}]]")
	add("call", pidText.FindString(answer), each)

	receiver := pidText.FindString(e.call("vm_load", "receivers", "[[send]]"))
	e.call("vm_load", "deliver", fmt.Sprintf("[[list_to_pid(%q)],%d]", receiver, messages))
	for _, outcome := range []string{"message", "mailbox", "hop"} {
		add(outcome, receiver, messages+1) // and one that requests the work
	}

	e.call("vm_load", "lives", fmt.Sprintf("[lists:duplicate(%d,0)]", lives))
	add("lifetime", "vm_load:live/1", lives)

	answer = e.call("vm_load", "reads", fmt.Sprintf("[%q,%d]", filepath.ToSlash(e.t.TempDir()), each))
	add("dirty-nif", pidText.FindString(answer), each)
	add("file-io", pidText.FindString(answer), each)

	connection := ""
	if claims["dist-busy"] && e.all {
		connection = e.congestNode()
		add("dist-busy", "", 1)
	}
	if claims["port-busy"] {
		e.call("vm_load", "congested_port", "[50]")
		// The port of the connection is busy too, as often as the operating system takes its data and then
		// does not. The VM does not count that.
		all = append(all, quantity{feature: "port-busy", outcome: "port-busy", except: connection, least: 1, most: 1})
	}
	if claims[osWait] {
		// The kernel does not report each switch of a thread: on one machine of ours 0.9 % were missing.
		made := e.arrivals() - before
		all = append(all, quantity{feature: osWait, outcome: osWait, least: made - made/50})
	}
	return all
}

// yields makes a process give up its scheduler a number of times. It returns the process, and the number
// of times that it was scheduled in according to a trace.
func (e *examination) yields(times int) (process string, in int) {
	e.t.Helper()
	answer := e.call("vm_load", "yields", fmt.Sprintf("[%d]", times))
	n := vmtest.Integers(e.t, answer)
	if in = int(n[len(n)-1]); in < times {
		e.t.Errorf("the process was scheduled in %d times, and out %d times at least", in, times)
	}
	return pidText.FindString(answer), in
}

// scheduler matches the names of the VM's scheduler threads, up to OTP 25 and since.
var scheduler = regexp.MustCompile(`^(\d+_(scheduler|dirty_)|erts_(sched|dcpus|dios)_\d)`)

// arrivals returns the number of times that scheduler threads of the VM got a processor, according
// to the kernel.
func (e *examination) arrivals() int {
	e.t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", e.vm.PID()))
	if err != nil {
		e.t.Fatal(err)
	}
	sum := 0
	for _, thread := range threads {
		name, err := os.ReadFile(filepath.Join(thread, "comm"))
		if err != nil || !scheduler.Match(name) { // other threads start and end
			continue
		}
		stat, err := os.ReadFile(filepath.Join(thread, "schedstat"))
		if err != nil {
			e.t.Fatal(err)
		}
		var ran, waited int64
		var arrived int
		if _, err := fmt.Sscan(string(stat), &ran, &waited, &arrived); err != nil {
			e.t.Fatalf("%s: %v: %q", thread, err, stat)
		}
		sum += arrived
	}
	return sum
}

func (e *examination) call(module, function, args string) string {
	e.t.Helper()
	return vmtest.Call(e.t, e.vm, module, function, args)
}

func (e *examination) eval(expressions string) string {
	e.t.Helper()
	return vmtest.Eval(e.t, e.vm, expressions)
}

// congestNode makes a process of the VM wait once until another node reads the data sent to it. It
// returns the port of the connection.
func (e *examination) congestNode() (port string) {
	e.t.Helper()
	other := vmtest.StartOn(e.t, e.otp, distributed("other"))
	if got := e.call("net_kernel", "connect_node", "[other@localhost]"); got != "true" {
		e.t.Fatalf("the nodes do not connect: %s", got)
	}
	port = portText.FindString(e.eval("{_, Port} = lists:keyfind(other@localhost, 1, erlang:system_info(dist_ctrl)), Port"))
	if port == "" {
		e.t.Fatal("the connection has no port")
	}
	if err := unix.Kill(other.PID(), unix.SIGSTOP); err != nil {
		e.t.Fatal(err)
	}
	sender := pidText.FindString(e.call("vm_load", "suspended_sender", "[other@localhost]"))
	if err := unix.Kill(other.PID(), unix.SIGCONT); err != nil {
		e.t.Fatal(err)
	}
	e.call("vm_load", "let_go", fmt.Sprintf("[list_to_pid(%q)]", sender))
	if err := other.Stop(); err != nil {
		e.t.Error(err)
	}
	return port
}

// A tally has the counts of outcomes by their names.
type tally map[string]*tallied

// tallied contains the numbers of ended and lost instances, and instances by group.
type tallied struct {
	n, lost int
	groups  map[string]int
}

// of returns the number of instances of a quantity.
func (t tally) of(q quantity) int {
	c := t[named(q.outcome)]
	switch {
	case c == nil:
		return 0
	case q.key == "" && q.except != "":
		return c.n - c.groups[q.except]
	case q.key == "":
		return c.n
	}
	return c.groups[q.key]
}

// A countLine contains the used fields of a line of `run --json`.
type countLine struct {
	Outcome string
	Window  struct {
		From int64 `json:"from_ns"`
	}
	Observed   struct{ N int }
	Lost       int
	Unobserved bool
	Groups     []struct {
		Key string
		N   int
	}
}

func (t tally) add(l countLine) {
	c := t[l.Outcome]
	if c == nil {
		c = &tallied{groups: make(map[string]int)}
		t[l.Outcome] = c
	}
	c.n += l.Observed.N
	c.lost += l.Lost
	for _, g := range l.Groups {
		c.groups[g.Key] += g.N
	}
}

// count observes outcomes while something is done, from the first window in which all of them are
// observed until enough was seen, or ten windows after it was done. If the command refuses that, count
// returns why.
func (e *examination) count(outcomes []string, do func(), enough func(tally) bool) (sum tally, refused string) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), 2*time.Minute)
	defer cancel()
	var log bytes.Buffer
	cmd := e.started(ctx, "run", "--json", "--limit", "0", "-c", e.scope(outcomes))
	cmd.Stderr = &log
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		e.t.Fatal(err)
	}
	done, windows := make(chan struct{}), 0
	sum = make(tally)
	var window int64
	began, whole, interrupted := false, false, false
	for lines := jsonLines(stdout); lines.Scan(); {
		var l countLine
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			e.t.Fatalf("%v: %s", err, lines.Text())
		}
		if began {
			sum.add(l)
		}
		if l.Window.From != window {
			if whole && !began {
				began = true
				go func() {
					defer close(done)
					do()
				}()
			}
			window, whole = l.Window.From, true
			select {
			case <-done:
				windows++
				const most = 10
				if !interrupted && (windows > most || enough(sum)) {
					interrupted = true
					err = cmd.Process.Signal(os.Interrupt)
				}
			default:
			}
		}
		whole = whole && !l.Unobserved
	}
	waited := cmd.Wait()
	if exit := (*exec.ExitError)(nil); window == 0 && errors.As(waited, &exit) && exit.ExitCode() == 1 && strings.Count(log.String(), "\n") == 1 {
		return sum, reason(log.String())
	}
	if err := errors.Join(err, waited); err != nil || !interrupted {
		e.t.Fatalf("run ended: %v: %s", err, &log)
	}
	return sum, ""
}

// jsonLines reads lines, which may be long.
func jsonLines(r io.Reader) *bufio.Scanner {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<24)
	return s
}

// groups makes a process with a known initial function collect its garbage. A trace counts the
// collections.
func (e *examination) groups() {
	e.t.Helper()
	const collections, function = 50, "lists:foreach/2"
	wanted := []string{"by_function: {vm: gc, group: mfa}"}
	q := quantity{feature: groupByFunction, outcome: "by_function", key: function, least: collections}
	sum, refused := e.count(wanted, func() {
		q.least = int(vmtest.Integers(e.t, e.call("vm_load", "collections_of_function", fmt.Sprintf("[%d]", collections)))[0])
	}, func(sum tally) bool { return sum.of(q) >= q.least })
	switch got := sum.of(q); {
	case refused != "":
		e.cells[q.feature] = no + ": " + refused
	case q.least < collections:
		e.t.Errorf("%s: the trace has %d collections of %d", q.feature, q.least, collections)
	case got == q.least:
		e.cells[q.feature] = yes
	default:
		e.t.Errorf("%s: %d collections, want %d: %v", q.feature, got, q.least, sum["by_function"].groups)
	}
}

// A busyRow contains the used fields of a line of `top --json`.
type busyRow struct {
	Type, Name, Key, Text string
	Window                struct {
		From int64 `json:"from_ns"`
		To   int64 `json:"to_ns"`
	}
	Observed   []string
	Unobserved bool
	Run        *struct {
		Share     float64  `json:"time_share"`
		Processor *float64 `json:"processor_share"`
	}
	Memory *struct {
		Heap *float64 `json:"heap_bytes"`
	}
	Sampled *struct {
		N int
	}
}

// A processorClock has readings of a process's processor time, which the kernel counts.
type processorClock []struct {
	at   int64 // CLOCK_MONOTONIC
	used time.Duration
}

// watchProcessor reads the processor time of a process every few milliseconds until the returned
// function is called, which returns the readings.
func watchProcessor(t *testing.T, pid int) func() processorClock {
	const period = 5 * time.Millisecond
	var clock processorClock
	ended, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			used, _, err := top.ProcessorOf(pid)
			clock = append(clock, struct {
				at   int64
				used time.Duration
			}{monotonic.Now(), used})
			if err != nil {
				done <- err
				return
			}
			select {
			case <-time.After(period):
			case <-ended:
				done <- nil
				return
			}
		}
	}()
	return func() processorClock {
		t.Helper()
		close(ended)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		return clock
	}
}

// within returns bounds of the processor time that the process used in an interval. They are false
// unless the readings began before the interval and continued until after it.
func (c processorClock) within(from, to int64) (least, most time.Duration, ok bool) {
	at := func(t int64) int { // the first reading that is later
		i, _ := slices.BinarySearchFunc(c, t, func(r struct {
			at   int64
			used time.Duration
		}, t int64) int {
			return cmp.Compare(r.at, t)
		})
		return i
	}
	i, j := at(from), at(to)
	if i == 0 || j == len(c) || i >= j {
		return 0, 0, false
	}
	return c[j-1].used - c[i].used, c[j].used - c[i-1].used, true
}

// rows returns the lines of `top` until they are enough, its standard error, and the processor time
// of the VM meanwhile.
func (e *examination) rows(enough func([]busyRow) bool, args ...string) ([]busyRow, string, processorClock) {
	e.t.Helper()
	watched := watchProcessor(e.t, e.vm.PID())
	ctx, cancel := context.WithTimeout(e.t.Context(), time.Minute)
	defer cancel()
	var log bytes.Buffer
	cmd := e.started(ctx, append([]string{"top", "--json", "--for", "20s"}, args...)...)
	cmd.Stderr = &log
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		e.t.Fatal(err)
	}
	var rows []busyRow
	interrupted := false
	for lines := jsonLines(stdout); lines.Scan(); {
		var r busyRow
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			e.t.Fatalf("%v: %s", err, lines.Text())
		}
		rows = append(rows, r)
		if !interrupted && enough(rows) {
			interrupted = true
			err = cmd.Process.Signal(os.Interrupt)
		}
	}
	if err := errors.Join(err, cmd.Wait()); err != nil {
		e.t.Fatalf("%v: %s", err, &log)
	}
	return rows, log.String(), watched()
}

// countRows returns the number of chosen rows.
func countRows(rows []busyRow, chosen func(busyRow) bool) (n int) {
	for _, r := range rows {
		if chosen(r) {
			n++
		}
	}
	return n
}

// top has `top` show a process that always runs.
func (e *examination) top() {
	e.t.Helper()
	pid := strings.Trim(e.call("erlang", "whereis", "[busy]"), `"`)
	busy := func(r busyRow) bool { return r.Type == "row" && r.Key == pid && r.Run != nil && r.Name == "busy" }
	read := func(r busyRow) bool { // of any process: not each is read in each window
		return r.Type == "row" && r.Memory != nil && r.Memory.Heap != nil && *r.Memory.Heap > 0
	}
	unread := func(r busyRow) bool {
		return r.Type == "notice" && (strings.Contains(r.Text, "memory, reductions and functions of processes are not known") || strings.Contains(r.Text, "taking samples"))
	}
	total := func(r busyRow) bool { return r.Type == "total" }
	rows, log, clock := e.rows(func(rows []busyRow) bool {
		return countRows(rows, total) > 1 && (countRows(rows, unread) > 0 || countRows(rows, busy) > 0 && countRows(rows, read) > 0)
	}, "--rate", "1e9")
	if strings.Contains(log, "taking samples instead") {
		why, _, _ := strings.Cut(reason(log[strings.Index(log, "pid "):]), ": taking samples instead")
		e.cells[topTable], e.cells[topMemory] = "samples", no+": samples do not have it, and nothing else is possible: "+why
		return
	}
	var observed []string
	for _, r := range rows {
		if r.Type == "total" && len(r.Observed) > len(observed) {
			observed = r.Observed
		}
	}
	e.cells[topTable] = strings.Join(observed, ", ")
	if slices.Equal(observed, []string{"gc", "mailbox", "run"}) {
		e.cells[topTable] = yes
	}
	if slices.Contains(observed, "run") {
		e.compareSlices(rows, pid, clock)
	}
	switch name, memory := countRows(rows, busy) > 0, countRows(rows, read) > 0; {
	case name && memory:
		e.cells[topMemory] = yes
	case !name && !memory:
		e.cells[topMemory] = no + ": " + noLayout(log)
	default:
		e.t.Errorf("name %v, memory %v: %s", name, memory, log)
	}
}

// whole returns the windows that were observed as a whole, and during which the clock was read.
func whole(rows []busyRow, clock processorClock) (windows []busyRow) {
	for _, r := range rows {
		if _, _, ok := clock.within(r.Window.From, r.Window.To); ok && r.Type == "total" && !r.Unobserved {
			windows = append(windows, r)
		}
	}
	return windows
}

// compareSlices compares the slices of the process that always runs with the processor time of the
// VM, most of which this process uses. The VM also works between slices: according to
// docs/reference/vm-outcomes.md this is at most a tenth for run, if slices are not shorter than 24 µs. The
// time of slices on a processor can be longer than the kernel's count of the VM: on a busy machine
// it was 6 % longer.
func (e *examination) compareSlices(rows []busyRow, pid string, clock processorClock) {
	e.t.Helper()
	const part, surplus = 0.8, 1.1
	compared := 0
	for _, w := range whole(rows, clock) {
		i := slices.IndexFunc(rows, func(r busyRow) bool {
			return r.Type == "row" && r.Key == pid && r.Run != nil && r.Window == w.Window
		})
		if i < 0 {
			continue
		}
		compared++
		run, length := rows[i].Run, float64(w.Window.To-w.Window.From)
		least, most, _ := clock.within(w.Window.From, w.Window.To)
		e.t.Logf("a process that always runs does so for %.3f of the time, the VM has a processor for %.3f to %.3f", run.Share, float64(least)/length, float64(most)/length)
		// The time of slices has no upper bound: a slice may wait for a processor, and counts in the window
		// in which it ends.
		if run.Share*length < part*float64(least) {
			e.t.Errorf("a process that always runs does so for %g of the time, the VM has a processor for %g of it at least", run.Share, float64(least)/length)
		}
		if p := run.Processor; p != nil && (*p*length < part*float64(least) || *p*length > surplus*float64(most)) {
			e.t.Errorf("a process that always runs has a processor for %g of the time, the VM for %g to %g of it", *p, float64(least)/length, float64(most)/length)
		}
	}
	if compared == 0 {
		e.t.Errorf("no window of the process that always runs can be compared: %+v", rows)
	}
}

// noLayout returns the reason why the VM's memory gives no data about processes, from the output of
// a command.
func noLayout(log string) string {
	for line := range strings.Lines(log) {
		if m := unknownOfVM.FindStringSubmatch(line); m != nil {
			return m[1]
		}
	}
	return strings.TrimSpace(log)
}

// unknownOfVM matches a notice that something is not known of the VM. Several notices have the same
// reason. They come in any order, and some add what is shown instead.
var unknownOfVM = regexp.MustCompile(`\(pid \d+\): (?:pid \d+: )?(?:.*/beam\.smp: )?(.*(?:known|cannot be|stripped).*?)(?:: its processes go by .*)?\n`)

// sampled has `top --sampled` show a process that always runs in one function. The kernel counts the
// processor time of the VM, which the process has nearly for itself. The VM does not count the time of
// functions: the time for garbage collections is not in one, so at least half is required there.
func (e *examination) sampled() {
	e.t.Helper()
	const ofProcess, ofFunction = 0.8, 0.5
	pid := strings.Trim(e.call("erlang", "whereis", "[busy]"), `"`)
	ofPID := func(r busyRow) bool { return r.Key == pid }
	ofName := func(r busyRow) bool { return r.Name == "busy" }
	ofSeq := func(r busyRow) bool { return strings.HasPrefix(r.Key, "lists:seq") }

	sampled, log := e.samples()
	switch {
	case sampled.have(e.t, "the name of the process", ofName, ofProcess):
		e.cells[sampledProcesses] = yes
	case sampled.have(e.t, "the pid of the process", ofPID, ofProcess):
		e.cells[sampledProcesses] = "pids"
	default:
		e.cells[sampledProcesses] = no + ": " + noLayout(log)
	}
	sampled, log = e.samples("--by", "mfa")
	if sampled.have(e.t, "the function", ofSeq, ofFunction) {
		e.cells[sampledFunctions] = yes
	} else {
		e.cells[sampledFunctions] = no + ": " + noLayout(log)
	}
}

// samplesPerSecond is the rate on each processor.
const samplesPerSecond = 499

// samples contains rows of windows, with bounds for the number of samples expected from the
// kernel's count of processor time.
type samples struct {
	rows        []busyRow
	least, most float64
}

// samples takes samples of the VM in two windows.
func (e *examination) samples(args ...string) (s samples, log string) {
	e.t.Helper()
	enough := func(rows []busyRow) bool {
		return countRows(rows, func(r busyRow) bool { return r.Type == "total" && !r.Unobserved }) == 2
	}
	rows, log, clock := e.rows(enough, append([]string{"--sampled", "--hz", strconv.Itoa(samplesPerSecond)}, args...)...)
	windows := whole(rows, clock)
	if len(windows) == 0 {
		e.t.Fatalf("no window of samples: %+v: %s", rows, log)
	}
	for _, w := range windows {
		least, most, _ := clock.within(w.Window.From, w.Window.To)
		s.least += samplesPerSecond * least.Seconds()
		s.most += samplesPerSecond * most.Seconds()
		s.rows = append(s.rows, slices.DeleteFunc(slices.Clone(rows), func(r busyRow) bool { return r.Type != "row" || r.Window != w.Window })...)
	}
	return s, log
}

// have reports whether there are samples in the chosen rows. It fails the test if their number is
// less than a part of the expected number, or more than that number.
func (s samples) have(t *testing.T, what string, chosen func(busyRow) bool, part float64) bool {
	t.Helper()
	n := 0
	for _, r := range s.rows {
		if r.Sampled != nil && chosen(r) {
			n += r.Sampled.N
		}
	}
	if n == 0 {
		return false
	}
	t.Logf("%s has %d samples, the kernel counts processor time for %.0f to %.0f", what, n, s.least, s.most)
	const surplus = 1.1 // on a machine with much other work there were up to 6 % more
	if float64(n) < part*s.least || float64(n) > surplus*s.most {
		t.Errorf("%s has %d samples, the kernel counts processor time for %.0f to %.0f", what, n, s.least, s.most)
	}
	return true
}

// knownInPart matches the notice that some events of spans cannot be observed.
var knownInPart = regexp.MustCompile(`(what happens during spans is known in part: .*) \(errors beside this one: \d+\)`)

// trace makes spans in the VM that are slow for a known reason, and compares with the program's
// measurement of each. All spans from the first to the last explained one must be explained: a
// window has fewer than beamscope explains in each. A command without a processor for a while
// misses windows, and then the test tries again.
func (e *examination) trace() {
	e.t.Helper()
	const attempts = 3
	for attempt := range attempts {
		missing, log := e.traceOnce()
		switch {
		case len(missing) == 0:
			return
		case attempt == attempts-1:
			e.t.Errorf("spans are not explained, and later ones are: %+v: %s", missing, log)
		default:
			e.t.Logf("spans are not explained, and later ones are: %+v: %s", missing, log)
		}
	}
}

// traceOnce makes one attempt. It returns the spans that should be explained and are not, and the
// command's standard error.
func (e *examination) traceOnce() (missing []toldSpan, said string) {
	e.t.Helper()
	const cause = 200 // ms
	path := e.scope([]string{"slow: {span: slow, dmax: 10s, bins: 100}"})
	ctx, cancel := context.WithTimeout(e.t.Context(), time.Minute)
	defer cancel()
	cmd := e.started(ctx, "trace", "--json", "-n", "100", "--for", "3s", "-c", path)
	var out bytes.Buffer
	cmd.Stdout = &out
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		e.t.Fatal(err)
	}
	var log strings.Builder
	observing, ended := false, make(chan struct{})
	var loads sync.WaitGroup
	var told []toldSpan
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		fmt.Fprintln(&log, lines.Text())
		if !observing && strings.Contains(lines.Text(), " observing ") {
			observing = true
			loads.Go(func() { // spans that start before the first window are not explained
				for {
					select {
					case <-ended:
						return
					default:
						told = append(told, toldSpans(e.t, e.call("causes", "run", fmt.Sprintf("[gc, #{spans => 1, cause => %d}]", cause)))...)
					}
				}
			})
		}
	}
	err = cmd.Wait()
	close(ended)
	loads.Wait()
	if !observing {
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || strings.Count(log.String(), "\n") != 1 {
			e.t.Errorf("trace: %v: %s", err, &log)
		}
		e.cells[tracing] = no + ": " + reason(log.String())
		return nil, ""
	}
	if err != nil {
		e.t.Fatalf("%v: %s", err, &log)
	}
	var explained []uint64
	for lines := jsonLines(&out); lines.Scan(); {
		var s struct {
			ID       uint64
			Duration int64 `json:"duration_ns"`
			Shares   []struct {
				Duration int64 `json:"duration_ns"`
				Kind     string
				Reason   string
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			e.t.Fatalf("%v: %s", err, lines.Text())
		}
		if s.ID == 0 {
			continue
		}
		var collecting, absent int64
		for _, share := range s.Shares {
			switch {
			case share.Kind == "gc":
				collecting += share.Duration
			case share.Kind == "os", share.Kind == "unexplained" && strings.Contains(share.Reason, "thread did not run"):
				absent += share.Duration // the program's clock goes on while the operating system takes the processor
			}
		}
		i := slices.IndexFunc(told, func(t toldSpan) bool { return t.id == s.ID })
		if i < 0 {
			e.t.Errorf("span %d is not one of the program: %+v", s.ID, told)
			continue
		}
		e.t.Logf("span %d: %d ns, %d of them for garbage; the program %+v", s.ID, s.Duration, collecting, told[i])
		// With +C multi_time_warp the VM's clock runs like ours. The program measures at least
		// the time of the collection, and at most a tenth more, see docs/reference/explain.md.
		if collecting == 0 || collecting > told[i].cause || collecting+absent < told[i].cause*9/10 || s.Duration > told[i].duration {
			e.t.Errorf("span %d takes %d ns, %d of them for garbage and %d without a processor; the program says %+v: %+v", s.ID, s.Duration, collecting, absent, told[i], s.Shares)
		}
		explained = append(explained, s.ID)
	}
	e.cells[tracing] = yes
	if m := knownInPart.FindStringSubmatch(log.String()); m != nil {
		e.cells[tracing] = inPart + ": " + m[1]
	}
	if len(explained) == 0 {
		e.t.Errorf("no span is explained: %s", &log)
	}
	return notExplained(told, explained), log.String()
}

// A toldSpan is a span as the program has measured it: from before its start to after its end.
type toldSpan struct {
	id              uint64
	duration, cause int64 // nanoseconds; of the cause, which is within the span
}

// toldSpans returns the spans in a result of causes:run/2.
func toldSpans(t *testing.T, result string) []toldSpan {
	t.Helper()
	_, list, found := strings.Cut(result, "each =>")
	list, _, ends := strings.Cut(list, "]")
	n := vmtest.Integers(t, list)
	if !found || !ends || len(n) == 0 || len(n)%3 != 0 {
		t.Fatalf("not understood: %s", result)
	}
	var all []toldSpan
	for ; len(n) > 0; n = n[3:] {
		all = append(all, toldSpan{uint64(n[0]), n[1], n[2]})
	}
	return all
}

// notExplained returns the program's spans that are not explained and lie between spans that are. Others
// were before the first window or after the last one.
func notExplained(told []toldSpan, explained []uint64) (missing []toldSpan) {
	is := func(t toldSpan) bool { return slices.Contains(explained, t.id) }
	var since []toldSpan // not explained, since the last one that is
	for _, t := range told[max(0, slices.IndexFunc(told, is)):] {
		if since = append(since, t); is(t) {
			missing = append(missing, since[:len(since)-1]...)
			since = nil
		}
	}
	return missing
}
