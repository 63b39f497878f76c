package procname

import (
	"errors"
	"fmt"
	"slices"

	"github.com/beamscope/beamscope/usdt"
)

// Figures are figures of a process from the VM's memory. They may be from slightly different
// moments, because the process goes on while they are read.
type Figures struct {
	Number, Serial uint32 // as in <0.Number.Serial>

	// Waiting is the number of messages in the process's queue: messages that it has fetched but
	// not taken out, and sent messages that it has not fetched. process_info(Pid,
	// message_queue_len) returns the same figure, but that call makes the process fetch first, so
	// it blocks if the process does not run. Signals that are not messages, such as those of
	// monitors and links, are in neither figure.
	Waiting int64

	// Unfetched is the number of these messages that the process has not fetched.
	Unfetched int64

	// Unhandled says that the process works on its last fetch: some of it is not in the inner part
	// of its queue yet.
	Unhandled bool

	// UnfetchedSignals says that there are signals other than messages that the process has not
	// fetched.
	UnfetchedSignals bool

	// AtLeast says that more messages may wait than Waiting: the process has message_queue_data
	// off_heap, and its senders use several queues that the figure does not have.
	AtLeast bool

	// Memory is the size of its heaps, in bytes: total_heap_size of process_info, without
	// messages that are not on the heap yet. process_info's memory also has links, monitors,
	// dictionaries and other structures. It is -1 while the process's garbage is collected.
	Memory int64

	// Reductions is the number of reductions that the process has used, without those of its
	// running slice.
	Reductions uint64

	// Function is the place of the process when it last stopped running, as module:function/arity.
	// It equals current_function of process_info for a process that does not run. It is "" if
	// unknown.
	Function string
}

// PID returns the process identifier as its own node writes it.
func (f Figures) PID() string { return Process{Number: f.Number, Serial: f.Serial}.PID() }

// A survey is the state of a Reader for figures, with its cache of the code.
type survey struct {
	code   code
	first  [maxStruct]byte
	second [maxStruct]byte
	slots  [surveyPlaces * wordSize]byte

	before, after [surveyPlaces]uint64 // addresses of processes, for figuresIn
}

const (
	// surveyMost is the maximum number of processes that Survey reads.
	surveyMost = 512

	// surveyPlaces is the maximum number of places of the process table that Survey reads. Most
	// places of most tables are empty: one call for each 512 places would take longer than reading
	// the processes of a small system.
	surveyPlaces = 8192
)

// Survey returns the figures of up to a number of processes, at most 512, and the place to
// continue, or 0 at the end of the table. It begins at a place of the process table and reads at
// most 8192 places. It leaves out processes with impossible figures, and places whose process
// changes during the read.
//
// The errors are those of [Reader.Lookup], and [ErrNoLayout] also if only the places of the VM's
// figures are unknown.
func (r *Reader) Survey(from uint32, processes int) (all []Figures, next uint32, err error) {
	if err := r.check(); err != nil {
		return nil, 0, err
	}
	if r.layout.noFigures != nil {
		return nil, 0, fmt.Errorf("%w: figures of processes: %w", ErrNoLayout, r.layout.noFigures)
	}
	table := r.processes
	if from >= table.max {
		return nil, 0, nil
	}
	before, err := r.slots(&r.survey.before, from, min(surveyPlaces, table.max-from))
	if err != nil {
		return nil, 0, err
	}
	empty, n := occupied(before, min(max(processes, 1), surveyMost))
	if empty < n {
		all, err = r.figuresIn(before[empty:n], from+uint32(empty))
	}
	if next = from + uint32(n); next >= table.max {
		next = 0
	}
	return all, next, err
}

// occupied returns the number of empty places before the first process, and the number of places up
// to the limit of processes.
func occupied(addresses []uint64, most int) (empty, n int) {
	empty = len(addresses)
	for i, address := range addresses {
		if address == 0 {
			continue
		}
		if most == 0 {
			return empty, i
		}
		empty, most = min(empty, i), most-1
	}
	return empty, len(addresses)
}

