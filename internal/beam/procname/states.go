package procname

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/host/guard"
	"github.com/beamscope/beamscope/usdt"
)

// ErrNoStates means that the meaning of the flags of a VM's processes is unknown.
var ErrNoStates = errors.New("the meaning of the flags of its processes is unknown")

// Bits of the state of a process, erts/emulator/beam/erl_process.h of OTP 25, 27 and 29:
// ERTS_PSFLGS_USR_PRIO_MASK, and ERTS_PSFLG_FREE, _EXITING, _GC and _OFF_HEAP_MSGQ. The bits that
// programs in the kernel read are between them.
const (
	stateOwnPriority = 3 << priorityShift
	priorityShift    = 2
	stateFree        = 1 << 10
	stateExiting     = 1 << 11
	stateCollecting  = 1 << 17
	stateOffHeap     = 1 << 24

	// stateLeft are the bits that a process may keep while it waits: the priority of its last turn,
	// the queue for it, and ERTS_PSFLG_MAYBE_SELF_SIGS of OTP 25.
	stateLeft = 3 | 3<<4 | 1<<12
)

// Bits of the other flags of a process, F_INSLPQUEUE and F_TRAP_EXIT.
const (
	flagTimer     = 1 << 1
	flagTrapsExit = 1 << 22
)

// The priorities of processes, PRIORITY_MAX and so on.
const (
	priorityMax uint32 = iota
	priorityHigh
	priorityNormal
)

// A systemProcess is a process that the VM spawns before any code runs, and that never ends.
// Its messages are not on its heap.
type systemProcess struct {
	spawned  string
	priority uint32
}

// systemProcesses returns the system processes of a release in the order of their pids, from
// <0.1.0> on: see erl_start in erts/emulator/beam/erl_init.c. It returns nil for a release whose
// flags are unknown. The flags come from the sources of the releases in the switch.
func systemProcesses(release int) []systemProcess {
	const handler = "erts_dirty_process_signal_handler:start/0"
	common := []systemProcess{
		{"erts_code_purger:start/0", priorityHigh},
		{"erts_literal_area_collector:start/0", priorityHigh},
		{handler, priorityNormal},
		{handler, priorityHigh},
		{handler, priorityMax},
	}
	switch release {
	case 25:
		return common
	case 27, 29:
		return append(common, systemProcess{"erts_trace_cleaner:start/0", priorityNormal})
	}
	return nil
}

// KnowsStates returns an error that wraps [ErrNoStates] if the flags of a release are unknown.
func KnowsStates(release int) error {
	if systemProcesses(release) == nil {
		return fmt.Errorf("%w: it is %s", ErrNoStates, dtrace.ReleaseName(release))
	}
	return nil
}

// provePatience is how long [Layouts.ProveStates] tries.
const provePatience = 2 * time.Second

// ProveStates makes sure that the fields State, Flags, Suspensions and Timer that [Layouts.Process]
// returns have the known meaning of a release of Erlang/OTP. The flags of init and of the VM's
// system processes must be those that a VM of this release gives them. A VM that has just started
// gets up to two seconds.
//
// The error wraps [ErrNoStates] if they have other flags, or if the flags of the release are
// unknown; otherwise the errors are those of [Layouts.Open].
func (l *Layouts) ProveStates(ctx context.Context, p usdt.Process, release int) error {
	if err := KnowsStates(release); err != nil {
		return err
	}
	all := systemProcesses(release)
	owner, err := p.Owner()
	if err != nil {
		return err
	}
	_, err = guard.Do(ctx, &l.guard, owner, 2*patience, func(ctx context.Context) (struct{}, error) {
		r, err := l.open(ctx, p)
		if err != nil {
			return struct{}{}, err
		}
		defer r.Close()
		return struct{}{}, r.proveStates(ctx, all)
	})
	return err
}

