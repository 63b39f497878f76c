package procname

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/usdt"
)

// fakeBase is the address of a fake memory, and fakeSize its size.
const (
	fakeBase = 0x10000
	fakeSize = 1 << 16
)

// fakeLayout is a layout that no real VM has, with a different place for each member.
var fakeLayout = layout{
	table:    tableLayout{size: 64, slots: 16, max: 0, lineMask: 4, lineShift: 8, inMask: 12, inShift: 24, invalid: 40},
	process:  processLayout{size: 200, id: 8, registered: 56, module: 80, function: 72, arity: 64, dict: 120, heap: 136, heapEnd: 128, old: 152, oldEnd: 144, state: 188, flags: 176, suspensions: 180, timer: 160},
	regProc:  regProcLayout{size: 32, process: 24, name: 8},
	dict:     dictLayout{size: 16 + firstBuckets*wordSize, mask: 8, used: 4, room: 0, buckets: 16},
	atoms:    atomLayout{entries: 4, pages: 8, size: 32, index: 0, length: 6, text: 16},
	procs:    0x100,
	allAtoms: 0x200,
	form:     dtrace.TermsByNumber,
}

// fakePlaces is the size of the fake process table. A cache line has four places.
const fakePlaces = 64

// A fake is the memory of a fake VM.
type fake struct {
	data  [fakeSize]byte
	next  uint64 // address of the first free word
	atoms map[string]term
	page  uint64 // of atoms

	reads  int
	before func(read int) // called before each read with its number, from 1
}

// ReadAt implements io.ReaderAt, as /proc/pid/mem does.
func (f *fake) ReadAt(data []byte, address int64) (int, error) {
	f.reads++
	if f.before != nil {
		f.before(f.reads)
	}
	from := address - fakeBase
	if from < 0 || from >= fakeSize {
		return 0, syscall.EIO
	}
	n := copy(data, f.data[from:])
	if n < len(data) {
		return n, syscall.EIO
	}
	return n, nil
}

func (f *fake) set(address, word uint64) {
	binary.LittleEndian.PutUint64(f.data[address-fakeBase:], word)
}

func (f *fake) word(address uint64) uint64 {
	return binary.LittleEndian.Uint64(f.data[address-fakeBase:])
}

func (f *fake) set32(address uint64, word uint32) {
	binary.LittleEndian.PutUint32(f.data[address-fakeBase:], word)
}

// room allocates some memory.
func (f *fake) room(size uint64) uint64 {
	address := f.next
	f.next += (size + wordSize - 1) &^ (wordSize - 1)
	return address
}

// newFake makes a VM whose first process is init.
func newFake() *fake {
	f := &fake{next: fakeBase + 0x400, atoms: make(map[string]term)}
	t, procs := fakeLayout.table, fakeBase+fakeLayout.procs
	f.set(procs+t.slots, f.room(fakePlaces*wordSize))
	f.set32(procs+t.max, fakePlaces)
	f.set32(procs+t.lineMask, 15)
	f.set32(procs+t.lineShift, 2)
	f.set32(procs+t.inMask, 3)
	f.set32(procs+t.inShift, 4)
	f.set(procs+t.invalid, 1<<pidBits-1)
	pages := f.room(wordSize)
	f.page = f.room(wordSize << pageShift)
	f.set(fakeBase+fakeLayout.allAtoms+fakeLayout.atoms.pages, pages)
	f.set(pages, f.page)
	f.atom("some")
	f.register(f.spawn(0, 0, f.mfa("erl_init", "start", 2)), "init")
	return f
}

// atom adds an atom to the table unless the table has it.
func (f *fake) atom(text string) term {
	if t, ok := f.atoms[text]; ok {
		return t
	}
	l, index := fakeLayout.atoms, uint64(len(f.atoms))
	entry, chars := f.room(l.size), f.room(uint64(len(text)))
	copy(f.data[chars-fakeBase:], text)
	f.set32(entry+l.index, uint32(index))
	binary.LittleEndian.PutUint16(f.data[entry+l.length-fakeBase:], uint16(len(text)))
	f.set(entry+l.text, chars)
	f.set(f.page+index*wordSize, entry)
	f.set32(fakeBase+fakeLayout.allAtoms+l.entries, uint32(index+1))
	f.atoms[text] = term(index<<6) | atomTag
	return f.atoms[text]
}

