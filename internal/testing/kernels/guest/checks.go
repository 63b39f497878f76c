//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
)

// An examination makes several observations of one VM.
type examination struct {
	vm    *erlang.VM
	stock bool                 // the VM has no probes
	as    *syscall.SysProcAttr // how to start beamscope; nil means as root
}

// beamscope is the program that observes.
const beamscope = "/bin/beamscope"

// doctor runs `beamscope doctor`.
func (e examination) doctor(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, beamscope, "doctor", "--pid", strconv.Itoa(e.vm.PID())).CombinedOutput()
	fmt.Printf("%s", out)
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, lastLine(out))
	}
	return "all is well", nil
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

// spans counts the spans of two VMs that fire probes.
func (e examination) spans(ctx context.Context) (string, error) {
	return e.calmAndCrowded(ctx, erlang.Probes)
}

// ring counts the spans of two VMs that record them in their own memory.
func (e examination) ring(ctx context.Context) (string, error) {
	beam, err := startVM(ctx, erlang.Ring)
	if err != nil {
		return "", err
	}
	defer beam.Stop()
	return examination{vm: beam, stock: e.stock}.calmAndCrowded(ctx, erlang.Ring)
}

// calmAndCrowded counts spans of two VMs: of the VM, and of another one with more schedulers than
// there are processors. The threads of the second VM preempt each other all the time, also while the
// programs at the probes run.
func (e examination) calmAndCrowded(ctx context.Context, carrier erlang.Carrier) (string, error) {
	calm, err := e.countSpans(ctx, 4, 4950)
	if err != nil {
		return calm, err
	}
	crowded, err := startVM(ctx, carrier, "+S", "8:8")
	if err != nil {
		return "", err
	}
	defer crowded.Stop()
	busy, err := examination{vm: crowded, stock: e.stock}.countSpans(ctx, 16, 19950)
	if err != nil {
		return "", fmt.Errorf("8 schedulers: %w", err)
	}
	return fmt.Sprintf("%s; with 8 schedulers %s", calm, busy), nil
}

// countSpans makes processes of the VM run spans. Some of these spans fail. A span before that makes
// the VM one that beamscope observes without eBPF too.
func (e examination) countSpans(ctx context.Context, procs, good int) (string, error) {
	if _, err := e.vm.Call(ctx, "span_load", "run", "[#{procs => 1, spans => 1}]"); err != nil {
		return "", err
	}
	const bad = 50
	want := counts{n: good + bad, ok: good, failed: bad}
	got, err := e.observe(ctx, "{span: load, dmax: 10s, bins: 100}", func() error {
		if _, err := e.vm.Call(ctx, "span_load", "run", fmt.Sprintf("[#{procs => %d, spans => %d}]", procs, good)); err != nil {
			return err
		}
		_, err := e.vm.Call(ctx, "span_load", "failing", fmt.Sprintf("[#{procs => 2, spans => %d}]", bad))
		return err
	}, func(c counts) bool { return c.n >= want.n })
	if err == nil && got.String() != want.String() {
		err = fmt.Errorf("%v, want %v", got, want)
	}
	return got.String(), err
}

// rules spawns processes in the VM, and counts their lives by function. In a VM without probes it
// also counts events that other stand-in functions must see.
func (e examination) rules(ctx context.Context) (string, error) {
	const short, long, function = 500, 3, "vm_load:live/1"
	want := counts{n: short + long, ok: short, timeout: long}
	got, err := e.observe(ctx, "{vm: lifetime, dmax: 5s, bins: 100, group: mfa}", func() error {
		_, err := e.vm.Call(ctx, "vm_load", "lives", fmt.Sprintf("[lists:duplicate(%d,0) ++ lists:duplicate(%d,8000)]", short, long))
		return err
	}, func(c counts) bool { return c.groups[function].n >= want.n })
	if err != nil {
		return "", err
	}
	lives := got.groups[function]
	if lives.lost = got.lost; lives.String() != want.String() {
		return "", fmt.Errorf("%v of %s, want %v", lives, function, want)
	}
	if !e.stock {
		return lives.String(), nil
	}
	found := []string{lives.String()}
	for _, c := range standIns() {
		n, err := e.counted(ctx, c)
		if err != nil {
			return "", fmt.Errorf("%s: %w", c.outcome, err)
		}
		found = append(found, fmt.Sprintf("%d %s", n, c.what))
	}
	if err := congest(ctx); err != nil {
		return "", fmt.Errorf("dist-busy: %w", err)
	}
	return strings.Join(append(found, "a congested connection"), "; "), nil
}

