// Package vm finds running Erlang VMs and what they are: their node, and the
// VM probes in their executables.
package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/internal/guard"
	"github.com/beamscope/beamscope/usdt"
)

// Provider is the name of the Erlang VM's provider of USDT probes.
const Provider = "erlang"

var (
	// ErrNotVM says that a process is no Erlang VM.
	ErrNotVM = errors.New("not an Erlang VM")

	// ErrNoProbes says that an Erlang VM was built without dynamic tracing.
	ErrNoProbes = errors.New("this Erlang VM was built without probes: it needs one configured with --with-dynamic-trace=systemtap, see docs/vm-with-probes.md or run `make otp`")

	// ErrNone says that no Erlang VM that fits is running.
	ErrNone = errors.New("no such Erlang VM is running")

	// ErrHidden says, beside ErrNone, that not all processes could be looked at.
	ErrHidden = errors.New("that this user may see")
)

// A VM is a running Erlang VM.
type VM struct {
	Process usdt.Process
	Exe     usdt.MappedFile
	Node    string // name@host, as given on its command line; "" where it is not distributed
	User    int    // id of its effective user
}

// PID returns the VM's process id.
func (v VM) PID() int { return v.Process.PID }

// Stopped says why nothing happens in the VM: a signal has stopped its process, or a
// debugger holds it. It is "" where neither is so, or that is not known.
func (v VM) Stopped() string {
	state, err := v.Process.State()
	switch {
	case err != nil:
		return ""
	case state == 'T':
		return "stopped by a signal (SIGSTOP or SIGTSTP)"
	case state == 't':
		return "held by a debugger"
	}
	return ""
}

// Probes reads the VM probes in the VM's executable. The error wraps
// [ErrNoProbes] where it was built without.
func (v VM) Probes() ([]usdt.Probe, error) {
	probes, err := Probes(v.Exe.Path)
	if err != nil {
		return nil, fmt.Errorf("pid %d (%s): %w", v.PID(), v.Exe.Name, err)
	}
	return probes, nil
}

// Probes reads the VM probes in an executable. The error wraps [ErrNoProbes]
// where it has none.
func Probes(path string) ([]usdt.Probe, error) {
	f, err := usdt.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return probesOf(f)
}

// A Flavour is how a VM runs Erlang code.
type Flavour string

// The flavours of VMs.
const (
	FlavourUnknown Flavour = ""
	JIT            Flavour = "JIT"         // compiles it just in time
	Interpreter    Flavour = "interpreter" // interprets it
)

// FlavourOf tells the flavour of a VM's executable by the functions that it
// exports, which stripping leaves in place. It is FlavourUnknown where they do
// not tell.
func FlavourOf(path string) Flavour {
	f, err := usdt.Open(path)
	if err != nil {
		return FlavourUnknown
	}
	defer f.Close()
	return flavourOf(f)
}

func flavourOf(f *usdt.File) Flavour {
	if _, _, err := f.Symbol("beamasm_codegen"); err == nil {
		return JIT
	}
	if _, _, err := f.Symbol("process_main"); err == nil {
		return Interpreter
	}
	return FlavourUnknown
}

// A Target says which VMs to observe: the one with PID, or those of a node's
// name, or else those of an executable. The zero Target is every beam.smp.
type Target struct {
	PID  int
	Node string // name@host
	Exe  string // base name, or the whole path, of the executable

	// User is the name or the id of the effective user of the VMs; "" is any user. It is
	// not looked at where PID is given. The command line of a VM gives its node's name, so
	// any user can start one with the name of another's.
	User string
}

// defaultExe is what the Erlang VM's executable is called.
const defaultExe = "beam.smp"

// String describes the target for people.
func (t Target) String() string {
	text := t.exe()
	switch {
	case t.PID != 0:
		return fmt.Sprintf("pid %d", t.PID)
	case t.Node != "":
		text = "node " + t.Node
	}
	if t.User != "" {
		text += " of user " + t.User
	}
	return text
}

func (t Target) exe() string {
	if t.Exe == "" {
		return defaultExe
	}
	return t.Exe
}

// Single reports whether the target is certain processes only, and not whoever
// runs an executable.
func (t Target) Single() bool { return t.PID != 0 || t.Node != "" || t.User != "" }

// How long a process may take to tell what it is, and how many are asked at a time.
const (
	patience = time.Second
	atATime  = 16
)

// maxVMs is how many processes may look like VMs. Any user can start processes that do, so
// where there are more the users share the room.
const maxVMs = 4096

// A Finder finds VMs and remembers which users' processes do not answer. The zero value
// is ready to use, by several goroutines at once.
type Finder struct {
	search usdt.Search
	guard  guard.Guard
}