func (f *fake) mfa(module, function string, arity uint64) mfa {
	return mfa{f.atom(module), f.atom(function), arity}
}

// slot returns a process's place in the table, and the address of that place.
func (f *fake) slot(number, serial uint32) (address uint64, place uint32) {
	data := serial<<numberBits | number
	place = data&15<<2 + data>>4&3
	slots := binary.LittleEndian.Uint64(f.data[fakeLayout.procs+fakeLayout.table.slots:])
	return slots + uint64(place)*wordSize, place
}

// spawn puts a process into the table.
func (f *fake) spawn(number, serial uint32, spawned mfa) (process uint64) {
	process = f.room(fakeLayout.process.size)
	f.spawnAt(process, number, serial, spawned)
	return process
}

// spawnAt puts a process into the table and reuses the structure of another process.
func (f *fake) spawnAt(process uint64, number, serial uint32, spawned mfa) {
	l := fakeLayout.process
	clear(f.data[process-fakeBase:][:l.size])
	slot, place := f.slot(number, serial)
	f.set(process+l.id, pidTerm(serial<<numberBits|number, place))
	f.set(process+l.module, uint64(spawned.module))
	f.set(process+l.function, uint64(spawned.function))
	f.set(process+l.arity, spawned.arity)
	f.set(slot, process)
}

// register registers a process and returns the registration.
func (f *fake) register(process uint64, name string) (regProc uint64) {
	regProc = f.room(fakeLayout.regProc.size)
	f.registerIn(regProc, process, name)
	return regProc
}

// registerIn registers a process and reuses the registration of another process.
func (f *fake) registerIn(regProc, process uint64, name string) {
	f.set(regProc+fakeLayout.regProc.name, uint64(f.atom(name)))
	f.set(regProc+fakeLayout.regProc.process, process)
	f.set(process+fakeLayout.process.registered, regProc)
}

// fakeHeap is the size of a heap.
const fakeHeap = 32 * wordSize

// note gives a process a dictionary whose second entry in a bucket is the initial call. It returns
// the dictionary's heap.
func (f *fake) note(process uint64, initial mfa) (dict, heap uint64) {
	l := fakeLayout.dict
	dict, heap = f.room(l.size), f.room(fakeHeap)
	f.set32(dict+l.mask, 15)
	f.set32(dict+l.used, 8)
	f.set32(dict+l.room, firstBuckets)
	for i := range uint64(firstBuckets) {
		f.set(dict+l.buckets+i*wordSize, uint64(emptyList))
	}
	f.set(process+fakeLayout.process.dict, dict)
	f.noteOn(process, dict, heap, initial)
	return dict, heap
}

// noteOn gives a process another heap.
func (f *fake) noteOn(process, dict, heap uint64, initial mfa) {
	const boxed, list = 2, 1
	key := f.atom("$initial_call")
	bucket, _ := key.atom()
	if bucket &= 15; bucket >= 8 { // there are eight buckets, soon to be sixteen
		bucket -= 8
	}
	for i, word := range []uint64{
		tupleHeader(3), uint64(initial.module), uint64(initial.function), initial.arity<<4 | 15,
		tupleHeader(2), uint64(key), heap | boxed,
		tupleHeader(2), uint64(f.atom("some")), uint64(emptyList),
		heap + 7*wordSize | boxed, heap + 12*wordSize | list,
		heap + 4*wordSize | boxed, uint64(emptyList),
	} {
		f.set(heap+uint64(i)*wordSize, word)
	}
	f.set(dict+fakeLayout.dict.buckets+bucket*wordSize, heap+10*wordSize|list)
	f.set(process+fakeLayout.process.heap, heap)
	f.set(process+fakeLayout.process.heapEnd, heap+fakeHeap)
}

// reader returns a reader that has checked the memory.
func (f *fake) reader(t testing.TB) *Reader {
	t.Helper()
	r := newReader(f, fakeLayout, fakeBase)
	if err := r.check(); err != nil {
		t.Fatal(err)
	}
	f.reads = 0
	return r
}

// A subject is a VM with a process <0.21.1>, which has all kinds of names, and another process.
type subject struct {
	*fake
	process, regProc, dict, heap uint64
	other                        uint64
}