// congest has a VM send to another one that does not read, until a process stays suspended, and checks that
// the connection was busy. It may have been busy before: the kernel's buffers grow.
func congest(ctx context.Context) error {
	node := func(name string, args ...string) (*erlang.VM, error) {
		return startVM(ctx, erlang.Ring, append(args,
			"-name", name+"@127.0.0.1", "-setcookie", "beamscope", "-start_epmd", "false", "-erl_epmd_port", "43711")...)
	}
	other, err := node("other")
	if err != nil {
		return err
	}
	defer other.Stop()
	sender, err := node("sender", "-dist_listen", "false", "+zdbbl", "64")
	if err != nil {
		return err
	}
	defer sender.Stop()
	if got, err := sender.Call(ctx, "net_kernel", "connect_node", "['other@127.0.0.1']"); got != "true" {
		return fmt.Errorf("the nodes do not connect: %s, error %w", got, err)
	}
	e := examination{vm: sender, stock: true}
	got, err := e.observe(ctx, "{vm: dist-busy, dmax: 5m, bins: 100}", func() error {
		if err := unix.Kill(other.PID(), unix.SIGSTOP); err != nil {
			return err
		}
		pid, err := sender.Call(ctx, "vm_load", "suspended_sender", "['other@127.0.0.1']")
		if err := errors.Join(err, unix.Kill(other.PID(), unix.SIGCONT)); err != nil {
			return err
		}
		_, err = sender.Call(ctx, "vm_load", "let_go", fmt.Sprintf("[list_to_pid(%q)]", pidIn.FindString(pid)))
		return err
	}, func(c counts) bool { return c.n >= 1 })
	if err == nil && (got.ok != got.n || got.lost != 0) {
		err = fmt.Errorf("%v, want successes only", got)
	}
	return err
}

// A countable is a known amount of work, which must equal the instances of an outcome of the VM.
type countable struct {
	what     string
	outcome  string // as a scope file describes it
	function string // of vm_load
	args     string
	want     func(result string) int
	group    string // the group whose instances count; "" means the group of the first process in the result
	least    bool   // there may be more instances, and those of all groups count
}

// standIns returns work for outcomes of the VM that are observed at stand-in functions.
func standIns() []countable {
	const sent, calls, reads = 50, 30, 40
	always := func(n int) func(string) int { return func(string) int { return n } }
	backlog := fmt.Sprintf("[#{messages=>%d,wait_ms=>100,order=>reverse,label=>0}]", sent)
	return []countable{
		{what: "collections, as erlang:trace says", outcome: "{vm: gc, dmax: 5s, bins: 100, group: pid}", function: "collections", args: "[300]",
			want: func(result string) int { return len(collectionIn.FindAllString(result, -1)) }},
		// One more message says what to do.
		{what: "messages in reverse order", outcome: "{vm: message, dmax: 5s, bins: 100, group: receiver}", function: "backlog", args: backlog, want: always(sent + 1)},
		{what: "messages until they were fetched", outcome: "{vm: hop, dmax: 5s, bins: 100, group: receiver}", function: "backlog", args: backlog, want: always(sent + 1)},
		{what: "waits in a mailbox", outcome: "{vm: mailbox, dmax: 5s, bins: 100, group: receiver}", function: "backlog", args: backlog, want: always(sent + 1)},
		{what: "calls", outcome: "{vm: call, dmax: 5s, bins: 100, group: pid}", function: "calls",
			args: "[[" + strings.TrimSuffix(strings.Repeat("{0,infinity},", calls), ",") + "]]", want: always(calls)},
		{what: "operations on files", outcome: "{vm: file-io, dmax: 5s, bins: 100, group: mfa}", function: "reads", args: fmt.Sprintf("[\"/tmp\",%d]", reads),
			want: always(reads), group: "prim_file:read_info_nif/2"},
		{what: "writes to a port that waited, or more", outcome: "{vm: port-busy, dmax: 5s, bins: 100}", function: "congested_port", args: "[100]", want: always(1), least: true},
	}
}

