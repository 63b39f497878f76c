package procname

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/beamscope/beamscope/internal/debuginfo"
	"github.com/beamscope/beamscope/internal/guard"
	"github.com/beamscope/beamscope/usdt"
)

// Layouts remembers what has been read of executables, which takes about a tenth of
// a second for each. The zero value is ready to use, by several goroutines at once.
type Layouts struct {
	search usdt.Search
	guard  guard.Guard

	mu    sync.Mutex
	known map[userExecutable]*reading
	spent map[int]time.Duration // on what could not be read, by the user whose process it was of

	turn sync.Mutex // held by who reads: one at a time, for the memory that it takes
}

// An executable is the file of a VM. Who makes an executable gives it its build ID, so
// that another one can have the same.
type executable struct {
	buildID       string
	device, inode uint64
	size          int64
	changed       time.Time
}

// A userExecutable is an executable that processes of one user in one mount namespace run.
// Another namespace may have other debugging information, and each user has a limit of
// time. So what one user does decides nothing about the processes of another.
type userExecutable struct {
	executable
	namespace uint64
	owner     int
}

// A reading is the layout of an executable, once it has been read.
type reading struct {
	once   sync.Once
	layout layout
	err    error

	messagesOnce sync.Once
	messages     map[uint64]Message
	messagesErr  error
}

const (
	// maxKnown bounds how many executables are remembered.
	maxKnown = 64

	// patience is how long the debugging information of an executable may take to be read,
	// and maxSpent how long all of a user's may take that cannot be read.
	patience = 5 * time.Second
	maxSpent = 15 * time.Second
)

// Members says where struct process of a VM, and what it leads to, have some of their
// members: offsets in bytes.
type Members struct {
	State                            uint32 // 32 bits of flags
	Flags                            uint32 // 32 bits of others
	Save                             uint32 // pointer to a pointer to the message that a receive looks at
	SeqTraceClock, SeqTraceLastCount uint32 // 64 bits each: what the token of the next message is made of
	Suspensions                      uint32 // 32 bits: how many times it is suspended
	Timer                            uint32 // 64 bits: the timer of a receive, 1 where its time is over
	Message                          uint32 // in struct erl_mesg: the term, the token, and where the message is from
}

// Process returns where the processes of an executable that a process runs have some of
// their members. The file is the executable, open. The error wraps [ErrNoLayout] where it
// does not tell, or not within some seconds. What the flags mean differs between releases.
func (l *Layouts) Process(ctx context.Context, p usdt.Process, f *usdt.File) (Members, error) {
	known, err := l.of(ctx, p, f)
	if err != nil {
		return Members{}, err
	}
	return Members{
		State:             uint32(known.process.state),
		Flags:             uint32(known.process.flags),
		Save:              uint32(known.process.save),
		SeqTraceClock:     uint32(known.process.seqTraceClock),
		SeqTraceLastCount: uint32(known.process.seqTraceLastCount),
		Suspensions:       uint32(known.process.suspensions),
		Timer:             uint32(known.process.timer),
		Message:           uint32(known.message),
	}, nil
}

// Messages returns where, at the probes message__queued and message__receive of an
// executable that a process runs, the address of the message is: by the addresses of the
// sites. Nobody changes it. The file is the executable, open. The error wraps [ErrNoLayout]
// where it does not tell, or not within some seconds.
func (l *Layouts) Messages(ctx context.Context, p usdt.Process, f *usdt.File) (map[uint64]Message, error) {
	key, err := identify(p, f)
	if err != nil {
		return nil, err
	}
	r := l.reading(key)
	r.messagesOnce.Do(func() { r.messages, r.messagesErr = readDebug(ctx, l, p, key.owner, f, findMessages) })
	l.forgetGone(key, r.messagesErr)
	return r.messages, r.messagesErr
}

// of returns the layout of an executable that a process runs.
func (l *Layouts) of(ctx context.Context, p usdt.Process, f *usdt.File) (layout, error) {
	key, err := identify(p, f)
	if err != nil {
		return layout{}, err
	}
	r := l.reading(key)
	r.once.Do(func() { r.layout, r.err = readDebug(ctx, l, p, key.owner, f, layoutOf) })
	l.forgetGone(key, r.err)
	return r.layout, r.err
}

func identify(p usdt.Process, f *usdt.File) (userExecutable, error) {
	info, err := f.Stat()
	if err != nil {
		return userExecutable{}, err
	}
	key := userExecutable{executable: executable{buildID: f.BuildID(), size: info.Size(), changed: info.ModTime()}}
	key.device, key.inode = usdt.Identity(info)
	if key.namespace, err = p.MountNamespace(); err != nil {
		return userExecutable{}, err
	}
	key.owner, err = p.Owner()
	return key, err
}

// forgetGone forgets a reading that failed because its process has ended. Its PID may have
// been that of another user's process by then.
func (l *Layouts) forgetGone(key userExecutable, err error) {
	if !errors.Is(err, usdt.ErrProcessGone) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, key)
}

