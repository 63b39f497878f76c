package procname

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/beamscope/beamscope/internal/beam/debuginfo"
	"github.com/beamscope/beamscope/internal/beam/symbols"
	"github.com/beamscope/beamscope/internal/host/guard"
	"github.com/beamscope/beamscope/usdt"
)

// Layouts caches the layouts of executables. Reading a layout takes about a tenth of a second.
// The zero value is ready to use. Several goroutines may use it at once.
type Layouts struct {
	// Symbols finds the debugging information that was stripped from executables. It must not
	// change once the Layouts are in use.
	Symbols *symbols.Store

	search usdt.Search
	guard  guard.Guard

	mu    sync.Mutex
	known map[userExecutable]*reading
	spent map[int]time.Duration // time spent on layouts that could not be read, by the owner of the process

	turn sync.Mutex // held by the reader: one reads at a time, to bound memory
}

// An executable is the file of a VM. The maker of an executable chooses its build ID, so two
// executables can have the same.
type executable struct {
	buildID       string
	device, inode uint64
	size          int64
	changed       time.Time
}

// A userExecutable is an executable that processes of one user in one mount namespace run. Other
// namespaces may have other debugging information, and each user has a time limit. So users cannot
// affect the layouts of each other's processes.
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
	// maxKnown bounds the number of cached executables.
	maxKnown = 64

	// patience limits the time to read the debugging information of an executable. maxSpent limits
	// the time that a user's unreadable executables may take in total.
	patience = 5 * time.Second
	maxSpent = 15 * time.Second
)

// Members contains the places of some members in a VM's struct process and in structures that it
// points to: offsets in bytes.
type Members struct {
	State                            uint32 // 32 bits of flags
	Flags                            uint32 // 32 bits of other flags
	Save                             uint32 // pointer to a pointer to the message that a receive examines
	SeqTraceClock, SeqTraceLastCount uint32 // 64 bits each, used for the token of the next message
	Suspensions                      uint32 // 32 bits: number of suspensions
	Timer                            uint32 // 64 bits: the timer of a receive, or 1 if it has expired
	Message                          uint32 // in struct erl_mesg: the term, the token, and where the message is from
}

// Process returns the places of some members in the process structures of an executable that a
// process runs. The file is the open executable. The error wraps [ErrNoLayout] if the executable
// does not contain the places, or if they cannot be read within some seconds. The meaning of the
// flags differs between releases.
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

// Messages returns the places of the message's address at the probes message__queued and
// message__receive of an executable that a process runs, by the addresses of the sites. Nobody may
// change the result. The file is the open executable. The error wraps [ErrNoMessages] if the
// executable does not contain the places, or if they cannot be read within some seconds.
func (l *Layouts) Messages(ctx context.Context, p usdt.Process, f *usdt.File) (map[uint64]Message, error) {
	key, err := identify(p, f)
	if err != nil {
		return nil, err
	}
	r := l.reading(key)
	r.messagesOnce.Do(func() { r.messages, r.messagesErr = readDebug(ctx, l, p, key.owner, f, ErrNoMessages, findMessages) })
	l.forgetGone(key, r.messagesErr)
	return r.messages, r.messagesErr
}

// of returns the layout of the executable of a process.
func (l *Layouts) of(ctx context.Context, p usdt.Process, f *usdt.File) (layout, error) {
	key, err := identify(p, f)
	if err != nil {
		return layout{}, err
	}
	r := l.reading(key)
	r.once.Do(func() {
		known := false
		if r.layout, known, r.err = knownLayout(f); known {
			return
		}
		r.layout, r.err = readDebug(ctx, l, p, key.owner, f, ErrNoLayout, layoutOf)
	})
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

// readDebug reads something from the debugging information of an executable that a process runs,
// within the remaining time of the process's owner. read gets the executable and the file with the
// information, which may be the same. The error wraps missing if neither has the data.
func readDebug[T any](ctx context.Context, l *Layouts, p usdt.Process, owner int, f *usdt.File, missing error, read func(ctx context.Context, exe, debug *usdt.File) (T, error)) (T, error) {
	var none T
	l.turn.Lock()
	defer l.turn.Unlock()
	if l.left(owner) <= 0 {
		return none, fmt.Errorf("%w: %s: too much debugging information of user %d could not be read", missing, f.Name(), owner)
	}
	begin := time.Now()
	own, err := f.Again() // stays open while it is read, whatever its owner does
	if err != nil {
		return none, err
	}
	found, err := guard.Do(ctx, &l.guard, owner, patience, func(ctx context.Context) (T, error) {
		defer own.Close()
		return readDebugOf(ctx, l.Symbols, p, own, read)
	})
	if err != nil {
		l.spend(owner, time.Since(begin))
		return none, fmt.Errorf("%w: %s: %w", missing, f.Name(), err)
	}
	return found, nil
}

// left returns the remaining time of a user.
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
var errStripped = errors.New("it has been stripped of its debugging information; install the package that has it (-dbg, -dbgsym or -debuginfo), give its folder with --symbols, or use a VM built with it")

// readDebugOf reads from the executable or, if it was stripped, from its separate debugging
// information.
func readDebugOf[T any](ctx context.Context, store *symbols.Store, p usdt.Process, f *usdt.File, read func(ctx context.Context, exe, debug *usdt.File) (T, error)) (T, error) {
	found, err := read(ctx, f, f)
	if !errors.Is(err, debuginfo.ErrNone) {
		return found, err
	}
	apart, err := store.Find(ctx, f)
	if err != nil {
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
// symbols that stripping removes. A stripped executable may have the code of a known build.
func layoutOf(ctx context.Context, exe, debug *usdt.File) (layout, error) {
	l, err := readLayout(ctx, debug)
	if errors.Is(err, debuginfo.ErrNone) {
		if known, ok := knownByCode(exe); ok {
			return known, nil
		}
	}
	if err != nil {
		return layout{}, err
	}
	if err := l.findVariables(debug); err != nil {
		return layout{}, err
	}
	if l.noCode == nil {
		l.code.ranges, l.noCode = debug.Variable(rangesVariable)
	}
	if l.noCode == nil {
		l.code.active, l.noCode = debug.Variable("the_active_code_index")
	}
	return l, nil
}

// findVariables sets the addresses of the tables of processes and atoms.
func (l *layout) findVariables(f *usdt.File) (err error) {
	if l.procs, err = f.Variable("erts_proc"); err == nil {
		l.allAtoms, err = f.Variable("erts_atom_table")
	}
	return err
}