// counted runs the work in the VM, and counts the instances.
func (e examination) counted(ctx context.Context, c countable) (int, error) {
	group, want := c.group, 0
	got, err := e.observe(ctx, c.outcome, func() error {
		result, err := e.vm.Call(ctx, "vm_load", c.function, c.args)
		if want = c.want(result); group == "" {
			group = pidIn.FindString(result)
		}
		return err
	}, func(got counts) bool { return c.least && got.n >= want || got.groups[group].n >= want })
	if err != nil {
		return 0, err
	}
	if c.least && got.ok == got.n && got.lost == 0 {
		return want, nil
	}
	if own := got.groups[group]; own.n != want || own.ok != want || got.lost != 0 || want == 0 {
		return 0, fmt.Errorf("%v of %s, %d lost, want %d", own, group, got.lost, want)
	}
	return want, nil
}

// pidIn matches a pid, and collectionIn each collection, in the result of a function of vm_load.
var (
	pidIn        = regexp.MustCompile(`<\d+\.\d+\.\d+>`)
	collectionIn = regexp.MustCompile(`\{[12],-?\d+,-?\d+,-?\d+\}`)
)

// A sampledRow contains the used fields of a row of `top --sampled --json`.
type sampledRow struct {
	Type, Key, Name string
	Sampled         struct{ N int }
	Functions       []part
}

// A part contains the samples of a row in one function, or in C.
type part struct {
	Key string
	N   int
}

// samples runs busy processes one after the other, and looks for them and their functions in
// samples.
func (e examination) samples(ctx context.Context) (string, error) {
	working, stop := context.WithCancel(ctx)
	defer stop()
	worked := make(chan error, 1)
	go func() {
		var err error
		for err == nil && working.Err() == nil {
			_, err = e.vm.Call(ctx, "vm_load", "busy", "[#{procs=>1,for_ms=>2000,cells=>20}]")
		}
		worked <- err
	}()
	cmd := exec.CommandContext(ctx, beamscope, "top", "--sampled", "--json", "--hz", "499", "--for", "5s", "--pid", strconv.Itoa(e.vm.PID()))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	stop()
	fmt.Print(stderr.String())
	if err := errors.Join(err, <-worked); err != nil {
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	var most sampledRow
	for text := range strings.Lines(string(out)) {
		var r sampledRow
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			return "", fmt.Errorf("%q: %w", text, err)
		}
		// Schedulers may spin while they run no process.
		if r.Type == "row" && pidIn.MatchString(r.Key) && r.Sampled.N > most.Sampled.N {
			most = r
		}
	}
	// The process compares lists, which the VM does in C.
	named := slices.IndexFunc(most.Functions, func(f part) bool { return strings.HasPrefix(f.Key, "vm_load:work") })
	if most.Name == "" || named < 0 {
		return "", fmt.Errorf("the process with most samples is %+v: %s", most, out)
	}
	return fmt.Sprintf("%d of %s in a window, %d of them in %s", most.Sampled.N, most.Name, most.Functions[named].N, most.Functions[named].Key), nil
}

// osWaits runs more busy processes than there are processors.
func (e examination) osWaits(ctx context.Context) (string, error) {
	got, err := e.observe(ctx, "{vm: os-wait, dmax: 1s, bins: 100}", func() error {
		_, err := e.vm.Call(ctx, "span_load", "run", "[#{procs => 8, spans => 4000}]")
		return err
	}, func(c counts) bool { return c.n > 0 })
	return fmt.Sprintf("%d waits", got.n), err
}

