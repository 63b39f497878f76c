// Package vm finds running Erlang VMs, their nodes, and the VM probes in their executables.
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

	"github.com/beamscope/beamscope/internal/beam/symbols"
	"github.com/beamscope/beamscope/internal/host/account"
	"github.com/beamscope/beamscope/internal/host/guard"
	"github.com/beamscope/beamscope/usdt"
)

// Provider is the name of the Erlang VM's USDT provider.
const Provider = "erlang"

var (
	// ErrNotVM means that a process is not an Erlang VM.
	ErrNotVM = errors.New("not an Erlang VM")

	// ErrNoProbes means that an Erlang VM was built without dynamic tracing.
	ErrNoProbes = errors.New("this Erlang VM was built without probes, see docs/how-to/vm-with-probes.md")

	// ErrNone means that no matching Erlang VM is running.
	ErrNone = errors.New("no such Erlang VM is running")

	// ErrHidden, in addition to ErrNone, means that not all processes could be examined.
	ErrHidden = errors.New("that this user may see")
)

// A VM is a running Erlang VM.
type VM struct {
	Process usdt.Process
	Exe     usdt.MappedFile
	Node    string // name@host, from its command line; "" if it is not distributed
	User    int    // id of its effective user
	Account int    // id of the user on whose account it counts, see [account.Table]

	symbols *symbols.Store // finds the data that was stripped from the executable
}

// Open opens the VM's executable. If it was stripped, its symbols are those of a file of the same
// build, where there is one. The caller closes the file. The owner of the files can delay Open.
func (v VM) Open(ctx context.Context) (*usdt.File, error) {
	f, err := v.Exe.Open()
	if err != nil {
		return nil, err
	}
	v.findSymbols(ctx, f)
	return f, nil
}

// findSymbols finds symbols that were stripped from the executable.
func (v VM) findSymbols(ctx context.Context, f *usdt.File) {
	if f.HasSymbols() {
		return
	}
	if debug, err := v.symbols.Find(ctx, f); err == nil {
		f.UseSymbols(debug)
	}
}

// PID returns the VM's process id.
func (v VM) PID() int { return v.Process.PID }

// Stopped returns why the VM does not run: a signal has stopped its process, or a debugger holds
// it. It returns "" if neither is the case, or if that is unknown.
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

// Probes reads the VM probes in the VM's executable. The error wraps [ErrNoProbes] if it was built
// without probes.
func (v VM) Probes() ([]usdt.Probe, error) {
	probes, err := v.probes()
	if err != nil {
		return nil, fmt.Errorf("pid %d (%s): %w", v.PID(), v.Exe.Name, err)
	}
	return probes, nil
}

func (v VM) probes() ([]usdt.Probe, error) {
	f, err := v.Exe.Open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ProbesOf(f)
}

// Probes reads the VM probes in an executable. The error wraps [ErrNoProbes] if it has none.
func Probes(path string) ([]usdt.Probe, error) {
	f, err := usdt.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ProbesOf(f)
}

// A Flavour is the way in which a VM runs Erlang code.
type Flavour string

// The flavours of VMs.
const (
	FlavourUnknown Flavour = ""
	JIT            Flavour = "JIT"         // compiles the code just in time
	Interpreter    Flavour = "interpreter" // interprets the code
)

// FlavourOf determines the flavour of a VM's executable from its exported functions, which
// stripping does not remove. It returns FlavourUnknown if it cannot read the file, or if the file
// exports the functions of neither flavour.
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

// A Target selects the VMs to observe: the VM with PID, or the VMs with a node's name, or else the
// VMs of an executable. The zero Target is every beam.smp.
type Target struct {
	PID  int
	Node string // name@host
	Exe  string // base name or full path of the executable

	// User is the name or the id of the effective user of the VMs; "" means any user. It is
	// ignored if PID is set. A VM's command line determines its node's name, so any user can
	// start a VM with the name of another's.
	User string

	// Symbols finds the data that was stripped from the executables of the VMs. If it is nil, only
	// the usual places are searched.
	Symbols *symbols.Store
}

// defaultExe is the usual name of the Erlang VM's executable.
const defaultExe = "beam.smp"

// String describes the target.
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

// Single reports whether the target selects certain processes instead of all processes of an
// executable.
func (t Target) Single() bool { return t.PID != 0 || t.Node != "" || t.User != "" }

// Time limit for examining a process, and number of processes that are examined at the same time.
const (
	patience = time.Second
	atATime  = 16
)

// maxVMs is the largest number of processes that look like VMs. Any user can start such
// processes, so if there are more, the users share the room.
const maxVMs = 4096

// A Finder finds VMs, and remembers which users' processes do not answer. The zero value is ready
// to use. Several goroutines may use it at once.
type Finder struct {
	search   usdt.Search
	guard    guard.Guard
	accounts account.Table
}