// Find is [Finder.Find] of a new Finder.
func Find(ctx context.Context, t Target) ([]VM, usdt.Skipped, error) {
	return new(Finder).Find(ctx, t)
}

// Find returns the VMs that the target means, by pid, and counts the processes that it
// cannot say of whether they are among them: they could not be looked at, or do not answer
// within a second. The error wraps [ErrNone] where there are none, and [ErrNotVM] where
// Target.PID is something else.
func (f *Finder) Find(ctx context.Context, t Target) (found []VM, skipped usdt.Skipped, err error) {
	if t.PID != 0 {
		v, err := f.open(ctx, t.PID)
		if err != nil {
			return nil, usdt.Skipped{}, err
		}
		return []VM{v}, usdt.Skipped{}, nil
	}
	wanted, err := t.user()
	if err != nil {
		return nil, usdt.Skipped{}, err
	}
	processes, skipped, err := f.search.Find(ctx, func(exe string) bool { return matches(exe, t.exe()) })
	switch {
	case ctx.Err() != nil:
		return nil, skipped, context.Cause(ctx)
	case errors.Is(err, os.ErrPermission) && os.Geteuid() == 0:
		return nil, skipped, fmt.Errorf("%s: %w", t, ErrNone) // what root may not see is no VM
	case errors.Is(err, os.ErrPermission):
		return nil, skipped, fmt.Errorf("%s: %w %w: run it as root", t, ErrNone, ErrHidden)
	case err != nil:
		return nil, skipped, fmt.Errorf("find Erlang VMs: %w", err)
	}
	all, errs := f.describeAll(ctx, processes)
	if ctx.Err() != nil {
		return nil, skipped, context.Cause(ctx)
	}
	for i, v := range all {
		switch err := errs[i]; {
		case errors.Is(err, usdt.ErrProcessGone), errors.Is(err, ErrNotVM):
		case err != nil:
			skipped.Add(err)
		case (t.Node == "" || v.Node == t.Node) && wanted(v.User):
			found = append(found, v)
		}
	}
	found, beyond := share(found, maxVMs)
	for _, v := range beyond {
		skipped.Add(fmt.Errorf("process %d of user %d: more than %d processes look like VMs", v.PID(), v.User, maxVMs))
	}
	if len(found) == 0 {
		return nil, skipped, fmt.Errorf("%s: %w", t, ErrNone)
	}
	return found, skipped, nil
}

// describeAll describes processes, several at a time: some may not answer.
func (f *Finder) describeAll(ctx context.Context, processes []usdt.Process) ([]VM, []error) {
	all, errs := make([]VM, len(processes)), make([]error, len(processes))
	var working sync.WaitGroup
	next := make(chan int)
	for range min(atATime, len(processes)) {
		working.Go(func() {
			for i := range next {
				all[i], errs[i] = f.ask(ctx, processes[i], describe)
			}
		})
	}
	for i := range processes {
		next <- i
	}
	close(next)
	working.Wait()
	return all, errs
}

func matches(exe, want string) bool {
	if strings.Contains(want, "/") {
		return exe == want
	}
	return filepath.Base(exe) == want
}

// open returns the VM of a pid.
func (f *Finder) open(ctx context.Context, pid int) (VM, error) {
	p, err := f.search.Open(ctx, pid)
	if errors.Is(err, usdt.ErrProcessGone) {
		return VM{}, fmt.Errorf("pid %d: %w", pid, ErrNone)
	}
	if err != nil {
		return VM{}, fmt.Errorf("pid %d: %w", pid, err)
	}
	v, err := f.ask(ctx, p, describeAny)
	if err != nil {
		return VM{}, fmt.Errorf("pid %d: %w", pid, err)
	}
	return v, nil
}

// ask has a process described that need not answer.
func (f *Finder) ask(ctx context.Context, p usdt.Process, describe func(usdt.Process) (VM, error)) (VM, error) {
	owner, err := p.Owner()
	if err != nil {
		return VM{}, err
	}
	v, err := guard.Do(ctx, &f.guard, owner, patience, func(context.Context) (VM, error) { return describe(p) })
	if errors.Is(err, guard.ErrNoAnswer) {
		err = fmt.Errorf("process %d: %w", p.PID, err)
	}
	return v, err
}

// Read reads something of the VM's executable, which is opened for that. The error wraps
// [guard.ErrNoAnswer] where that takes more than some seconds: whoever owns the file can make
// it.
func Read[T any](ctx context.Context, f *Finder, v VM, read func(*usdt.File) (T, error)) (T, error) {
	const patience = 5 * time.Second

	owner, err := v.Process.Owner()
	var got T
	if err == nil {
		got, err = guard.Do(ctx, &f.guard, owner, patience, func(context.Context) (T, error) {
			file, err := v.Exe.Open()
			if err != nil {
				var none T
				return none, err
			}
			defer file.Close()
			return read(file)
		})
	}
	if err != nil {
		err = fmt.Errorf("pid %d (%s): %w", v.PID(), v.Exe.Name, err)
	}
	return got, err
}