// counts are the counts of one outcome's instances.
type counts struct {
	n, ok, failed, timeout, lost int
	groups                       map[string]counts
}

func (c counts) String() string {
	return fmt.Sprintf("%d instances: %d ok, %d failed, %d timed out, %d lost", c.n, c.ok, c.failed, c.timeout, c.lost)
}

// A line contains the used fields of a line of `run --json`.
type line struct {
	Observed   struct{ N, OK, Failed, Timeout int }
	Unobserved bool
	Lost       int
	Groups     []struct {
		Key                    string
		N, OK, Failed, Timeout int
	}
}

func (c *counts) add(l line) {
	o := l.Observed
	c.n, c.ok, c.failed, c.timeout, c.lost = c.n+o.N, c.ok+o.OK, c.failed+o.Failed, c.timeout+o.Timeout, c.lost+l.Lost
	for _, g := range l.Groups {
		if c.groups == nil {
			c.groups = make(map[string]counts)
		}
		sum := c.groups[g.Key]
		sum.n, sum.ok, sum.failed, sum.timeout = sum.n+g.N, sum.ok+g.OK, sum.failed+g.Failed, sum.timeout+g.Timeout
		c.groups[g.Key] = sum
	}
}

// observe observes an outcome while the VM does something, until enough instances were seen.
func (e examination) observe(ctx context.Context, outcome string, do func() error, enough func(counts) bool) (counts, error) {
	run, err := e.start(ctx, outcome, "run", "--json")
	if err != nil {
		return counts{}, err
	}
	defer run.kill()
	did := make(chan error, 1)
	var sum counts
	for began, done := false, false; !done || !enough(sum); {
		select {
		case err := <-did:
			if err != nil {
				return sum, err
			}
			done = true
		case text, more := <-run.lines:
			if !more {
				return sum, fmt.Errorf("it ended early: %w", run.failure())
			}
			var l line
			if err := json.Unmarshal([]byte(text), &l); err != nil {
				return sum, fmt.Errorf("%q: %w", text, err)
			}
			if began {
				sum.add(l)
			} else if !l.Unobserved {
				// Earlier windows are not completely observed.
				began = true
				go func() { did <- do() }()
			}
		case <-ctx.Done():
			return sum, fmt.Errorf("not enough was seen: %v: %w", sum, ctx.Err())
		}
	}
	return sum, run.interrupt(&sum)
}

// A run is a running beamscope.
type run struct {
	cmd   *exec.Cmd
	lines chan string // lines of its standard output
	log   chan string // its whole standard error, once it has ended
}

// start starts beamscope with a scope file of one outcome, and returns when it observes
// the VM.
func (e examination) start(ctx context.Context, outcome string, args ...string) (*run, error) {
	const scope = "/tmp/scope.yaml"
	text := "outcomes:\n  observed: " + outcome + "\n"
	if err := os.WriteFile(scope, []byte(text), 0o644); err != nil {
		return nil, err
	}
	return e.launch(ctx, append(args, "-c", scope)...)
}