// Account returns the user on whose account the VMs of a user count.
func (f *Finder) Account(user int) int { return f.accounts.Of(user) }

// Find is [Finder.Find] for a new Finder.
func Find(ctx context.Context, t Target) ([]VM, usdt.Skipped, error) {
	return new(Finder).Find(ctx, t)
}

// Find returns the VMs that match the target, sorted by pid. It also counts processes that may
// match but could not be inspected or do not answer within a second. The error wraps [ErrNone] if
// no VM matches, and [ErrNotVM] if the process Target.PID is not a VM.
func (f *Finder) Find(ctx context.Context, t Target) (found []VM, skipped usdt.Skipped, err error) {
	if t.PID != 0 {
		v, err := f.open(ctx, t.PID)
		if err != nil {
			return nil, usdt.Skipped{}, err
		}
		v.symbols, v.Account = t.Symbols, f.Account(v.User)
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
		return nil, skipped, fmt.Errorf("%s: %w", t, ErrNone) // processes that even root may not examine are not VMs
	case errors.Is(err, os.ErrPermission):
		return nil, skipped, fmt.Errorf("%s: %w %w: run beamscope as root to see all of them", t, ErrNone, ErrHidden)
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
			v.symbols, v.Account = t.Symbols, f.Account(v.User)
			found = append(found, v)
		}
	}
	found, beyond := share(found, maxVMs)
	for _, v := range beyond {
		skipped.Add(fmt.Errorf("process %d of user %d: more than %d processes look like VMs", v.PID(), v.Account, maxVMs))
	}
	if len(found) == 0 {
		return nil, skipped, fmt.Errorf("%s: %w", t, ErrNone)
	}
	return found, skipped, nil
}

// describeAll describes several processes at a time, because some may not answer.
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

// open returns the VM with a pid.
func (f *Finder) open(ctx context.Context, pid int) (VM, error) {
	p, err := f.search.Open(ctx, pid)
	if errors.Is(err, usdt.ErrProcessGone) {
		return VM{}, fmt.Errorf("pid %d: %w", pid, ErrNone)
	}
	if errors.Is(err, os.ErrPermission) {
		return VM{}, &forbiddenError{pid, err}
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

// A forbiddenError means that this user may not examine a process, and contains what is missing.
type forbiddenError struct {
	pid int
	err error // wraps [os.ErrPermission]
}

func (e *forbiddenError) Error() string {
	return fmt.Sprintf("pid %d: this user may not look at it: that needs root, or CAP_SYS_PTRACE", e.pid)
}

func (e *forbiddenError) Unwrap() error { return e.err }

// ask calls describe for a process that may not answer.
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

// Read opens the VM's executable and reads from it. The error wraps [guard.ErrNoAnswer] if that
// takes more than some seconds, because the owner of the file can delay it.
func Read[T any](ctx context.Context, f *Finder, v VM, read func(*usdt.File) (T, error)) (T, error) {
	const patience = 5 * time.Second

	owner, err := v.Process.Owner()
	var got T
	if err == nil {
		got, err = guard.Do(ctx, &f.guard, owner, patience, func(ctx context.Context) (T, error) {
			file, err := v.Open(ctx)
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

// Semaphore returns the semaphore of a probe's site in the VM's memory. It takes at most a
// second.
func (f *Finder) Semaphore(ctx context.Context, v VM, site usdt.Site) (uint16, error) {
	owner, err := v.Process.Owner()
	if err != nil {
		return 0, err
	}
	return guard.Do(ctx, &f.guard, owner, patience, func(context.Context) (uint16, error) {
		return v.Process.Semaphore(site, v.Exe)
	})
}

// describeAny describes a process with any name. A process without the name of a VM is a VM if its
// executable has the probes, or the version of Erlang/OTP.
func describeAny(p usdt.Process) (VM, error) {
	v, err := describe(p)
	if err != nil {
		return VM{}, err
	}
	if name := filepath.Base(v.Exe.Name); name != defaultExe {
		_, err := v.Probes()
		if errors.Is(err, usdt.ErrServed) {
			return VM{}, err
		}
		if err != nil && v.Release() == 0 {
			return VM{}, fmt.Errorf("%s: %w", name, ErrNotVM)
		}
	}
	return v, nil
}

// describe describes a process that has the name of a VM.
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

// hostname returns the part of a node's name after the @: the full name of this host for long
// names, or the part before the first dot for short ones.
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

// nodeName finds the node's name in a VM's command line in the same way as the VM: the first
// -sname, or else the first -name. Each counts only if it has exactly one value.
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

// flags returns the part of a VM's command line that contains its flags. Arguments after -extra
// belong to the program. So do those after -S, unless a -- follows it. Flags may also follow a
// --, which only ends the values of the flag before it (see init in OTP's erts).
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

// Names returns the names of probes, sorted.
func Names(probes []usdt.Probe) []string {
	names := make([]string, 0, len(probes))
	for _, p := range probes {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}