var subjectName = Name{Registered: "server", Initial: "'Elixir.Shop':init/1", Spawned: "proc_lib:init_p/5"}

func newSubject() subject {
	s := subject{fake: newFake()}
	s.process = s.spawn(21, 1, s.mfa("proc_lib", "init_p", 5))
	s.regProc = s.register(s.process, "server")
	s.dict, s.heap = s.note(s.process, s.mfa("Elixir.Shop", "init", 1))
	s.other = s.spawn(22, 1, s.mfa("other", "run", 0))
	s.note(s.other, s.mfa("other", "init", 3))
	return s
}

// An atom is found by its index. An index without an atom is an error.
func TestAtomByIndex(t *testing.T) {
	s := newSubject()
	r := s.reader(t)
	index, _ := s.atom("a node@host").atom()
	if text, err := r.Atom(index); err != nil || text != "'a node@host'" {
		t.Errorf("%s, error %v", text, err)
	}
	for _, none := range []uint64{index + 1, 1 << 31, 1 << 40, 1 << 63} {
		if text, err := r.Atom(none); !errors.Is(err, errAtom) {
			t.Errorf("%d: %s, error %v", none, text, err)
		}
	}
}

func TestFake(t *testing.T) {
	s := newSubject()
	r := s.reader(t)
	if name, err := r.Lookup(21, 1); err != nil || name != subjectName {
		t.Errorf("%+v, error %v", name, err)
	}
	// Place, process, registration, dictionary, two cells, two entries, and the value.
	const once = 9
	s.reads = 0
	before := believed(t, r)
	if s.reads != 2*once {
		t.Errorf("%d reads", s.reads)
	}
	s.reads = 0
	if name, _, err := r.lookAgain(21, 1, before); err != nil || name != subjectName || s.reads != once {
		t.Errorf("again: %+v, error %v, %d reads", name, err, s.reads)
	}
	all, err := r.All()
	if err != nil || len(all) != 3 {
		t.Errorf("%v, error %v", all, err)
	}
	s.set32(s.process+fakeLayout.process.state, stateCollecting)
	name, err := r.Lookup(21, 1)
	if want := (Name{Registered: "server", Spawned: "proc_lib:init_p/5"}); name != want || !errors.Is(err, ErrUnsettled) {
		t.Errorf("while garbage is collected: %+v, error %v", name, err)
	}
}

// If a process changes while it is read, the result is its state before or after the change, or
// nothing.
func TestChanges(t *testing.T) {
	renamed, unnamed, moved := subjectName, subjectName, subjectName
	renamed.Registered = "renamed"
	unnamed.Registered = ""
	moved.Initial = "moved:on/2"
	for _, test := range []struct {
		what   string
		after  Name // none if empty
		change func(s subject)
	}{
		{"exit", Name{}, func(s subject) {
			slot, _ := s.slot(21, 1)
			s.set(slot, 0)
			s.set(s.process+fakeLayout.process.module, 0)
		}},
		{"another in its structure", Name{}, func(s subject) {
			slot, _ := s.slot(21, 1)
			s.set(slot, 0)
			s.spawnAt(s.process, 30, 0, s.mfa("wrong", "wrong", 0))
			s.register(s.process, "wrong")
		}},
		{"another in its place", Name{}, func(s subject) {
			s.register(s.spawn(21, 1+fakePlaces>>1, s.mfa("wrong", "wrong", 0)), "wrong")
		}},
		{"unregister", unnamed, func(s subject) {
			s.set(s.process+fakeLayout.process.registered, 0)
		}},
		{"its registration is another's", unnamed, func(s subject) {
			s.set(s.process+fakeLayout.process.registered, 0)
			s.registerIn(s.regProc, s.other, "wrong")
		}},
		{"register in the same place", renamed, func(s subject) {
			s.registerIn(s.regProc, s.process, "renamed")
		}},
		{"another initial call", moved, func(s subject) {
			s.noteOn(s.process, s.dict, s.room(fakeHeap), s.mfa("moved", "on", 2))
		}},
		{"its heap is another's", subjectName, func(s subject) {
			s.noteOn(s.process, s.dict, s.room(fakeHeap), s.mfa("Elixir.Shop", "init", 1))
			dict, _ := s.note(s.other, s.mfa("other", "init", 3))
			s.noteOn(s.other, dict, s.heap, s.mfa("wrong", "wrong", 3))
		}},
	} {
		t.Run(test.what, func(t *testing.T) {
			everyMoment(t, test.after, test.change, false)
		})
		t.Run(test.what+", read before", func(t *testing.T) {
			everyMoment(t, test.after, test.change, true)
		})
	}
}