// launch starts beamscope with these arguments and returns when it observes the VM.
func (e examination) launch(ctx context.Context, args ...string) (*run, error) {
	args = append(args, "--pid", strconv.Itoa(e.vm.PID()))
	r := &run{cmd: exec.CommandContext(ctx, beamscope, args...), lines: make(chan string, 1024), log: make(chan string, 1)}
	r.cmd.SysProcAttr = e.as
	stdout, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := r.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	go r.read(stdout)
	observing := make(chan struct{})
	go r.follow(stderr, observing)
	select {
	case <-observing:
		return r, nil
	case log := <-r.log:
		return nil, errors.New(strings.TrimSpace(log))
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (r *run) read(stdout io.Reader) {
	defer close(r.lines)
	for s := lines(stdout); s.Scan(); {
		r.lines <- s.Text()
	}
}

// follow reads the log, and closes observing when the VM is observed.
func (r *run) follow(stderr io.Reader, observing chan struct{}) {
	var log strings.Builder
	begin := sync.OnceFunc(func() { close(observing) })
	for s := lines(stderr); s.Scan(); {
		fmt.Println("beamscope:", s.Text())
		fmt.Fprintln(&log, s.Text())
		if observingOne.MatchString(s.Text()) || strings.Contains(s.Text(), "only spans of the application beamscope are observed") {
			begin()
		}
	}
	r.log <- log.String()
}

// observingOne matches what beamscope prints when it observes a VM, which may have a name.
var observingOne = regexp.MustCompile(`observing (\S+ \()?pid \d`)

// lines reads lines, which may be long: each is a JSON object.
func lines(r io.Reader) *bufio.Scanner {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<24)
	return s
}

// interrupt ends beamscope, and adds the lines that it printed meanwhile.
func (r *run) interrupt(sum *counts) error {
	if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	for text := range r.lines {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			return fmt.Errorf("%q: %w", text, err)
		}
		sum.add(l)
	}
	return r.cmd.Wait()
}

// failure returns the reason why beamscope ended by itself.
func (r *run) failure() error {
	log := <-r.log
	return errors.Join(r.cmd.Wait(), errors.New(strings.TrimSpace(log)))
}

func (r *run) kill() { _ = r.cmd.Process.Kill() }

// someWindows is more than enough time for beamscope to read a window that has ended.
const someWindows = 6 * time.Second

// explanations runs spans that are slow for known causes in the VM, and compares their explanations
// with the measurements of the program.
func (e examination) explanations(ctx context.Context) (string, error) {
	run, err := e.start(ctx, "{span: slow, dmax: 10s, bins: 100}", "trace", "--json", "-n", "100", "--for", patience.String())
	if err != nil {
		return "", err
	}
	defer run.kill()
	var causes []cause
	for _, c := range []cause{{scenario: "gc", kind: "gc", own: true}, {scenario: "callee", kind: "running"}} {
		result, err := e.vm.Call(ctx, "causes", "run", "["+c.scenario+", #{spans => 3, cause => 200}]")
		if err != nil {
			return "", err
		}
		for _, each := range eachSpan.FindAllStringSubmatch(result, -1) {
			id, _ := strconv.ParseUint(each[1], 10, 64)
			took, _ := strconv.ParseInt(each[2], 10, 64)
			causes = append(causes, cause{id, c.scenario, c.kind, c.own, took})
		}
	}
	// trace keeps the instances of the windows that it has read, and prints nothing when it reads
	// one.
	select {
	case <-time.After(someWindows):
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if err := run.cmd.Process.Signal(os.Interrupt); err != nil {
		return "", err
	}
	found := make(map[uint64]explained)
	for text := range run.lines {
		var s explained
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			return "", fmt.Errorf("%q: %w", text, err)
		}
		found[s.ID] = s
	}
	if err := run.cmd.Wait(); err != nil {
		return "", err
	}
	for _, c := range causes {
		if err := found[c.id].check(c); err != nil {
			return "", err
		}
	}
	if len(causes) == 0 {
		return "", errors.New("the program tells of no spans")
	}
	return fmt.Sprintf("%d spans put down to their causes", len(causes)), nil
}

// A cause is the cause of one slow span, as the program measured it.
type cause struct {
	id             uint64
	scenario, kind string
	own            bool // time in the process of the span
	ns             int64
}

// eachSpan finds the spans in the result of causes:run/2, each with its id and cause.
var eachSpan = regexp.MustCompile(`\{(\d+),\d+,(\d+)\}`)

// explained contains the used fields of a span of `trace --json`.
type explained struct {
	ID       uint64
	Duration int64 `json:"duration_ns"`
	Shares   []struct {
		Duration int64 `json:"duration_ns"`
		Kind     string
		Own      bool
	}
}

