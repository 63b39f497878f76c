package procname

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/beamscope/beamscope/usdt"
)

// Layouts remembers what has been read of executables, which takes about a tenth of
// a second for each. The zero value is ready to use, by several goroutines at once.
type Layouts struct {
	mu    sync.Mutex
	known map[executable]*reading
}

// An executable is the file of a VM. Copies of one have one build ID.
type executable struct {
	buildID       string
	device, inode uint64 // 0 where there is a build ID
}

// A reading is the layout of an executable, once it has been read.
type reading struct {
	once   sync.Once
	layout layout
	err    error

	messagesOnce sync.Once
	messages     map[uint64]usdt.Arg
	messagesErr  error
}

// maxKnown bounds how many executables are remembered.
const maxKnown = 64

// Members says where struct process of a VM, and what it leads to, have some of their
// members: offsets in bytes.
type Members struct {
	State                            uint32 // 32 bits of flags
	Flags                            uint32 // 32 bits of others
	Save                             uint32 // pointer to a pointer to the message that a receive looks at
	SeqTraceClock, SeqTraceLastCount uint32 // 64 bits each: what the token of the next message is made of
	Suspensions                      uint32 // 32 bits: how many times it is suspended
	Message                          uint32 // in struct erl_mesg: the term, the token, and where the message is from
}

// Process returns where the processes of an executable that a process runs have some of
// their members. The error wraps [ErrNoLayout] where the executable does not tell.
func (l *Layouts) Process(p usdt.Process, exe usdt.MappedFile) (Members, error) {
	f, err := usdt.Open(exe.Path)
	if err != nil {
		return Members{}, err
	}
	defer f.Close()
	known, err := l.of(p, exe, f)
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
		Message:           uint32(known.message),
	}, nil
}

// Messages returns where, at the probes message__queued and message__receive of an
// executable that a process runs, the address of the message is: by the addresses of the
// sites. Nobody changes it. The error wraps [ErrNoLayout] where the executable does not
// tell.
func (l *Layouts) Messages(p usdt.Process, exe usdt.MappedFile) (map[uint64]usdt.Arg, error) {
	f, err := usdt.Open(exe.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := l.reading(exe, f.BuildID())
	r.messagesOnce.Do(func() {
		r.messages, r.messagesErr = findMessages(exe.Path, f)
		if errors.Is(r.messagesErr, errNoDebugInfo) {
			if path, ok := debugFile(f.BuildID(), fmt.Sprintf("/proc/%d/root", p.PID), "/"); ok {
				r.messages, r.messagesErr = findMessages(path, f)
			}
		}
		if r.messagesErr != nil {
			r.messagesErr = fmt.Errorf("%w: %w", ErrNoLayout, r.messagesErr)
		}
	})
	return r.messages, r.messagesErr
}

// of returns the layout of an executable that a process runs.
func (l *Layouts) of(p usdt.Process, exe usdt.MappedFile, f *usdt.File) (layout, error) {
	r := l.reading(exe, f.BuildID())
	r.once.Do(func() { r.layout, r.err = findLayout(p, exe, f) })
	return r.layout, r.err
}

func (l *Layouts) reading(exe usdt.MappedFile, buildID string) *reading {
	key := executable{buildID: buildID}
	if buildID == "" {
		key = executable{device: exe.Device, inode: exe.Inode}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if r, ok := l.known[key]; ok {
		return r
	}
	if l.known == nil || len(l.known) >= maxKnown {
		l.known = make(map[executable]*reading)
	}
	r := new(reading)
	l.known[key] = r
	return r
}

// findLayout reads the layout from the executable or, where it has been stripped,
// from its separate debugging information: as the process sees it, or else as we do.
func findLayout(p usdt.Process, exe usdt.MappedFile, f *usdt.File) (layout, error) {
	l, err := layoutOf(exe.Path, f)
	if errors.Is(err, errNoDebugInfo) {
		path, ok := debugFile(f.BuildID(), fmt.Sprintf("/proc/%d/root", p.PID), "/")
		if !ok {
			return layout{}, fmt.Errorf("%w: %s has been stripped of its debugging information; install the package that has it (-dbg, -dbgsym or -debuginfo), or use a VM built with it",
				ErrNoLayout, exe.Name)
		}
		l, err = separateLayout(path)
	}
	if err != nil {
		return layout{}, fmt.Errorf("%w: %s: %w", ErrNoLayout, exe.Name, err)
	}
	return l, nil
}

// separateLayout reads a layout from separate debugging information, which also has
// the symbols that stripping removes.
func separateLayout(path string) (layout, error) {
	f, err := usdt.Open(path)
	if err != nil {
		return layout{}, err
	}
	defer f.Close()
	return layoutOf(path, f)
}

// layoutOf reads a layout with its addresses from one file.
func layoutOf(path string, f *usdt.File) (layout, error) {
	l, err := readLayout(path)
	if err != nil {
		return layout{}, err
	}
	if l.procs, err = f.Variable("erts_proc"); err != nil {
		return layout{}, err
	}
	if l.allAtoms, err = f.Variable("erts_atom_table"); err != nil {
		return layout{}, err
	}
	return l, nil
}

// debugRoot is where debugging information is kept apart, by build ID (see gdb's
// manual, "Debugging Information in Separate Files").
const debugRoot = "/usr/lib/debug/.build-id"

// debugFile returns the separate debugging information of an executable, from below
// the first of the roots that has it. It must be of the same build.
func debugFile(buildID string, roots ...string) (path string, ok bool) {
	if len(buildID) < 3 {
		return "", false
	}
	name := filepath.Join(debugRoot, buildID[:2], buildID[2:]+".debug")
	for _, root := range roots {
		if path := filepath.Join(root, name); hasBuildID(path, buildID) {
			return path, true
		}
	}
	return "", false
}

func hasBuildID(path, buildID string) bool {
	f, err := usdt.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return f.BuildID() == buildID
}
