package procname

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/beamscope/beamscope/dtrace"
)

// errTorn is the error for impossible data that may have changed while it was read.
var errTorn = errors.New("torn")

// A table is the process table: the places of processes, by their identifiers.
type table struct {
	slots               uint64 // address of the array of pointers
	max                 uint32 // length of the array
	lineMask, lineShift uint32
	inMask, inShift     uint32
	terms               dtrace.Terms
}

// maxProcesses is the size of the largest process table of a VM (ERTS_PTAB_MAX_SIZE).
const maxProcesses = 1 << 27

// findTable reads the place of the process table, once. The table stays there from early in the
// VM's start until its end.
func (r *Reader) findTable() error {
	if r.processes != (table{}) {
		return nil
	}
	var data [maxStruct]byte
	l := r.layout.table
	v := view(data[:l.size])
	if err := r.mem.read(r.procs, v); err != nil {
		return fmt.Errorf("process table: %w", err)
	}
	t := table{
		slots:    v.u64(l.slots),
		max:      v.u32(l.max),
		lineMask: v.u32(l.lineMask), lineShift: v.u32(l.lineShift),
		inMask: v.u32(l.inMask), inShift: v.u32(l.inShift),
		terms: dtrace.Terms{Form: r.layout.form},
	}
	// VMs whose identifiers have more bits are recognized here.
	invalid, size := v.u64(l.invalid), pidBits
	if t.terms.Form == dtrace.TermsByPlace {
		size = longPIDBits
	}
	switch {
	case t.slots == 0:
		return ErrStarting
	case invalid != 1<<size-1:
		return fmt.Errorf("%w: it has process identifiers of a form that is not known (%#x)", ErrNoLayout, invalid)
	case t.max == 0 || t.max > maxProcesses:
		return fmt.Errorf("%w: its process table has %d places", ErrNoLayout, t.max)
	case t.terms.Form == dtrace.TermsByPlace && !t.regular():
		return fmt.Errorf("%w: its process table has an order that is not known: %+v", ErrNoLayout, t)
	}
	if t.terms.Form == dtrace.TermsByPlace {
		t.terms.TableBits, t.terms.InBits = uint8(bits.Len32(t.max-1)), uint8(t.lineShift)
	}
	r.processes = t
	return nil
}

// regular reports whether the masks and shifts of the table follow from its length and from the
// number of places in a cache line. Then a place has one identifier.
func (t table) regular() bool {
	return t.max&(t.max-1) == 0 && t.lineShift < 32 && t.inShift < 32 &&
		t.inMask == 1<<t.lineShift-1 && t.lineMask == 1<<t.inShift-1 && t.max == 1<<(t.lineShift+t.inShift)
}

// identifier returns the term of the process <0.number.serial>, and its place in the table. The
// table has the place only if it is below max. ok is false if there is no such identifier.
func (t table) identifier(number, serial uint32) (id uint64, place uint32, ok bool) {
	if t.terms.Form != dtrace.TermsByPlace {
		data, ok := pidData(number, serial)
		place = t.place(data)
		return pidTerm(data, place), place, ok
	}
	place = t.place(number)
	data := uint64(serial)<<longNumberBits | uint64(number)
	return (data&^uint64(t.max-1)|uint64(place))<<4 | pidTag, place, number < 1<<longNumberBits
}

// pid returns <0.number.serial> for the term of a local process.
func (t table) pid(id term) (number, serial uint32, ok bool) { return t.terms.PID(uint64(id)) }

// place returns the place in the table where the process with this data would be. Successive places
// are in different cache lines (erl_ptab.h, erts_ptab_data2pix).
func (t table) place(data uint32) uint32 {
	return data&t.lineMask<<t.lineShift + data>>t.inShift&t.inMask
}

// A sample contains the data of a process from about one moment, as terms of the VM. If two samples
// are equal, the data is accepted.
type sample struct {
	identity
	call call
}

// An identity contains the data of a process that is not on its heap.
type identity struct {
	address uint64 // of the process structure
	spawned mfa
	regProc uint64 // address of the registration, or 0
	name    term   // the registered name, or 0
}

// A call is the initial call that a process stored in its dictionary, which is on its heap.
type call struct {
	torn  bool // unknown
	found bool
	mfa   mfa
	entry term // of the dictionary
	value term
}

// sample reads a process. The error is ErrNoProcess if another process has its place in the table,
// or if it has ended.
func (r *Reader) sample(place uint32, id uint64) (sample, error) {
	address, err := r.mem.word(r.processes.slots + uint64(place)*wordSize)
	if err != nil {
		return sample{}, err
	}
	if address == 0 {
		return sample{}, ErrNoProcess
	}
	l := r.layout.process
	p := view(r.process[:l.size])
	if err := r.mem.read(address, p); err != nil {
		return sample{}, err
	}
	if p.u64(l.id) != id {
		return sample{}, ErrNoProcess
	}
	s := sample{identity: identity{
		address: address,
		spawned: mfa{term(p.u64(l.module)), term(p.u64(l.function)), p.u64(l.arity)},
		regProc: p.u64(l.registered),
	}}
	if !s.spawned.valid() { // overwritten when it exits
		return sample{}, ErrNoProcess
	}
	if s.regProc != 0 {
		if s.name, err = r.registered(s.regProc, address); err != nil {
			return sample{}, err
		}
	}
	s.call = r.initialCall(p)
	return s, nil
}