func (l *Layouts) reading(key userExecutable) *reading {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r, ok := l.known[key]; ok {
		return r
	}
	if l.known == nil || len(l.known) >= maxKnown {
		l.known = make(map[userExecutable]*reading)
	}
	r := new(reading)
	l.known[key] = r
	return r
}

// readDebug reads something from the debugging information of an executable that a process
// runs, within the time that the owner of the process has left. read gets the executable and
// the file with the information, which may be the same.
func readDebug[T any](ctx context.Context, l *Layouts, p usdt.Process, owner int, f *usdt.File, read func(ctx context.Context, exe, debug *usdt.File) (T, error)) (T, error) {
	var none T
	l.turn.Lock()
	defer l.turn.Unlock()
	if l.left(owner) <= 0 {
		return none, fmt.Errorf("%w: %s: too much debugging information of user %d could not be read", ErrNoLayout, f.Name(), owner)
	}
	begin := time.Now()
	own, err := f.Again() // it stays open as long as it is read, whatever its owner does
	if err != nil {
		return none, err
	}
	found, err := guard.Do(ctx, &l.guard, owner, patience, func(ctx context.Context) (T, error) {
		defer own.Close()
		return readDebugOf(ctx, p, own, read)
	})
	if err != nil {
		l.spend(owner, time.Since(begin))
		return none, fmt.Errorf("%w: %s: %w", ErrNoLayout, f.Name(), err)
	}
	return found, nil
}

// left returns how much time a user has left.
func (l *Layouts) left(owner int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maxSpent - l.spent[owner]
}

func (l *Layouts) spend(owner int, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.spent == nil {
		l.spent = make(map[int]time.Duration)
	}
	l.spent[owner] += d
}

// errStripped says what to do about an executable without debugging information.
var errStripped = errors.New("it has been stripped of its debugging information; install the package that has it (-dbg, -dbgsym or -debuginfo), or use a VM built with it")

// readDebugOf reads from the executable or, where it has been stripped, from its separate
// debugging information: as the process sees it, or else as we do.
func readDebugOf[T any](ctx context.Context, p usdt.Process, f *usdt.File, read func(ctx context.Context, exe, debug *usdt.File) (T, error)) (T, error) {
	found, err := read(ctx, f, f)
	if !errors.Is(err, debuginfo.ErrNone) {
		return found, err
	}
	self, err := usdt.OpenProcess(os.Getpid())
	if err != nil {
		return found, err
	}
	apart, ok := debugFile(f, p, self)
	if !ok {
		if again, err := usdt.OpenProcess(p.PID); err != nil || again != p {
			return found, usdt.ErrProcessGone
		}
		return found, errStripped
	}
	defer apart.Close()
	if found, err = read(ctx, f, apart); err != nil {
		err = fmt.Errorf("%s: %w", apart.Name(), err)
	}
	return found, err
}

// layoutOf reads a layout with its addresses. Separate debugging information also has the
// symbols that stripping removes.
func layoutOf(ctx context.Context, _, debug *usdt.File) (layout, error) {
	l, err := readLayout(ctx, debug)
	if err != nil {
		return layout{}, err
	}
	if l.procs, err = debug.Variable("erts_proc"); err != nil {
		return layout{}, err
	}
	if l.allAtoms, err = debug.Variable("erts_atom_table"); err != nil {
		return layout{}, err
	}
	if l.noCode == nil {
		l.code.ranges, l.noCode = debug.Variable("r") // of beam_ranges.c
	}
	if l.noCode == nil {
		l.code.active, l.noCode = debug.Variable("the_active_code_index")
	}
	return l, nil
}

// debugRoot is where debugging information is kept apart, by build ID (see gdb's
// manual, "Debugging Information in Separate Files").
const debugRoot = "/usr/lib/debug/.build-id"

// debugFile opens the separate debugging information of an executable, as the first of
// the processes sees it that has it. It must be of the same build, and belong to root or
// the owner of the executable: any user can show a process of theirs other files there.
// The file that was looked at is the one that is returned: its name may lead to another
// one by then.
func debugFile(exe *usdt.File, from ...usdt.Process) (f *usdt.File, ok bool) {
	buildID := exe.BuildID()
	if len(buildID) < 3 {
		return nil, false
	}
	name := filepath.Join(debugRoot, buildID[:2], buildID[2:]+".debug")
	for _, p := range from {
		file, err := p.OpenFile(name)
		if err != nil {
			continue
		}
		f, err := usdt.OpenFile(file)
		if err != nil {
			continue
		}
		if f.BuildID() == buildID && trustworthy(f, exe) {
			return f, true
		}
		f.Close()
	}
	return nil, false
}

// trustworthy reports whether debugging information belongs to root or the owner of the
// executable.
func trustworthy(debug, exe *usdt.File) bool {
	of, err := ownerOf(debug)
	if err != nil {
		return false
	}
	owner, err := ownerOf(exe)
	return err == nil && (of == 0 || of == owner)
}

func ownerOf(f *usdt.File) (uid uint32, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	return stat.Uid, nil
}