// everyMoment changes a process before each read of a lookup, with and without an earlier lookup of
// the process.
func everyMoment(t *testing.T, after Name, change func(subject), again bool) {
	for moment, changed := 1, true; changed; moment++ {
		s := newSubject()
		r := s.reader(t)
		var before sample
		if again {
			before = believed(t, r)
			s.reads = 0
		}
		changed = false
		s.before = func(read int) {
			if read == moment {
				changed = true
				change(s)
			}
		}
		name, _, err := r.lookAgain(21, 1, before)
		s.before = nil
		switch {
		case err == nil && (name == subjectName || name == after && name != Name{}):
		case errors.Is(err, ErrNoProcess) && after == Name{}:
		default:
			t.Errorf("changed before read %d: %+v, error %v", moment, name, err)
		}
		if !changed {
			return
		}
		name, _, err = r.lookAgain(21, 1, before)
		if name != after || (err == nil) != (name != Name{}) {
			t.Errorf("changed before read %d, then: %+v, error %v", moment, name, err)
		}
	}
}

// believed returns the accepted sample of the subject.
func believed(t *testing.T, r *Reader) sample {
	t.Helper()
	name, s, err := r.lookAgain(21, 1, sample{})
	if err != nil || name != subjectName {
		t.Fatalf("%+v, error %v", name, err)
	}
	return s
}

// A process that changes at every read gets no name, and the lookup ends.
func TestUnsettled(t *testing.T) {
	s := newSubject()
	r := s.reader(t)
	s.before = func(read int) {
		s.registerIn(s.regProc, s.process, fmt.Sprint("name", read))
	}
	if name, err := r.Lookup(21, 1); !errors.Is(err, ErrUnsettled) || name != (Name{}) {
		t.Errorf("%+v, error %v", name, err)
	}
	if s.reads > 100 {
		t.Errorf("%d reads", s.reads)
	}
}

// Impossible data is refused with an error that names it.
func TestRefused(t *testing.T) {
	procs := fakeBase + fakeLayout.procs
	for _, test := range []struct {
		what   string
		want   error
		change func(s subject)
	}{
		{"no table yet", ErrStarting, func(s subject) { s.set(procs+fakeLayout.table.slots, 0) }},
		{"init not registered yet", ErrStarting, func(s subject) {
			s.spawn(0, 0, s.mfa("erl_init", "start", 2))
		}},
		{"no first process", ErrStarting, func(s subject) { slot, _ := s.slot(0, 0); s.set(slot, 0) }},
		{"no table that can be", ErrNoLayout, func(s subject) { s.set32(procs+fakeLayout.table.max, maxProcesses+1) }},
		{"longer pids", ErrNoLayout, func(s subject) { s.set(procs+fakeLayout.table.invalid, 1<<60-1) }},
		{"not init", ErrNoLayout, func(s subject) {
			s.register(s.spawn(0, 0, s.mfa("erl_init", "start", 2)), "tini")
		}},
		{"nonsense", ErrStarting, func(s subject) { slot, _ := s.slot(0, 0); s.set(slot, 0x123456789) }},
		{"no place", ErrNoLayout, func(s subject) { s.set32(procs+fakeLayout.table.lineShift, 31) }},
		{"atom of another index", ErrUnsettled, func(s subject) {
			index, _ := s.atom("server").atom()
			s.set(s.page+index*wordSize, binary.LittleEndian.Uint64(s.data[s.page-fakeBase:]))
		}},
		{"atom that is not UTF-8", ErrUnsettled, func(s subject) { s.register(s.process, "a\xff") }},
		{"atom too long", ErrUnsettled, func(s subject) {
			s.register(s.process, fmt.Sprintf("%*d", maxAtomChars+1, 0))
		}},
		{"no atom", ErrUnsettled, func(s subject) {
			s.set(s.regProc+fakeLayout.regProc.name, uint64(1000<<6|atomTag))
		}},
		{"bucket without end", ErrUnsettled, func(s subject) {
			s.set(s.heap+4*wordSize, tupleHeader(2))
			s.set(s.heap+5*wordSize, uint64(s.atom("some")))
			s.set(s.heap+13*wordSize, s.heap+10*wordSize|1)
		}},
		{"dictionary that cannot be", ErrUnsettled, func(s subject) { s.set32(s.dict+fakeLayout.dict.mask, 6) }},
		{"bucket off the heap", ErrUnsettled, func(s subject) {
			s.set(s.process+fakeLayout.process.heapEnd, s.heap+11*wordSize)
		}},
	} {
		t.Run(test.what, func(t *testing.T) {
			s := newSubject()
			test.change(s)
			r := newReader(s, fakeLayout, fakeBase)
			name, err := r.Lookup(21, 1)
			if !errors.Is(err, test.want) {
				t.Errorf("%+v, error %v, want %v", name, err, test.want)
			}
		})
	}
}