// figuresIn returns the figures of the processes at addresses, which are in successive places.
func (r *Reader) figuresIn(before []uint64, from uint32) ([]Figures, error) {
	if err := r.survey.code.refresh(); err != nil {
		return nil, gone(err)
	}
	var all []Figures
	var addresses []uint64
	for _, address := range before {
		if address == 0 {
			continue
		}
		f, err := r.figures(address)
		switch {
		case errors.Is(gone(err), usdt.ErrProcessGone):
			return nil, gone(err)
		case err == nil:
			all, addresses = append(all, f), append(addresses, address)
		}
	}
	after, err := r.slots(&r.survey.after, from, uint32(len(before)))
	if err != nil {
		return nil, err
	}
	return r.stayed(all, addresses, after, from), nil
}

// slots reads the addresses of processes in some places of the process table into all.
func (r *Reader) slots(all *[surveyPlaces]uint64, from, n uint32) ([]uint64, error) {
	part := view(r.survey.slots[:n*wordSize])
	if err := r.mem.read(r.processes.slots+uint64(from)*wordSize, part); err != nil {
		return nil, fmt.Errorf("process table: %w", gone(err))
	}
	for i := range all[:n] {
		all[i] = part.u64(uint64(i) * wordSize)
	}
	return all[:n], nil
}

// stayed returns the figures of the processes that are still in their places. It removes the
// functions if the code changed meanwhile.
func (r *Reader) stayed(all []Figures, addresses, after []uint64, from uint32) []Figures {
	sameCode := r.survey.code.same()
	kept := all[:0]
	for i, f := range all {
		_, place, ok := r.processes.identifier(f.Number, f.Serial)
		if !ok || place < from || place-from >= uint32(len(after)) || after[place-from] != addresses[i] {
			continue
		}
		if !sameCode {
			f.Function = ""
		}
		kept = append(kept, f)
	}
	return kept
}

const (
	// maxQueue and maxWords are the largest plausible sizes of a queue and of a heap.
	maxQueue = 1 << 40
	maxWords = 1 << 40
)

// figures reads the figures of the process whose structure is at an address, twice.
func (r *Reader) figures(address uint64) (Figures, error) {
	size := r.layout.figures.size
	first, second := view(r.survey.first[:size]), view(r.survey.second[:size])
	if err := r.mem.read(address, first); err != nil {
		return Figures{}, err
	}
	between, all := r.messagesBeforeSignals(first)
	if err := r.mem.read(address, second); err != nil {
		return Figures{}, err
	}
	p := r.layout.process
	id := second.u64(p.id)
	number, serial, ok := r.processes.pid(term(id))
	spawned := mfa{term(second.u64(p.module)), term(second.u64(p.function)), second.u64(p.arity)}
	if !ok || id != first.u64(p.id) || !spawned.valid() {
		return Figures{}, ErrNoProcess
	}
	f := Figures{Number: number, Serial: serial}
	if err := f.queue(r.layout.figures, first, second); err != nil {
		return Figures{}, err
	}
	if l := r.layout.figures; l.parted.known {
		f.addParts(l, between, all, first, second)
	}
	f.Memory = r.memoryOf(first, second)
	if f.Reductions = second.u64(r.layout.figures.reductions); f.Reductions < first.u64(r.layout.figures.reductions) {
		return Figures{}, errTorn
	}
	f.Function = r.currently(first, second)
	return f, nil
}

// queue sets the figures of the queue. If a message is fetched between two reads, it is in both
// parts or in none. So both parts come from one read.
func (f *Figures) queue(l figureLayout, first, second view) error {
	for _, v := range []view{first, second} {
		inner, outer := int64(v.u64(l.inner)), int64(v.u64(l.outer))
		if inner < 0 || inner > maxQueue || outer < 0 || outer > maxQueue {
			return errTorn
		}
		f.Waiting, f.Unfetched = inner+outer, outer
	}
	f.Unhandled = first.u64(l.middle) != 0 || second.u64(l.middle) != 0
	f.UnfetchedSignals = first.u64(l.outerSignal) != 0 || second.u64(l.outerSignal) != 0
	f.AtLeast = first.u64(l.buffers) != 0 || second.u64(l.buffers) != 0
	return nil
}

