package sampled

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/beam/jit"
	"github.com/beamscope/beamscope/internal/beam/procname"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/guard"
	"github.com/beamscope/beamscope/internal/host/processor"
	"github.com/beamscope/beamscope/usdt"
)

const (
	// patience limits the time for a read of a VM's memory. A VM that takes longer has no names
	// from then on.
	patience = time.Second

	// startingFor is the number of windows in which reading is tried again if a VM lacks needed
	// data: it may have just started.
	startingFor = 5

	// namedMost is the maximum number of processes of a VM that are named in a window: those with
	// the most samples.
	namedMost = 200
)

// A machine is a VM that is sampled.
type machine struct {
	vm    vm.VM
	id    outcome.VM
	exit  *vm.Exit
	guard *guard.Guard
	namer *procname.Namer

	attribution
	reader *jit.Reader // nil: not opened yet, or closed for good
	silent bool        // its memory did not answer in time and is not read again

	data    bpf.SchedulerData
	noCode  error // why the functions are not known; nil if they are
	noTerms error // why pids are not known
	noData  error // why the schedulers' data is not known

	used  time.Duration   // processor time of the last read
	asked int             // number of attempts to read missing data
	said  map[string]bool // notices that were already returned
}

// newMachine opens a VM. If something cannot be read yet, [machine.refresh] tries again.
func newMachine(ctx context.Context, v vm.VM, g *guard.Guard, layouts *procname.Layouts) (*machine, error) {
	exit, err := v.Watch()
	if err != nil {
		return nil, err
	}
	m := &machine{
		vm: v, id: outcome.VM{PID: v.PID(), Node: v.Node}, exit: exit, guard: g, said: make(map[string]bool),
		namer: procname.NewNamer(layouts, v.PID()),
	}
	errUnasked := errors.New("it was not read yet")
	m.noCode, m.noTerms, m.noData = errUnasked, errUnasked, errUnasked
	m.refresh(ctx)
	m.before = m.after
	return m, nil
}

func (m *machine) close() error {
	err := errors.Join(m.exit.Close(), m.namer.Close())
	if m.reader != nil && !m.silent { // a reader that did not answer is still in use
		err = errors.Join(err, m.reader.Close())
	}
	return err
}

// A knowledge is the result of reading a VM.
type knowledge struct {
	reader                  *jit.Reader
	code                    *jit.Code
	terms                   dtrace.Terms
	data                    bpf.SchedulerData
	noCode, noTerms, noData error
	used                    time.Duration // processor time that reading took
}

// Close closes what was opened after the deadline.
func (k *knowledge) Close() error {
	if k.reader == nil {
		return nil
	}
	return k.reader.Close()
}

// refresh reads the code of the VM, and data that is still missing. more reports that it found
// missing data that the sampler needs.
func (m *machine) refresh(ctx context.Context) (more bool) {
	m.used, m.unread = 0, false
	if m.silent {
		return false
	}
	asks := m.asked < startingFor && (m.noCode != nil || m.noTerms != nil || m.noData != nil)
	if asks {
		m.asked++
	}
	if m.reader == nil && !asks {
		return false
	}
	was := knowledge{m.reader, nil, m.terms, m.data, m.noCode, m.noTerms, m.noData, 0}
	got, err := guard.Do(ctx, m.guard, m.vm.User, patience, func(ctx context.Context) (*knowledge, error) {
		runtime.LockOSThread() // to read this thread's clock
		defer runtime.UnlockOSThread()
		k, begin := was, processor.Thread()
		k.read(ctx, m.vm, asks)
		k.used = processor.Thread() - begin
		return &k, nil
	})
	if err != nil { // the reading goroutine may continue; it closes what it opens
		m.silent = true
		m.before, m.after, m.noCode = nil, nil, err
		return false
	}
	more = m.noData != nil && got.noData == nil
	m.reader, m.terms, m.data = got.reader, got.terms, got.data
	m.noCode, m.noTerms, m.noData = got.noCode, got.noTerms, got.noData
	m.before, m.after, m.used = m.after, got.code, got.used
	return more
}

// skip skips reading the code in this window.
func (m *machine) skip() { m.unread, m.used = m.reader != nil, 0 }

// drop stops reading the VM's code, because it is too large.
func (m *machine) drop() error {
	err := m.reader.Close()
	m.reader, m.before, m.after, m.unread = nil, nil, nil, false
	m.noCode, m.asked = jit.ErrLimit, startingFor
	return err
}

// read reads the code. If asks is true, it also reads missing data.
func (k *knowledge) read(ctx context.Context, v vm.VM, asks bool) {
	if asks && k.noTerms != nil {
		k.terms, k.noTerms = v.Terms()
	}
	if asks && k.noData != nil {
		k.data, k.noData = schedulerData(ctx, v)
	}
	if asks && k.reader == nil {
		k.reader, k.noCode = jit.Open(v.Process, v.Exe)
	}
	if k.reader != nil {
		k.code, k.noCode = k.reader.Read(ctx)
	}
}

