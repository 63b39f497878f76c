package procname

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/beamscope/beamscope/internal/host/guard"
	"github.com/beamscope/beamscope/usdt"
)

// A Reader reads the names of one VM's processes. One goroutine at a time may use it.
type Reader struct {
	mem    memory
	closer io.Closer
	layout layout
	procs  uint64 // address of the process table
	atoms  atoms

	processes table // zero until it has been read

	checked bool   // the first process was read correctly
	initial search // for the key of the initial call in process dictionaries

	process [maxStruct]byte
	survey  survey
}

// Open opens the memory of the VM with a pid of the operating system, which needs the right to
// trace it (root, or CAP_SYS_PTRACE). The first VM of an executable takes about a tenth of a
// second, the others take a few milliseconds.
//
// The error wraps [ErrNoLayout] if its executable does not contain the layout,
// [usdt.ErrProcessGone] if there is no process, and [guard.ErrNoAnswer] if the process or its files
// do not answer within some seconds.
func (l *Layouts) Open(ctx context.Context, pid int) (*Reader, error) {
	p, err := l.search.Open(ctx, pid)
	if err == nil {
		var owner int
		if owner, err = p.Owner(); err == nil {
			var r *Reader
			if r, err = guard.Do(ctx, &l.guard, owner, 2*patience, func(ctx context.Context) (*Reader, error) { return l.open(ctx, p) }); err == nil {
				return r, nil
			}
		}
	}
	if errors.Is(err, ErrNoLayout) { // which has these names already
		return nil, err
	}
	return nil, fmt.Errorf("names of processes: %w", err)
}

func (l *Layouts) open(ctx context.Context, p usdt.Process) (*Reader, error) {
	exe, err := p.Executable()
	if err != nil {
		return nil, err
	}
	f, err := exe.Open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	known, err := l.of(ctx, p, f)
	if err != nil {
		return nil, err
	}
	bias, err := p.Bias(exe, f)
	if err != nil {
		return nil, err
	}
	mem, err := p.Memory(exe)
	if err != nil {
		return nil, err
	}
	r := newReader(mem, known, bias)
	r.closer = mem
	if err := r.check(); err != nil && !errors.Is(err, ErrStarting) {
		mem.Close()
		return nil, err
	}
	return r, nil
}

func newReader(mem io.ReaderAt, l layout, bias uint64) *Reader {
	return &Reader{
		mem:     memory{mem},
		layout:  l,
		procs:   l.procs + bias,
		atoms:   atoms{mem: memory{mem}, layout: l.atoms, table: l.allAtoms + bias},
		initial: search{text: "$initial_call"},
		survey:  survey{code: code{mem: memory{mem}, layout: l.code, missing: l.noCode, bias: bias}},
	}
}

// Close closes the VM's memory.
func (r *Reader) Close() error { return r.closer.Close() }

// Lookup returns the name of the process <0.number.serial>.
//
// The error wraps [ErrNoProcess] if the process does not exist or is exiting; [ErrUnsettled] if it
// changed all the time, and then the name contains the known part; [ErrStarting] if the VM has just
// started; [ErrNoLayout] if the VM's structures are not as expected; [usdt.ErrProcessGone] if the
// VM has ended.
func (r *Reader) Lookup(number, serial uint32) (Name, error) {
	name, _, err := r.lookAgain(number, serial, sample{})
	return name, err
}

// Atom returns the text, as Erlang writes it, of the atom with an index in the VM's table. The
// errors are those of [Reader.Lookup].
func (r *Reader) Atom(index uint64) (string, error) {
	if err := r.check(); err != nil {
		return "", err
	}
	if index>>32 != 0 {
		return "", fmt.Errorf("%d: %w", index, errAtom)
	}
	text, err := r.atoms.text(term(index<<6) | atomTag)
	return text, gone(err)
}

// lookAgain is Lookup of a process with an earlier accepted sample. If the new sample equals it,
// one read is enough. lookAgain returns the sample that is accepted now.
func (r *Reader) lookAgain(number, serial uint32, before sample) (Name, sample, error) {
	if err := r.check(); err != nil {
		return Name{}, sample{}, err
	}
	name, s, err := r.lookup(number, serial, before)
	if err != nil {
		err = fmt.Errorf("<0.%d.%d>: %w", number, serial, err)
	}
	return name, s, err
}

// check makes sure, once, that data is read correctly: the first process of every VM registers
// itself as init before it starts anything else. It then looks for the key of initial calls, an
// atom that proc_lib creates soon after.
func (r *Reader) check() error {
	if !r.checked {
		name, _, err := r.lookup(0, 0, sample{})
		switch {
		case errors.Is(err, usdt.ErrProcessGone), errors.Is(err, ErrNoLayout):
			return err
		case err != nil || name.Registered == "":
			return ErrStarting
		case name.Registered != "init":
			return fmt.Errorf("%w: the first process seems to be %q, not init", ErrNoLayout, name.Registered)
		}
		if r.layout.known {
			if err := r.prove(name); err != nil {
				return err
			}
		}
		r.checked = true
	}
	return gone(r.initial.goOn(&r.atoms))
}