// registered reads the name in a registration, which must be of the process.
func (r *Reader) registered(regProc, process uint64) (term, error) {
	var data [maxStruct]byte
	l := r.layout.regProc
	v := view(data[:l.size])
	if err := r.mem.read(regProc, v); err != nil {
		return 0, fmt.Errorf("registered name: %w", err)
	}
	name := term(v.u64(l.name))
	if _, ok := name.atom(); !ok || v.u64(l.process) != process {
		return 0, fmt.Errorf("registered name: %w", errTorn)
	}
	return name, nil
}

// initialCall reads the initial call that a process stored. The heap moves during garbage
// collection.
func (r *Reader) initialCall(process view) call {
	l := r.layout.process
	dict := process.u64(l.dict)
	if dict == 0 || !r.initial.found() {
		return call{}
	}
	if process.u32(l.state)&stateCollecting != 0 {
		return call{torn: true}
	}
	c, err := r.noted(dict, r.heap(process))
	if err != nil {
		return call{torn: true}
	}
	return c
}

// noted looks the key up in a dictionary (erl_process_dict.c): a table of buckets,
// each the empty list, an entry, or a list of entries.
func (r *Reader) noted(dict uint64, h heap) (call, error) {
	const maxEntries = 64 // of a bucket

	bucket, err := r.bucket(dict)
	if err != nil {
		return call{}, err
	}
	for range maxEntries {
		if bucket == emptyList {
			return call{}, nil
		}
		entry, rest := bucket, emptyList
		if _, ok := bucket.list(); ok {
			if entry, rest, err = r.cell(bucket, h); err != nil {
				return call{}, err
			}
		}
		key, value, err := r.pair(entry, h)
		if err != nil {
			return call{}, err
		}
		if key == r.initial.term {
			return r.call(entry, value)
		}
		bucket = rest
	}
	return call{}, errTorn
}

// firstBuckets is the number of buckets that the smallest dictionary has room for.
const firstBuckets = 10

// bucket reads the bucket of a dictionary that contains the key, if any does.
func (r *Reader) bucket(dict uint64) (term, error) {
	var data [maxStruct + firstBuckets*wordSize]byte
	l := r.layout.dict
	v := view(data[:l.size])
	if err := r.mem.read(dict, v); err != nil {
		return 0, err
	}
	mask, used, room := v.u32(l.mask), v.u32(l.used), v.u32(l.room)
	if mask&(mask+1) != 0 || used > room {
		return 0, errTorn
	}
	index, _ := r.initial.term.atom()
	at := uint32(index) & mask
	if at >= used {
		at &= mask >> 1
	}
	if at >= used {
		return 0, errTorn
	}
	if at < firstBuckets {
		return term(v.u64(l.buckets + uint64(at)*wordSize)), nil
	}
	bucket, err := r.mem.word(dict + l.buckets + uint64(at)*wordSize)
	return term(bucket), err
}

// call reads the value of the entry: {Module, Function, Arity}, which may be a constant of a module
// and not on the heap, or another term that a program has stored.
func (r *Reader) call(entry, value term) (call, error) {
	c := call{entry: entry, value: value}
	address, ok := value.boxed()
	if !ok {
		return c, nil
	}
	var words [4]uint64
	if address%wordSize != 0 {
		return c, errTorn
	}
	if err := r.mem.words(address, words[:]); err != nil {
		return c, err
	}
	arity, ok := term(words[3]).small()
	f := mfa{term(words[1]), term(words[2]), uint64(arity)}
	if ok && words[0] == tupleHeader(3) && f.valid() {
		c.found, c.mfa = true, f
	}
	return c, nil
}

// A heap contains the terms of a process, young and old. The terms of its dictionary are always
// there, except while they are moved.
type heap struct{ young, youngEnd, old, oldEnd uint64 }

func (r *Reader) heap(process view) heap {
	l := r.layout.process
	return heap{process.u64(l.heap), process.u64(l.heapEnd), process.u64(l.old), process.u64(l.oldEnd)}
}

// has reports whether some words are on the heap.
func (h heap) has(address uint64, words int) bool {
	size := uint64(words) * wordSize
	in := func(from, to uint64) bool {
		return address >= from && address < to && to-address >= size
	}
	return address%wordSize == 0 && (in(h.young, h.youngEnd) || in(h.old, h.oldEnd))
}

// cell reads the head and the rest of a list.
func (r *Reader) cell(t term, h heap) (head, rest term, err error) {
	var words [2]uint64
	address, ok := t.list()
	if !ok || !h.has(address, len(words)) {
		return 0, 0, errTorn
	}
	if err := r.mem.words(address, words[:]); err != nil {
		return 0, 0, err
	}
	return term(words[0]), term(words[1]), nil
}

// pair reads the elements of a tuple of two.
func (r *Reader) pair(t term, h heap) (first, second term, err error) {
	var words [3]uint64
	address, ok := t.boxed()
	if !ok || !h.has(address, len(words)) {
		return 0, 0, errTorn
	}
	if err := r.mem.words(address, words[:]); err != nil {
		return 0, 0, err
	}
	if words[0] != tupleHeader(2) {
		return 0, 0, errTorn
	}
	return term(words[1]), term(words[2]), nil
}
