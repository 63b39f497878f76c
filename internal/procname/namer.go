package procname

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/beamscope/beamscope/internal/guard"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/usdt"
)

// A Namer names the processes of one VM and remembers the names. It opens the VM in
// the background, so that nobody waits for it; until then there are no names. One
// goroutine at a time may use it.
//
// Who makes a VM's memory can keep whoever reads it waiting. So another goroutine reads
// it, and is waited for a quarter of a second. After that there are no names until it goes on.
type Namer struct {
	opened chan struct{} // closed when reader or err is set
	cancel context.CancelFunc
	reader *Reader
	err    error

	work chan func()   // for the goroutine that reads
	done chan struct{} // told when that is done
	late bool          // it was not waited for

	ended chan struct{} // closed when that goroutine has ended

	names memo
	now   func() int64
}

// answerWithin is how long the VM's memory may take to answer.
const answerWithin = 250 * time.Millisecond

const (
	// maxAge is how old a name may be, in nanoseconds: processes register under
	// other names.
	maxAge = int64(5 * time.Second)

	// maxMemory is for how long a process that has ended keeps the name it had, in
	// nanoseconds. What it did is counted under that name a little later.
	maxMemory = int64(time.Minute)
)

// NewNamer begins to open the VM with a pid of the operating system. The caller must
// Close it.
func NewNamer(layouts *Layouts, pid int) *Namer {
	ctx, cancel := context.WithCancel(context.Background())
	n := &Namer{
		opened: make(chan struct{}), cancel: cancel, now: monotonic.Now,
		work: make(chan func()), done: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	go func() {
		defer close(n.ended)
		n.reader, n.err = layouts.Open(ctx, pid)
		close(n.opened)
		for f := range n.work {
			f()
			n.done <- struct{}{}
		}
		if n.reader != nil {
			_ = n.reader.Close() // it was only read
		}
	}()
	return n
}

// read has something read of the VM's memory, unless that does not answer. What it sets is
// valid where there is no error.
func (n *Namer) read(f func()) error {
	if n.late {
		select {
		case <-n.done:
			n.late = false
		default:
			return guard.ErrNoAnswer
		}
	}
	n.work <- f
	timer := time.NewTimer(answerWithin)
	defer timer.Stop()
	select {
	case <-n.done:
		return nil
	case <-timer.C:
		n.late = true
		return fmt.Errorf("%w within %v", guard.ErrNoAnswer, answerWithin)
	}
}

// Name returns the name of the process <0.number.serial>; ok is false where it is not
// known, or not yet. It is at most five seconds old, unless the process has ended:
// then it is the last that was known. That of a process of proc_lib which has not noted its
// initial call is read again each time.
func (n *Namer) Name(number, serial uint32) (name Name, ok bool) {
	if !n.ready() {
		return Name{}, false
	}
	key, now := pid{number, serial}, n.now()
	known, ok := n.names.get(key)
	age := now - known.at
	if ok && (age < maxAge && !known.name.starting() || n.err != nil && age < maxMemory) {
		return known.name, known.name != Name{}
	}
	if n.err != nil {
		return Name{}, false
	}
	name, read, err := n.lookAgain(number, serial, known.sample)
	switch {
	case err == nil:
		n.names.put(key, remembered{name, read, now})
	case errors.Is(err, ErrNoLayout), errors.Is(err, usdt.ErrProcessGone):
		n.err = err
	case errors.Is(err, ErrNoProcess):
		if ok && known.name != (Name{}) && age < maxMemory {
			return known.name, true
		}
		n.names.put(key, remembered{at: now})
	case errors.Is(err, guard.ErrNoAnswer):
		return known.name, known.name != Name{}
	case errors.Is(err, ErrUnsettled) && ok && known.name.Registered == name.Registered:
		name = known.name // which says more
	}
	return name, name != Name{}
}

// lookAgain is [Reader.lookAgain] of memory that need not answer.
func (n *Namer) lookAgain(number, serial uint32, before sample) (Name, sample, error) {
	type answer struct {
		name Name
		read sample
		err  error
	}
	got := new(answer) // another one each time, as a late answer changes its own
	if err := n.read(func() { got.name, got.read, got.err = n.reader.lookAgain(number, serial, before) }); err != nil {
		return Name{}, sample{}, err
	}
	return got.name, got.read, got.err
}

// Read returns the name of the process <0.number.serial> as it is now. The errors are those
// of [Reader.Lookup], [ErrStarting] where the VM is not open yet, or wrap [guard.ErrNoAnswer].
func (n *Namer) Read(number, serial uint32) (Name, error) {
	if !n.ready() {
		return Name{}, ErrStarting
	}
	if n.err != nil {
		return Name{}, n.err
	}
	name, _, err := n.lookAgain(number, serial, sample{})
	return name, err
}

// Walk returns processes with their names as [Reader.Walk] does. The error is [ErrStarting]
// where the VM is not open yet, or wraps [guard.ErrNoAnswer].
func (n *Namer) Walk(from uint32, places int) (all []Process, next uint32, err error) {
	if !n.ready() {
		return nil, 0, ErrStarting
	}
	if n.err != nil {
		return nil, 0, n.err
	}
	type answer struct {
		all  []Process
		next uint32
		err  error
	}
	got := new(answer)
	if err := n.read(func() { got.all, got.next, got.err = n.reader.Walk(from, places) }); err != nil {
		return nil, 0, err
	}
	return got.all, got.next, got.err
}

// Survey returns the figures of processes as [Reader.Survey] does. The error is
// [ErrStarting] where the VM is not open yet, or wraps [guard.ErrNoAnswer].
func (n *Namer) Survey(from uint32, processes int) (all []Figures, next uint32, err error) {
	if !n.ready() {
		return nil, 0, ErrStarting
	}
	if n.err != nil {
		return nil, 0, n.err
	}
	type answer struct {
		all  []Figures
		next uint32
		err  error
	}
	got := new(answer)
	if err := n.read(func() { got.all, got.next, got.err = n.reader.Survey(from, processes) }); err != nil {
		return nil, 0, err
	}
	return got.all, got.next, got.err
}

// Opened is closed when the VM is open, or could not be opened.
func (n *Namer) Opened() <-chan struct{} { return n.opened }

// Atom returns the text, as Erlang writes it, of the atom that has an index in the VM's
// table; ok is false where it is not known, or not yet.
func (n *Namer) Atom(index uint64) (text string, ok bool) {
	if !n.ready() || n.err != nil {
		return "", false
	}
	type answer struct {
		text string
		err  error
	}
	got := new(answer)
	if err := n.read(func() { got.text, got.err = n.reader.Atom(index) }); err != nil {
		return "", false
	}
	return got.text, got.err == nil
}

// ready tells whether the VM has been opened, or could not be.
func (n *Namer) ready() bool {
	select {
	case <-n.opened:
		return true
	default:
		return false
	}
}

// Err returns why there are no names, and nil while there may be. It wraps the errors
// of [Layouts.Open] and [Reader.Lookup].
func (n *Namer) Err() error {
	if !n.ready() {
		return nil
	}
	return n.err
}

// Close ends the use of the VM's memory. It waits for what is being read, unless that does
// not answer.
func (n *Namer) Close() error {
	n.cancel()
	<-n.opened
	close(n.work)
	if !n.late {
		<-n.ended
	}
	return nil
}

// A pid is a process identifier of this node, <0.number.serial>.
type pid struct{ number, serial uint32 }

// A remembered name was read at a time, in nanoseconds. It is empty where there was no
// process.
type remembered struct {
	name   Name
	sample sample
	at     int64
}

// A memo remembers the names that were last asked for, half of maxNames of them at
// least: when the younger ones are so many, they become the older ones, which are
// forgotten.
type memo struct{ young, old map[pid]remembered }

const maxNames = 1 << 13

func (m *memo) get(key pid) (remembered, bool) {
	if r, ok := m.young[key]; ok {
		return r, true
	}
	r, ok := m.old[key]
	if ok {
		m.put(key, r)
	}
	return r, ok
}

func (m *memo) put(key pid, r remembered) {
	if m.young == nil || len(m.young) >= maxNames/2 {
		m.young, m.old = make(map[pid]remembered), m.young
	}
	m.young[key] = r
}
