package erlang

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// ErrStopped means that the VM has ended.
var ErrStopped = errors.New("the Erlang VM has stopped")

// stopGrace is the time that a VM has to stop by itself before it is killed.
const stopGrace = 5 * time.Second

// CallError is the answer of the VM to an order that it cannot carry out.
type CallError struct {
	Order string // the order
	Term  string // the Erlang term that says why not
}

func (e *CallError) Error() string { return e.Order + ": " + e.Term }

// A Carrier carries spans from the application beamscope to a collector. The zero value
// leaves the choice to the application, whose default is the ring.
type Carrier string

// The carriers of spans, as the application's environment names them.
const (
	Probes Carrier = "probes" // the VM's probes, where it has them
	Ring   Carrier = "ring"   // the ring in the VM's memory
)

// Options configure a VM to start. The zero value is a VM that waits for calls.
type Options struct {
	// Main are the arguments of beamscope_demo:main: the system to start and its
	// options ("mm1k", "rate=400", "k=10"; "ftf" or "atf", "slow_2=2"), or
	// "idle", which is the default.
	Main []string
	// Args are further arguments of erl, such as "+S", "2:2", "-sname", "a".
	Args []string
	// Carrier is the carrier of the VM's spans.
	Carrier Carrier
	// Paths are further code paths, put before those of the applications.
	Paths []string
	// Env is the environment, or nil for that of this process.
	Env []string
	// Stdout gets the VM's output other than answers, line by line. It is called from one goroutine
	// at a time.
	Stdout io.Writer
}

// VM is a running Erlang VM, a child of this process. It dies with this
// process, even if that is killed. Its methods may be called concurrently.
type VM struct {
	cmd *exec.Cmd

	writing sync.Mutex
	stdin   io.WriteCloser

	stdout *demux
	stderr tail

	done chan struct{} // closed when the VM has ended and err is set
	err  error
}

// StartVM compiles the applications if need be, starts a VM with them, and
// returns when it takes orders. The VM is killed when ctx is done.
func StartVM(ctx context.Context, otp OTP, opts Options) (*VM, error) {
	ebins, err := Compile(ctx, otp, "")
	if err != nil {
		return nil, err
	}
	args := []string{"-noshell"}
	for _, path := range append(ebins, opts.Paths...) { // the last -pa is first in the code path
		args = append(args, "-pa", path)
	}
	// Logs must not be mixed with the answers on stdout.
	args = append(args, "-kernel", "logger",
		`[{handler,default,logger_std_h,#{config=>#{type=>standard_error}}}]`)
	if opts.Carrier != "" {
		args = append(args, "-beamscope", "carrier", string(opts.Carrier))
	}
	args = append(args, opts.Args...)
	args = append(args, "-run", "beamscope_demo", "main")
	if len(opts.Main) == 0 {
		args = append(args, "idle")
	}
	args = append(args, opts.Main...)

	vm := &VM{
		cmd:    exec.CommandContext(ctx, otp.Erl, args...),
		stdout: newDemux(opts.Stdout),
		done:   make(chan struct{}),
	}
	vm.cmd.Env = opts.Env
	vm.cmd.Stdout = vm.stdout
	vm.cmd.Stderr = &vm.stderr
	// A daemon that the VM has started, such as epmd, may keep the pipes open.
	vm.cmd.WaitDelay = stopGrace
	if vm.stdin, err = vm.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start the Erlang VM: %w", err)
	}
	if err := vm.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the Erlang VM: %w", err)
	}
	go func() {
		vm.err = vm.cmd.Wait()
		close(vm.done)
	}()
	select {
	case <-vm.stdout.ready:
		return vm, nil
	case <-vm.done:
		if ctx.Err() != nil {
			return nil, fmt.Errorf("start the Erlang VM: %w", context.Cause(ctx))
		}
		return nil, fmt.Errorf("start the Erlang VM: %w", vm.gone())
	}
}

// PID returns the process id of the emulator itself: erl and its wrappers replace themselves by
// exec.
func (vm *VM) PID() int { return vm.cmd.Process.Pid }

// Done is closed when the VM has ended.
func (vm *VM) Done() <-chan struct{} { return vm.done }