// Semaphore returns the semaphore of a probe's site in the VM's memory, within a second.
func (f *Finder) Semaphore(ctx context.Context, v VM, site usdt.Site) (uint16, error) {
	owner, err := v.Process.Owner()
	if err != nil {
		return 0, err
	}
	return guard.Do(ctx, &f.guard, owner, patience, func(context.Context) (uint16, error) {
		return v.Process.Semaphore(site, v.Exe)
	})
}

// describeAny describes a process of any name. One that is not called like a VM is one if
// it has the probes.
func describeAny(p usdt.Process) (VM, error) {
	v, err := describe(p)
	if err != nil {
		return VM{}, err
	}
	if name := filepath.Base(v.Exe.Name); name != defaultExe {
		if _, err := v.Probes(); err != nil {
			return VM{}, fmt.Errorf("%s: %w", name, ErrNotVM)
		}
	}
	return v, nil
}

// describe describes a process that is called like a VM.
func describe(p usdt.Process) (VM, error) {
	exe, err := p.Executable()
	if errors.Is(err, os.ErrNotExist) && !errors.Is(err, usdt.ErrProcessGone) {
		return VM{}, ErrNotVM
	}
	if err != nil {
		return VM{}, err
	}
	args, err := p.Cmdline()
	if err != nil {
		return VM{}, err
	}
	user, err := p.Owner()
	if err != nil {
		return VM{}, err
	}
	return VM{Process: p, Exe: exe, Node: nodeName(args, hostname), User: user}, nil
}

// hostname returns the part of a node's name behind the @: the whole name of
// this host for long names, the part before the first dot for short ones.
func hostname(long bool) string {
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	if !long {
		name, _, _ = strings.Cut(name, ".")
	}
	return name
}

// nodeName finds the node's name on a VM's command line, as the VM does: the first
// -sname, or else the first -name, each only with exactly one value.
func nodeName(args []string, hostname func(long bool) string) string {
	args = flags(args)
	for _, flag := range []string{"-sname", "-name"} {
		at := slices.Index(args, flag)
		if at < 0 {
			continue
		}
		values := args[at+1:]
		if next := slices.IndexFunc(values, isFlag); next >= 0 {
			values = values[:next]
		}
		if len(values) != 1 {
			continue
		}
		name := values[0]
		if strings.Contains(name, "@") {
			return name
		}
		return name + "@" + hostname(flag == "-name")
	}
	return ""
}

// flags returns the part of a VM's command line that has its flags. Arguments behind
// -extra are the program's. So are those behind -S, unless a -- follows it. Flags also
// come behind a --, which only ends the values of the flag before it (see init in
// OTP's erts).
func flags(args []string) []string {
	for i, arg := range args {
		if arg == "-extra" || arg == "-S" && !slices.Contains(args[i+1:], "--") {
			return args[:i]
		}
	}
	return args
}

func isFlag(arg string) bool { return strings.HasPrefix(arg, "-") }

// Files returns the distinct executables of VMs, each with the VMs that run it.
func Files(vms []VM) map[usdt.MappedFile][]VM {
	byInode := make(map[[2]uint64]usdt.MappedFile)
	files := make(map[usdt.MappedFile][]VM)
	for _, v := range vms {
		id := [2]uint64{v.Exe.Device, v.Exe.Inode}
		if _, ok := byInode[id]; !ok {
			byInode[id] = v.Exe
		}
		files[byInode[id]] = append(files[byInode[id]], v)
	}
	return files
}

// An Exit tells when a process has ended.
type Exit struct {
	fd int
}

// Watch returns an Exit of the VM's process. The caller closes it.
func (v VM) Watch() (*Exit, error) {
	fd, err := unix.PidfdOpen(v.PID(), 0)
	if err != nil {
		return nil, fmt.Errorf("watch pid %d: %w", v.PID(), err)
	}
	return &Exit{fd: fd}, nil
}

// Happened reports whether the process has ended.
func (e *Exit) Happened() bool {
	fds := []unix.PollFd{{Fd: int32(e.fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 1
}

// Close ends the watch.
func (e *Exit) Close() error { return unix.Close(e.fd) }

// Names returns the names of probes, sorted.
func Names(probes []usdt.Probe) []string {
	names := make([]string, 0, len(probes))
	for _, p := range probes {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}
