package procname

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/beamscope/beamscope/internal/host/guard"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/usdt"
)

// A Namer names the processes of one VM and caches the names. It opens the VM in the background, so
// nobody waits for it; until then there are no names. Only one goroutine may use it at a time.
//
// The owner of a VM's memory can delay reads of it. So another goroutine reads the memory, and the
// Namer waits a quarter of a second for it. After that there are no names until that goroutine goes
// on.
type Namer struct {
	opened chan struct{} // closed when reader or err is set
	cancel context.CancelFunc
	reader *Reader
	err    error

	work chan func()   // requests to the goroutine that reads
	done chan struct{} // receives when a request is done
	late bool          // the Namer did not wait for the last request

	ended chan struct{} // closed when the goroutine has ended

	names memo
	now   func() int64
}

// answerWithin limits the time for a read of the VM's memory.
const answerWithin = 250 * time.Millisecond

const (
	// maxAge is the maximum age of a name, in nanoseconds: processes can change their registered
	// names.
	maxAge = int64(5 * time.Second)

	// maxMemory is how long the name of an ended process is kept, in nanoseconds: its events are
	// counted a little later.
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
			_ = n.reader.Close() // it was opened for reading only
		}
	}()
	return n
}

// read runs a function that reads the VM's memory, with a time limit. The data that the function
// sets is valid only if there is no error.
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

// Name returns the name of the process <0.number.serial>. ok is false if the name is not known, or
// not yet. The name is at most five seconds old. If the process has ended, it is the last known
// name. If a process of proc_lib has not stored its initial call, its name is read again each time.
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
		name = known.name // has more detail
	}
	return name, name != Name{}
}

// lookAgain is [Reader.lookAgain] with a time limit.
func (n *Namer) lookAgain(number, serial uint32, before sample) (Name, sample, error) {
	type answer struct {
		name Name
		read sample
		err  error
	}
	got := new(answer) // a new one each time, because a late read changes the old one
	if err := n.read(func() { got.name, got.read, got.err = n.reader.lookAgain(number, serial, before) }); err != nil {
		return Name{}, sample{}, err
	}
	return got.name, got.read, got.err
}

// Read returns the present name of the process <0.number.serial>. The errors are those of
// [Reader.Lookup], [ErrStarting] if the VM is not open yet, or wrap [guard.ErrNoAnswer].
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

// Atom returns the text, as Erlang writes it, of the atom with an index in the VM's table. ok is
// false if it is not known, or not yet.
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

// ready reports whether opening the VM has ended, with success or not.
func (n *Namer) ready() bool {
	select {
	case <-n.opened:
		return true
	default:
		return false
	}
}

// Err returns why there are no names, or nil as long as there may be names. It wraps the errors of
// [Layouts.Open] and [Reader.Lookup].
func (n *Namer) Err() error {
	if !n.ready() {
		return nil
	}
	return n.err
}

// Close releases the VM's memory. It waits for a read that is under way, unless the read takes too
// long.
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

// A remembered name has the time of its read, in nanoseconds. It is empty if there was no process.
type remembered struct {
	name   Name
	sample sample
	at     int64
}

// A memo caches names in two generations, and keeps at least the maxNames/2 names that were last
// requested. When the younger generation is full, it becomes the older one, and the old one is
// dropped.
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