// tries is the maximum number of reads of a process until two agree.
const tries = 8

// lookup reads a process until two successive reads agree, and returns its name and the sample.
func (r *Reader) lookup(number, serial uint32, last sample) (Name, sample, error) {
	if err := r.findTable(); err != nil {
		return Name{}, sample{}, gone(err)
	}
	id, place, ok := r.processes.identifier(number, serial)
	if !ok {
		return Name{}, sample{}, ErrNoProcess
	}
	if place >= r.processes.max {
		return Name{}, sample{}, fmt.Errorf("%w: its process table has no place for <0.%d.%d>", ErrNoLayout, number, serial)
	}
	s, err := r.settle(place, id, last)
	if err != nil && s == (sample{}) {
		return Name{}, sample{}, gone(err)
	}
	name, unnamed := r.name(s)
	if unnamed != nil {
		return Name{}, sample{}, unnamed
	}
	return name, s, err
}

// settle reads a process until two successive reads agree. If only its initial call differs, settle
// returns a sample without it, and an error.
func (r *Reader) settle(place uint32, id uint64, last sample) (sample, error) {
	var (
		settled sample
		problem error
	)
	for range tries {
		s, err := r.sample(place, id)
		if errors.Is(err, ErrNoProcess) || errors.Is(err, io.EOF) {
			return sample{}, err
		}
		if problem = err; err != nil {
			last = sample{}
			continue
		}
		if s.identity == last.identity {
			if s.call == last.call && !s.call.torn {
				return s, nil
			}
			settled.identity = s.identity
		}
		last = s
	}
	if settled == (sample{}) {
		return sample{}, fmt.Errorf("%w: %w", ErrUnsettled, cmp.Or(problem, errTorn))
	}
	return settled, fmt.Errorf("initial call: %w", ErrUnsettled)
}

// gone turns the end of the memory into the error that it means.
func gone(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %w", usdt.ErrProcessGone, err)
	}
	return err
}

// name returns the names in a sample as text.
func (r *Reader) name(s sample) (Name, error) {
	var (
		name Name
		err  error
	)
	if s.name != 0 {
		if name.Registered, err = r.atoms.text(s.name); err != nil {
			return Name{}, fmt.Errorf("%w: registered name: %w", ErrUnsettled, gone(err))
		}
	}
	if name.Spawned, err = r.function(s.spawned); err != nil {
		return Name{}, fmt.Errorf("%w: spawned: %w", ErrUnsettled, gone(err))
	}
	if s.call.found {
		if name.Initial, err = r.function(s.call.mfa); err != nil {
			return Name{}, fmt.Errorf("%w: initial call: %w", ErrUnsettled, gone(err))
		}
	}
	return name, nil
}

// function returns module:function/arity.
func (r *Reader) function(f mfa) (string, error) {
	module, err := r.atoms.text(f.module)
	if err != nil {
		return "", err
	}
	function, err := r.atoms.text(f.function)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s:%s/%d", module, function, f.arity), nil
}

// All returns all processes that have names, in no particular order. It takes about as long as a
// Lookup of each.
func (r *Reader) All() ([]Process, error) {
	var all []Process
	for from := uint32(0); ; {
		some, next, err := r.Walk(from, walkMost)
		if err != nil {
			return nil, err
		}
		if all = append(all, some...); next == 0 {
			return all, nil
		}
		from = next
	}
}

// walkMost is the maximum number of places of the process table that Walk reads.
const walkMost = 512

// Walk returns the processes with names in a number of places of the process table, and the place
// to continue, or 0 at the end of the table. It reads at most 512 places.
func (r *Reader) Walk(from uint32, places int) (all []Process, next uint32, err error) {
	if err := r.check(); err != nil {
		return nil, 0, err
	}
	table := r.processes
	if from >= table.max {
		return nil, 0, nil
	}
	var slots [walkMost * wordSize]byte
	n := min(uint32(min(max(places, 1), walkMost)), table.max-from)
	part := view(slots[:n*wordSize])
	if err := r.mem.read(table.slots+uint64(from)*wordSize, part); err != nil {
		return nil, 0, fmt.Errorf("process table: %w", gone(err))
	}
	for at := uint64(0); at < uint64(len(part)); at += wordSize {
		p, err := r.at(part.u64(at))
		if errors.Is(err, usdt.ErrProcessGone) {
			return nil, 0, err
		}
		if err == nil {
			all = append(all, p)
		}
	}
	if next = from + n; next >= table.max {
		next = 0
	}
	return all, next, nil
}

// at returns the process whose structure is at an address.
func (r *Reader) at(address uint64) (Process, error) {
	if address == 0 {
		return Process{}, ErrNoProcess
	}
	id, err := r.mem.word(address + r.layout.process.id)
	if err != nil {
		return Process{}, gone(err)
	}
	number, serial, ok := r.processes.pid(term(id))
	if !ok {
		return Process{}, ErrNoProcess
	}
	name, _, err := r.lookup(number, serial, sample{})
	if name == (Name{}) {
		return Process{}, err
	}
	return Process{Number: number, Serial: serial, Name: name}, nil
}