// Call applies an Erlang function to a list of arguments, an Erlang expression such as "[#{procs =>
// 4}]", and returns the result as an Erlang term on one line. Calls run in parallel in the VM. An
// exception is a *CallError; if ctx is done first, the call continues in the VM but its answer is
// dropped.
func (vm *VM) Call(ctx context.Context, module, function, args string) (string, error) {
	return vm.ask(ctx, fmt.Sprintf("call %s %s %s.", module, function, args))
}

// Set changes an option of the system that was started.
func (vm *VM) Set(ctx context.Context, key, value string) error {
	_, err := vm.ask(ctx, "set "+key+" "+value)
	return err
}

// Stop ends the VM, kills it if it does not react, and returns when it is gone. The error says that
// the VM had already failed before.
func (vm *VM) Stop() error {
	select {
	case <-vm.done:
		if vm.err != nil {
			return vm.gone()
		}
		return nil
	default:
	}
	vm.writing.Lock()
	_, _ = io.WriteString(vm.stdin, "stop\n") // closing stdin has the same effect
	_ = vm.stdin.Close()
	vm.writing.Unlock()
	select {
	case <-vm.done:
	case <-time.After(stopGrace):
		_ = vm.cmd.Process.Kill()
		<-vm.done
	}
	return nil
}

func (vm *VM) ask(ctx context.Context, order string) (string, error) {
	if strings.ContainsAny(order, "\r\n") {
		return "", fmt.Errorf("an order to the Erlang VM must be one line: %q", order)
	}
	tag, answer := vm.stdout.expect()
	defer vm.stdout.forget(tag)
	vm.writing.Lock()
	_, err := fmt.Fprintf(vm.stdin, "%s %s\n", tag, order)
	vm.writing.Unlock()
	if err != nil {
		<-vm.done // the VM no longer reads: it is ending
		return "", fmt.Errorf("%s: %w", order, vm.gone())
	}
	select {
	case text := <-answer:
		return result(order, text)
	case <-vm.done:
		select {
		case text := <-answer: // an answer sent just before the end
			return result(order, text)
		default:
			return "", fmt.Errorf("%s: %w", order, vm.gone())
		}
	case <-ctx.Done():
		return "", fmt.Errorf("%s: %w", order, context.Cause(ctx))
	}
}

func result(order, text string) (string, error) {
	word, term, _ := strings.Cut(text, " ")
	if word == "ok" {
		return term, nil
	}
	return "", &CallError{Order: order, Term: term}
}

// gone returns the error for a VM that has ended. Callers wait for done before.
func (vm *VM) gone() error {
	if vm.err == nil {
		return fmt.Errorf("%w%s", ErrStopped, vm.stderr.suffix())
	}
	return fmt.Errorf("%w: %w%s", ErrStopped, vm.err, vm.stderr.suffix())
}

// demux splits the VM's output: it passes answers to the waiting calls, and all other lines to rest.
type demux struct {
	lines lineWriter
	ready chan struct{}
	rest  io.Writer

	mu      sync.Mutex
	last    int
	waiting map[string]chan string
}

func newDemux(rest io.Writer) *demux {
	if rest == nil {
		rest = io.Discard
	}
	return &demux{ready: make(chan struct{}), rest: rest, waiting: make(map[string]chan string)}
}

func (d *demux) Write(p []byte) (int, error) {
	d.lines.each(p, d.line)
	return len(p), nil
}

func (d *demux) line(line string) {
	first, text, _ := strings.Cut(line, " ")
	if first == "ready" && d.isFirst() {
		close(d.ready)
		return
	}
	d.mu.Lock()
	answer, ok := d.waiting[first]
	delete(d.waiting, first)
	d.mu.Unlock()
	switch {
	case ok:
		answer <- text
	case strings.HasPrefix(first, "@"): // the caller has stopped waiting
	default:
		_, _ = io.WriteString(d.rest, line+"\n")
	}
}

func (d *demux) isFirst() bool {
	select {
	case <-d.ready:
		return false
	default:
		return true
	}
}

// expect returns a new tag, and the channel that receives the answer with this tag.
func (d *demux) expect() (string, <-chan string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last++
	tag := fmt.Sprintf("@%d", d.last)
	answer := make(chan string, 1)
	d.waiting[tag] = answer
	return tag, answer
}

func (d *demux) forget(tag string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.waiting, tag)
}