// signalsMost is the maximum number of signals of a process that Survey follows.
const signalsMost = 256

// messagesBeforeSignals returns the number of messages before the signals in the outer part of a
// process's queue, and whether it counted all signals.
func (r *Reader) messagesBeforeSignals(process view) (n int64, all bool) {
	l := r.layout.figures.parted
	if !l.known {
		return 0, true
	}
	at := process.u64(r.layout.figures.outerSignal) // address of the pointer to the signal
	for range signalsMost {
		if at == 0 {
			return n, true
		}
		address, err := r.mem.word(at)
		if err != nil {
			return 0, false
		}
		var data [maxStruct]byte
		signal := view(data[:l.size])
		if err := r.mem.read(address, signal); err != nil {
			return 0, false
		}
		before := int64(signal.u64(l.count))
		if before < 0 || before > maxQueue {
			return 0, false
		}
		n, at = n+before, signal.u64(l.next)
	}
	return n, at == 0
}

// addParts adds the messages that were counted before signals between two reads. The process takes
// nothing from the outer part unless it fetches all of it. So the count is right if the part still
// begins with the same signal.
func (f *Figures) addParts(l figureLayout, between int64, all bool, first, second view) {
	p := l.parted
	if second.u64(p.outerFirst) != first.u64(p.outerFirst) || second.u64(l.outerSignal) != first.u64(l.outerSignal) {
		between, all = 0, second.u64(l.outerSignal) == 0
	}
	f.Unfetched += between
	f.Waiting += between
	if n := int64(second.u64(p.middle)); n >= 0 && n <= maxQueue {
		f.Waiting += n
	} else {
		all = false
	}
	f.AtLeast = f.AtLeast || !all || second.u64(p.middleSignal) != 0
}

// memoryOf returns the size of the heaps in bytes, or -1 while they change.
func (r *Reader) memoryOf(first, second view) int64 {
	before, now := r.heapBytes(first), r.heapBytes(second)
	if before < 0 || now < 0 {
		return -1
	}
	return now
}

func (r *Reader) heapBytes(v view) int64 {
	l, f := r.layout.process, r.layout.figures
	h := r.heap(v)
	words, fragments := v.u64(f.heapWords), v.u64(f.fragments)
	switch {
	case v.u32(l.state)&stateCollecting != 0, v.u64(f.abandoned) != 0:
		return -1
	case words > maxWords || fragments > maxWords || h.youngEnd-h.young != words*wordSize:
		return -1
	case h.oldEnd < h.old || h.oldEnd-h.old > maxWords*wordSize:
		return -1
	}
	return int64((words+fragments)*wordSize + h.oldEnd - h.old)
}

// currently returns the function that a process was in, or "" if it is unknown.
func (r *Reader) currently(first, second view) string {
	f := r.layout.figures
	if r.survey.code.missing != nil {
		return ""
	}
	at, function := second.u64(f.instruction), second.u64(f.currently)
	if at != first.u64(f.instruction) || function != first.u64(f.currently) {
		return "" // it is running
	}
	found, err := r.survey.code.function(function, at)
	if err != nil {
		return ""
	}
	text, err := r.function(found)
	if err != nil {
		return ""
	}
	return text
}

// A code finds and caches functions by addresses in the VM's loaded code.
type code struct {
	mem     memory
	layout  codeLayout
	missing error // why it cannot find functions
	bias    uint64

	state   codeState
	modules []uint64 // the beginning and the end of each, in order
	known   map[[2]uint64]mfa
}

// A codeState changes whenever code is loaded or purged.
type codeState struct {
	active         uint32
	modules, count uint64
}

const (
	codeIndexes  = 3 // ERTS_NUM_CODE_IX
	maxModules   = 1 << 16
	maxFunctions = 1 << 20
	maxKnownCode = 1 << 12
)

var errCode = errors.New("not in the loaded code")