// A value that is not {Module, Function, Arity} is no initial call, and no problem.
func TestOtherValues(t *testing.T) {
	for what, change := range map[string]func(s subject){
		"atom":       func(s subject) { s.set(s.heap+6*wordSize, uint64(s.atom("some"))) },
		"no tuple":   func(s subject) { s.set(s.heap, 0x18) },
		"pair":       func(s subject) { s.set(s.heap, tupleHeader(2)) },
		"no atom":    func(s subject) { s.set(s.heap+wordSize, uint64(emptyList)) },
		"no integer": func(s subject) { s.set(s.heap+3*wordSize, uint64(s.atom("some"))) },
		"negative":   func(s subject) { s.set(s.heap+3*wordSize, 1<<64-1) },
		"too large":  func(s subject) { s.set(s.heap+3*wordSize, (maxArity+1)<<4|15) },
	} {
		s := newSubject()
		change(s)
		want := subjectName
		want.Initial = ""
		if name, err := s.reader(t).Lookup(21, 1); err != nil || name != want {
			t.Errorf("%s: %+v, error %v", what, name, err)
		}
	}
}

// The key may appear after the VM was opened, when the module with the key is loaded.
func TestKeyComesLater(t *testing.T) {
	f := newFake()
	process := f.spawn(5, 0, f.mfa("proc_lib", "init_p", 5))
	r := f.reader(t)
	want := Name{Spawned: "proc_lib:init_p/5"}
	if name, err := r.Lookup(5, 0); err != nil || name != want {
		t.Errorf("before: %+v, error %v", name, err)
	}
	f.note(process, f.mfa("late", "init", 1))
	want.Initial = "late:init/1"
	if name, err := r.Lookup(5, 0); err != nil || name != want {
		t.Errorf("after: %+v, error %v", name, err)
	}
}

// FuzzMemory reads invalid memories that change. Each six bytes of the input are a time, an address
// and a new value.
func FuzzMemory(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0, 1, 0, 0xff, 7, 9, 4, 1, 1, 2, 3})
	f.Fuzz(func(t *testing.T, input []byte) {
		s := newSubject()
		r := newReader(s, fakeLayout, fakeBase)
		s.before = func(read int) {
			for len(input) >= 6 && int(input[0]) <= read {
				// Most of the memory is empty; the data is at its beginning.
				at := binary.LittleEndian.Uint16(input[1:]) % uint16(s.next-fakeBase)
				copy(s.data[at:], input[3:6])
				input = input[6:]
			}
		}
		const most = 30_000 // a search through all pages, and all processes
		check := func(name Name, err error) {
			if err == nil && name.String() == "" {
				t.Error("no name, and no error")
			}
			for _, text := range []string{name.Registered, name.Initial, name.Spawned} {
				if !utf8.ValidString(text) {
					t.Errorf("%q", text)
				}
			}
			if errors.Is(err, usdt.ErrProcessGone) {
				t.Errorf("error %v", err)
			}
			if s.reads > most {
				t.Errorf("%d reads", s.reads)
			}
			s.reads = 0
		}
		check(r.Lookup(21, 1))
		check(r.Lookup(22, 1))
		check(r.Lookup(0, 0))
		if r.processes.max <= 1<<12 {
			all, err := r.All()
			for _, p := range all {
				check(p.Name, err)
			}
		}
	})
}