// check returns what is wrong with an explanation.
func (s explained) check(c cause) error {
	var sum, share, machine int64
	for _, p := range s.Shares {
		sum += p.Duration
		switch {
		case p.Kind == c.kind && p.Own == c.own:
			share += p.Duration
		case p.Kind == "os": // the program's clock goes on meanwhile
			machine += p.Duration
		}
	}
	switch {
	case s.ID == 0:
		return fmt.Errorf("span %d, slow by %s, was not explained", c.id, c.scenario)
	case sum != s.Duration:
		return fmt.Errorf("span %d took %d ns, its shares together %d", s.ID, s.Duration, sum)
	case share == 0 || share+machine < c.ns*8/10:
		return fmt.Errorf("span %d, slow by %s for %d ns, has %d ns of %s: %+v", s.ID, c.scenario, c.ns, share, c.kind, s.Shares)
	}
	return nil
}

// A topLine contains the used fields of a line of `top --json`.
type topLine struct {
	Type       string
	Key        string
	Unobserved bool
	Run        struct {
		N         uint64
		Time      float64 `json:"time_share"`
		Processor float64 `json:"processor_share"`
	}
	Memory struct{ Function string }
}

// top runs processes, and compares the processor time in `top` with the duration of their slices.
// It must read every process from the VM's memory.
func (e examination) top(ctx context.Context) (string, error) {
	const busy = 4
	run, err := e.launch(ctx, "top", "--json", "--rate", "1e9", "--for", patience.String())
	if err != nil {
		return "", err
	}
	defer run.kill()
	did := make(chan error, 1)
	var total topLine
	functions := make(map[string]bool)
	for began, after := false, 0; after < 3; {
		select {
		case err := <-did:
			if err != nil {
				return "", err
			}
			after = 1
		case text, more := <-run.lines:
			if !more {
				return "", fmt.Errorf("it ended early: %w", run.failure())
			}
			var l topLine
			if err := json.Unmarshal([]byte(text), &l); err != nil {
				return "", fmt.Errorf("%q: %w", text, err)
			}
			switch {
			case l.Type == "row" && l.Memory.Function != "":
				functions[l.Key] = true
			case l.Type != "total" || l.Unobserved:
			case !began:
				began = true
				go func() {
					_, err := e.vm.Call(ctx, "span_load", "run", fmt.Sprintf("[#{procs => %d, spans => 4950}]", busy))
					did <- err
				}()
			default:
				total.Run.N += l.Run.N
				total.Run.Time += l.Run.Time
				total.Run.Processor += l.Run.Processor
				if after > 0 {
					after++
				}
			}
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	run.kill()
	r := total.Run
	switch {
	case r.N < busy:
		return "", fmt.Errorf("%d slices of %d processes", r.N, busy)
	case r.Processor <= 0 || r.Processor > r.Time:
		return "", fmt.Errorf("%g of processor time in slices of %g", r.Processor, r.Time)
	case len(functions) == 0:
		return "", errors.New("no process's function is known")
	}
	return fmt.Sprintf("processor time of %d slices, and where %d processes are", r.N, len(functions)), nil
}

// observers are the capabilities of docs/how-to/privileges.md that `run` keeps to observe VMs of any user.
// It keeps other capabilities for writing files.
func observers() []uintptr {
	return []uintptr{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_PTRACE,
		unix.CAP_DAC_READ_SEARCH, unix.CAP_CHECKPOINT_RESTORE, unix.CAP_SYS_ADMIN}
}

// capabilities observes root's VM as a user who is not root: with all capabilities that `run`
// keeps, and with the three that are indispensable.
func (e examination) capabilities(ctx context.Context) (string, error) {
	sets := [][]uintptr{observers(), observers()[:3]}
	if errors.Is(bpf.MultiLinks(), ebpf.ErrNotSupported) {
		sets = sets[:1] // links are perf events there, which need CAP_SYS_ADMIN
	}
	for _, caps := range sets {
		e.as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, AmbientCaps: caps}
		if _, err := e.countSpans(ctx, 4, 4950); err != nil {
			return "", fmt.Errorf("with %d capabilities: %w", len(caps), err)
		}
	}
	if len(sets) == 1 {
		return fmt.Sprintf("spans are exact with %d", len(observers())), nil
	}
	return fmt.Sprintf("spans are exact with %d, and with BPF, PERFMON and SYS_PTRACE", len(observers())), nil
}

// killed kills beamscope while it observes.
func (e examination) killed(ctx context.Context) (string, error) {
	run, err := e.start(ctx, "{span: load, dmax: 10s, bins: 100}", "run", "--json")
	if err != nil {
		return "", err
	}
	defer run.kill()
	during, err := e.semaphore(ctx)
	if err != nil || during == 0 {
		return "", errors.Join(err, fmt.Errorf("the semaphore is %d while beamscope observes", during))
	}
	if err := run.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		return "", err
	}
	_ = run.cmd.Wait()
	// The kernel removes the probes when the last thread of the process has ended.
	for {
		after, err := e.semaphore(ctx)
		if err != nil {
			return "", err
		}
		if after == 0 {
			break
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return "", fmt.Errorf("the semaphore is still %d", after)
		}
	}
	if _, err := e.vm.Call(ctx, "span_load", "run", "[#{procs => 2, spans => 1000}]"); err != nil {
		return "", fmt.Errorf("the VM does not go on: %w", err)
	}
	again, err := e.countSpans(ctx, 4, 4950)
	if err != nil {
		return "", fmt.Errorf("observed again: %w", err)
	}
	return fmt.Sprintf("the semaphore was %d and is 0; observed again: %s", during, again), nil
}