// ended reports whether the VM has ended.
func (m *machine) ended() bool { return m.exit.Happened() }

// name adds process names to cells, in their order.
func (m *machine) name(cells []Cell) {
	named := make(map[Who]string)
	for i, c := range cells {
		if c.Who.Kind != Process {
			continue
		}
		name, known := named[c.Who]
		if !known && len(named) < namedMost {
			if found, ok := m.namer.Name(c.Who.Number, c.Who.Serial); ok {
				name = found.String()
			}
			named[c.Who] = name
		}
		cells[i].Name = name
	}
}

// notices returns new notices about unknown data of the VM.
func (m *machine) notices() []string {
	var all []string
	say := func(format string, err error) {
		if errors.Is(err, usdt.ErrProcessGone) {
			return // the notice that the VM has ended says it
		}
		if text := fmt.Sprintf(format, m.id, err); err != nil && !m.said[format] {
			m.said[format] = true
			all = append(all, text)
		}
	}
	if m.asked >= startingFor || m.silent || !errors.Is(m.noCode, jit.ErrNone) {
		say("%s: %v: its functions and processes are not known", m.noCode)
	}
	if m.asked >= startingFor || !errors.Is(m.noTerms, vm.ErrStarting) {
		say("%s: %v: its processes go by terms", m.noTerms)
	}
	if m.asked >= startingFor || !errors.Is(m.noData, vm.ErrStarting) {
		say("%s: %v: which processes its C code runs for is not known", m.noData)
	}
	if m.unread {
		say("%s: %v: its functions are not known in windows in which they are not read", errBudget)
	}
	if err := m.namer.Err(); errors.Is(err, procname.ErrNoLayout) && m.noTerms == nil {
		say("%s: %v: its processes go by their pids", err)
	}
	return all
}

// errBudget means that the code of a user's VMs takes too long to read.
var errBudget = errors.New("the lists of compiled code of its user's VMs take too long to be read in each window")

// errNoData means that the location of a VM's scheduler data is unknown.
var errNoData = errors.New("the data of its schedulers cannot be found")

// The members of ErtsSchedulerData, erts/emulator/beam/erl_process.h of OTP 25 to 29, on x86-64 and
// arm64.
const (
	currentProcess = 168 // current_process
	schedulerNo    = 184 // no
	dirtyNo        = 192 // dirty_no
)

// sizesOfData returns the size of ErtsAlignedSchedulerData of a release. The data is used only
// after it has agreed with other data: see [attribution.learn].
func sizesOfData(release int) (size uint32, ok bool) {
	switch release {
	case 25:
		return 41728, true
	case 27, 29:
		return 41792, true
	}
	return 0, false
}

// schedulerData finds the data of a VM's schedulers. The error wraps [vm.ErrStarting] if the data
// may exist later.
func schedulerData(ctx context.Context, v vm.VM) (d bpf.SchedulerData, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w: %w", errNoData, err)
		}
	}()
	f, err := v.Open(ctx)
	if err != nil {
		return d, err
	}
	defer f.Close()
	release := v.Release()
	size, ok := sizesOfData(release)
	if !ok {
		return d, fmt.Errorf("it is %s", dtrace.ReleaseName(release))
	}
	d = bpf.SchedulerData{Size: size, Current: currentProcess}
	d.Number[bpf.Scheduler], d.Number[bpf.DirtyCPUScheduler], d.Number[bpf.DirtyIOScheduler] = schedulerNo, dirtyNo, dirtyNo
	bias, err := v.Process.Bias(v.Exe, f)
	if err != nil {
		return d, err
	}
	memory, err := v.Process.Memory(v.Exe)
	if err != nil {
		return d, err
	}
	defer memory.Close()
	for kind, name := range [...]string{
		bpf.Scheduler:         "erts_aligned_scheduler_data",
		bpf.DirtyCPUScheduler: "erts_aligned_dirty_cpu_scheduler_data",
		bpf.DirtyIOScheduler:  "erts_aligned_dirty_io_scheduler_data",
	} {
		if name == "" {
			continue
		}
		address, err := f.Variable(name)
		if err != nil {
			return d, err
		}
		var pointer [8]byte
		if _, err := memory.ReadAt(pointer[:], int64(address+bias)); err != nil {
			return d, err
		}
		if d.Arrays[kind] = binary.LittleEndian.Uint64(pointer[:]); d.Arrays[kind] == 0 {
			return d, vm.ErrStarting
		}
	}
	return d, nil
}