// proveStates tries to prove the flags until that succeeds or fails for good.
func (r *Reader) proveStates(ctx context.Context, all []systemProcess) error {
	const pause = 5 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, provePatience)
	defer cancel()
	for {
		err := r.tryStates(all)
		if !errors.Is(err, ErrStarting) && !errors.Is(err, ErrUnsettled) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrNoStates, err)
		}
	}
}

// tryStates compares the flags of init and of the system processes with what they must be. The
// error wraps [ErrStarting] or [ErrUnsettled] if a later try may succeed.
func (r *Reader) tryStates(all []systemProcess) error {
	if err := r.check(); err != nil {
		return err
	}
	_, init, err := r.stateOf(0)
	switch {
	case err != nil:
		return err
	case init.flags&flagTrapsExit == 0:
		return fmt.Errorf("%w: init does not trap exits", ErrStarting)
	}
	rests := 0
	for i, want := range all {
		number := uint32(i) + 1
		name, is, err := r.stateOf(number)
		switch {
		case err != nil:
			return err
		case name.Spawned != want.spawned:
			return fmt.Errorf("%w: <0.%d.0> was spawned with %s, not with %s", ErrNoStates, number, name.Spawned, want.spawned)
		case !is.matches(want):
			return fmt.Errorf("%w: those of <0.%d.0>, %s, are %#x and %#x", ErrNoStates, number, want.spawned, is.state, is.flags)
		case !is.rests(want):
			continue
		case !is.consistent():
			return fmt.Errorf("%w: <0.%d.0> has the flags %#x, the timer %#x, and was suspended %d times", ErrNoStates, number, is.flags, is.timer, is.suspensions)
		}
		rests++
	}
	if rests == 0 {
		return fmt.Errorf("%w: no system process waits", ErrUnsettled)
	}
	return nil
}

// A state contains the flags of a process, and the words that belong to the flags.
type state struct {
	state, flags, suspensions uint32
	timer                     uint64
}

// matches reports whether a process has the flags that never change.
func (s state) matches(p systemProcess) bool {
	const fixed = stateOwnPriority | stateFree | stateExiting | stateOffHeap
	return s.state&fixed == p.priority<<priorityShift|stateOffHeap
}

// rests reports whether a process only waits.
func (s state) rests(p systemProcess) bool {
	return s.state&^stateLeft == p.priority<<priorityShift|stateOffHeap
}

// consistent reports whether the flags of a process that waits agree with its other words: it has a
// timer exactly if the flag is set, and it is not suspended.
func (s state) consistent() bool {
	return (s.flags&flagTimer != 0) == (s.timer != 0) && s.suspensions == 0
}

// stateOf reads the flags of the process <0.number.0> until two reads agree.
func (r *Reader) stateOf(number uint32) (Name, state, error) {
	name, at, err := r.lookup(number, 0, sample{})
	if name == (Name{}) {
		if errors.Is(err, ErrNoProcess) {
			err = fmt.Errorf("%w: it has no process <0.%d.0>", ErrNoStates, number)
		}
		return Name{}, state{}, err
	}
	var last state
	for try := range tries {
		is, err := r.readState(at.address)
		if err != nil {
			return Name{}, state{}, gone(err)
		}
		if try > 0 && is == last {
			return name, is, nil
		}
		last = is
	}
	return Name{}, state{}, fmt.Errorf("flags of <0.%d.0>: %w", number, ErrUnsettled)
}

// readState reads the flags of the process at an address.
func (r *Reader) readState(process uint64) (s state, err error) {
	l := r.layout.process
	if s.timer, err = r.mem.word(process + l.timer); err != nil {
		return state{}, err
	}
	for _, word := range []struct {
		offset uint64
		to     *uint32
	}{{l.flags, &s.flags}, {l.suspensions, &s.suspensions}, {l.state, &s.state}} {
		var data [4]byte
		if err = r.mem.read(process+word.offset, data[:]); err != nil {
			return state{}, err
		}
		*word.to = binary.LittleEndian.Uint32(data[:])
	}
	return s, nil
}