// refresh reads the list of loaded modules if it has changed.
func (c *code) refresh() error {
	if c.missing != nil {
		return nil
	}
	state, err := c.read()
	if err != nil {
		return err
	}
	if state == c.state {
		return nil
	}
	c.known, c.modules, c.state = make(map[[2]uint64]mfa), nil, codeState{}
	data := make(view, state.count*2*wordSize)
	if len(data) > 0 {
		if err := c.mem.read(state.modules, data); err != nil {
			return nil // it may have changed since: no function is known now
		}
	}
	modules := make([]uint64, 2*state.count)
	for i := range modules {
		modules[i] = data.u64(uint64(i) * wordSize)
	}
	if slices.IsSorted(modules) {
		c.modules, c.state = modules, state
	}
	return nil
}

// same reports whether the code is unchanged since it was read.
func (c *code) same() bool {
	if c.missing != nil {
		return false
	}
	state, err := c.read()
	return err == nil && state == c.state
}

// read reads the state of the code. It returns the zero state if the data is impossible.
func (c *code) read() (codeState, error) {
	var index [4]byte
	if err := c.mem.read(c.layout.active+c.bias, index[:]); err != nil {
		return codeState{}, err
	}
	active := view(index[:]).u32(0)
	if active >= codeIndexes {
		return codeState{}, nil
	}
	var data [maxStruct]byte
	v := view(data[:c.layout.size])
	if err := c.mem.read(c.layout.ranges+c.bias+uint64(active)*c.layout.rangesSize, v); err != nil {
		return codeState{}, err
	}
	s := codeState{active, v.u64(c.layout.modules), v.u64(c.layout.count)}
	if s.count > maxModules {
		return codeState{}, nil
	}
	return s, nil
}

// function returns the function of a process: the one stored at an address, or else the one whose
// code contains another address.
func (c *code) function(noted, at uint64) (mfa, error) {
	key := [2]uint64{noted, 0}
	if noted == 0 {
		key = [2]uint64{0, at}
	}
	if f, ok := c.known[key]; ok {
		return f, nil
	}
	var f mfa
	var err error
	if noted != 0 {
		f, err = c.named(noted)
	} else {
		f, err = c.around(at)
	}
	if err != nil {
		return mfa{}, err
	}
	if c.known == nil || len(c.known) >= maxKnownCode {
		c.known = make(map[[2]uint64]mfa)
	}
	if c.state != (codeState{}) {
		c.known[key] = f
	}
	return f, nil
}

// named reads module, function and arity at an address.
func (c *code) named(address uint64) (mfa, error) {
	var words [3]uint64
	if err := c.mem.words(address, words[:]); err != nil {
		return mfa{}, err
	}
	f := mfa{term(words[0]), term(words[1]), words[2]}
	if !f.valid() {
		return mfa{}, errTorn
	}
	return f, nil
}

// around returns the function whose code contains an address.
func (c *code) around(at uint64) (mfa, error) {
	i, found := slices.BinarySearch(c.modules, at)
	if !found {
		i--
	}
	if i < 0 || i%2 != 0 { // behind the end of a module
		return mfa{}, errCode
	}
	header := c.modules[i]
	n, err := c.mem.word(header + c.layout.functionCount)
	if err != nil {
		return mfa{}, err
	}
	if n == 0 || n > maxFunctions {
		return mfa{}, errTorn
	}
	info, err := c.search(header+c.layout.functions, n, at)
	if err != nil {
		return mfa{}, err
	}
	return c.named(info + c.layout.infoModule)
}

// search returns the last of n functions that begins at an address or before it. The array has one
// more element, the end of the last function.
func (c *code) search(array, n, at uint64) (uint64, error) {
	low, high := uint64(0), n
	for high-low > 1 {
		middle := low + (high-low)/2
		begin, err := c.mem.word(array + middle*wordSize)
		if err != nil {
			return 0, err
		}
		if begin <= at {
			low = middle
		} else {
			high = middle
		}
	}
	var both [2]uint64
	if err := c.mem.words(array+low*wordSize, both[:]); err != nil {
		return 0, err
	}
	if both[0] > at || both[1] <= at {
		return 0, errCode
	}
	return both[0], nil
}
