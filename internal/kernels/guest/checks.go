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
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/vm"
)

// An examination observes one VM again and again.
type examination struct {
	vm *erlang.VM
	as *syscall.SysProcAttr // how beamscope is started, nil for as root
}

// beamscope is the program that observes.
const beamscope = "/bin/beamscope"

// doctor has beamscope examine the machine.
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

// spans has VMs make spans, and counts them: the VM, and another one with more schedulers
// than there are processors. That one's threads take the processor from each other all the
// time, also while the programs at the probes run.
func (e examination) spans(ctx context.Context) (string, error) {
	calm, err := e.countSpans(ctx, 4, 4950)
	if err != nil {
		return calm, err
	}
	crowded, err := startVM(ctx, "+S", "8:8")
	if err != nil {
		return "", err
	}
	defer crowded.Stop()
	busy, err := examination{vm: crowded}.countSpans(ctx, 16, 19950)
	if err != nil {
		return "", fmt.Errorf("8 schedulers: %w", err)
	}
	return fmt.Sprintf("%s; with 8 schedulers %s", calm, busy), nil
}

// countSpans has so many processes of the VM make spans that succeed, and some fail.
func (e examination) countSpans(ctx context.Context, procs, good int) (string, error) {
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

// rules has the VM spawn processes, and counts their lives by their function.
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
	return lives.String(), nil
}

// osWaits has more processes work than there are processors.
func (e examination) osWaits(ctx context.Context) (string, error) {
	got, err := e.observe(ctx, "{vm: os-wait, dmax: 1s, bins: 100}", func() error {
		_, err := e.vm.Call(ctx, "span_load", "run", "[#{procs => 8, spans => 4000}]")
		return err
	}, func(c counts) bool { return c.n > 0 })
	return fmt.Sprintf("%d waits", got.n), err
}

// counts are of the instances of one outcome.
type counts struct {
	n, ok, failed, timeout, lost int
	groups                       map[string]counts
}

func (c counts) String() string {
	return fmt.Sprintf("%d instances: %d ok, %d failed, %d timed out, %d lost", c.n, c.ok, c.failed, c.timeout, c.lost)
}

// A line is what is read of one that `run --json` prints.
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

// observe observes an outcome while the VM does something, until enough was seen.
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
				// The windows before are not observed as a whole.
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
	lines chan string // of its standard output
	log   chan string // all that it told on standard error, once that is over
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

// follow reads the log. It closes observing when the VM is observed.
func (r *run) follow(stderr io.Reader, observing chan struct{}) {
	var log strings.Builder
	begin := sync.OnceFunc(func() { close(observing) })
	for s := lines(stderr); s.Scan(); {
		fmt.Println("beamscope:", s.Text())
		fmt.Fprintln(&log, s.Text())
		if strings.Contains(s.Text(), "observing pid") {
			begin()
		}
	}
	r.log <- log.String()
}

// lines reads lines, which may be long: an object of JSON is one.
func lines(r io.Reader) *bufio.Scanner {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<24)
	return s
}

// interrupt ends it, and adds the lines that it printed meanwhile.
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

// failure returns why it ended by itself.
func (r *run) failure() error {
	log := <-r.log
	return errors.Join(r.cmd.Wait(), errors.New(strings.TrimSpace(log)))
}

func (r *run) kill() { _ = r.cmd.Process.Kill() }

// someWindows is how long it takes until a window that is over has been read, and more.
const someWindows = 6 * time.Second

// explanations has the VM make spans that are slow for known causes, and compares what
// they are put down to with what the program has measured.
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
	// It keeps what the windows that it has read hold, and says nothing when it reads one.
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

// A cause is what one span was slow for, by the program.
type cause struct {
	id             uint64
	scenario, kind string
	own            bool // in the process of the span
	ns             int64
}

// eachSpan finds the spans in the result of causes:run/2, each with its id and cause.
var eachSpan = regexp.MustCompile(`\{(\d+),\d+,(\d+)\}`)

// explained is what is read of a span that `trace --json` prints.
type explained struct {
	ID       uint64
	Duration int64 `json:"duration_ns"`
	Shares   []struct {
		Duration int64 `json:"duration_ns"`
		Kind     string
		Own      bool
	}
}

// check says what is wrong with an explanation.
func (s explained) check(c cause) error {
	var sum, share, machine int64
	for _, p := range s.Shares {
		sum += p.Duration
		switch {
		case p.Kind == c.kind && p.Own == c.own:
			share += p.Duration
		case p.Kind == "os": // the program's clock goes on then
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

// A topLine is what is read of a line that `top --json` prints.
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

// top has processes run, and compares the processor time that `top` says with how long
// their slices took. What it reads of the VM's memory it reads of every process.
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

// observers are the capabilities of docs/privileges.md that `run` keeps to observe VMs of
// any user. What it keeps besides is for writing files.
func observers() []uintptr {
	return []uintptr{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_PTRACE,
		unix.CAP_DAC_READ_SEARCH, unix.CAP_CHECKPOINT_RESTORE, unix.CAP_SYS_ADMIN}
}

// capabilities has a user who is not root observe root's VM: with all capabilities that
// `run` keeps, and with the three without which there is nothing to observe.
func (e examination) capabilities(ctx context.Context) (string, error) {
	for _, caps := range [][]uintptr{observers(), observers()[:3]} {
		e.as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, AmbientCaps: caps}
		if _, err := e.countSpans(ctx, 4, 4950); err != nil {
			return "", fmt.Errorf("with %d capabilities: %w", len(caps), err)
		}
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
	// The kernel takes the probes off when the last of the process is gone.
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

// refusals has beamscope refuse what it cannot do.
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

// semaphore returns that of the probe of the spans that span_load makes.
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