// nobody is a user without privileges.
const nobody = 65534

// refusals checks that beamscope refuses impossible commands.
func (e examination) refusals(ctx context.Context) (string, error) {
	user := syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	tracer := user
	tracer.AmbientCaps = []uintptr{unix.CAP_SYS_PTRACE}
	refusals := []struct {
		subject string
		as      *syscall.SysProcAttr
		pid     int
		reason  string
	}{
		{"a user without privileges", &user, e.vm.PID(), "needs root, or CAP_SYS_PTRACE"},
		{"a user who may see the VM and not use eBPF", &tracer, e.vm.PID(), "run as root, or with CAP_BPF"},
		{"a process that is no VM", nil, os.Getpid(), "not an Erlang VM"},
	}
	var subjects []string
	for _, r := range refusals {
		cmd := exec.CommandContext(ctx, beamscope, "top", "--json", "--for", "1s", "--pid", strconv.Itoa(r.pid))
		cmd.SysProcAttr = r.as
		if err := refused(cmd, r.reason); err != nil {
			return "", fmt.Errorf("%s: %w", r.subject, err)
		}
		subjects = append(subjects, r.subject)
	}
	return strings.Join(subjects, ", "), nil
}

// refused runs a command that must fail with one line that has the reason.
func refused(cmd *exec.Cmd, reason string) error {
	out, err := cmd.CombinedOutput()
	fmt.Printf("%s", out)
	var failed *exec.ExitError
	text := strings.TrimSpace(string(out))
	if !errors.As(err, &failed) || strings.Contains(text, "\n") || !strings.Contains(text, reason) {
		return fmt.Errorf("want failure with one line that has %q, have %v: %q", reason, err, text)
	}
	return nil
}

// semaphore returns the semaphore of the probe for the spans of span_load.
func (e examination) semaphore(ctx context.Context) (uint16, error) {
	found, _, err := vm.Find(ctx, vm.Target{PID: e.vm.PID()})
	if err != nil {
		return 0, err
	}
	probes, err := found[0].Probes()
	if err != nil {
		return 0, err
	}
	name := fmt.Sprintf("user_trace__n%d", bpf.Label("load"))
	for _, p := range probes {
		if p.Name == name {
			return found[0].Process.Semaphore(p.Sites[0], found[0].Exe)
		}
	}
	return 0, fmt.Errorf("no probe %s", name)
}
