package jit

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/usdt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Read reads a list. Each function is found at the addresses of its code and nowhere else.
func TestRead(t *testing.T) {
	code, err := newList(10).reader(t).Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if code.Len() != 30 {
		t.Errorf("%d functions", code.Len())
	}
	for _, test := range []struct {
		at   uint64
		want string
	}{
		{fakeCode - 1, ""}, {fakeCode, "m0:f0/0"}, {fakeCode + 0x7f, "m0:f0/0"}, {fakeCode + 0x80, ""},
		{fakeCode + 9*codeBytes + 0x200, "m9:f2/2"}, {fakeCode + 9*codeBytes + 0x280, ""}, {0, ""}, {1<<64 - 1, ""},
	} {
		if f, ok := code.Function(test.at); f.Name != test.want || ok != (test.want != "") {
			t.Errorf("%#x: %q, want %q", test.at, f.Name, test.want)
		}
	}
	if _, ok := (*Code)(nil).Function(fakeCode); ok {
		t.Error("a function of no code")
	}
}

// Find refuses memory with no list, with two lists, or with a malformed list.
func TestFindNeedsOne(t *testing.T) {
	for name, change := range map[string]func(*list){
		"none":            func(l *list) { clear(l.regions[fakeData]) },
		"two":             func(l *list) { l.describe(2*fakeSlot, l.entries[0]) },
		"another version": func(l *list) { l.regions[fakeData][fakeSlot*wordSize] = 2 },
		"an odd action":   func(l *list) { l.regions[fakeData][fakeSlot*wordSize+4] = 3 },
		"a short list":    func(l *list) { l.entries = l.entries[:2]; l.link() },
		"a wrong link":    func(l *list) { binary.LittleEndian.PutUint64(l.regions[l.entries[1]][8:], 8) },
		"an odd link":     func(l *list) { l.regions[l.entries[1]][0]++ },
		"no memory":       func(l *list) { delete(l.regions, l.entries[2]) },
		"an odd block":    func(l *list) { l.regions[l.entries[0]+0x100][0] = 7 },
		"a large block":   func(l *list) { binary.LittleEndian.PutUint64(l.regions[l.entries[0]][24:], 1<<40) },
	} {
		l := newList(5)
		change(l)
		if at, err := find(memory{l}, []usdt.Range{l.data}); !errors.Is(err, ErrNone) {
			t.Errorf("%s: found at %#x: %v", name, at, err)
		}
	}
	if _, err := find(memory{newFake()}, []usdt.Range{{Start: 8, End: 8 + maxData + 1}}); !errors.Is(err, ErrLimit) {
		t.Errorf("too much data: %v", err)
	}
}

// Find soon gives up on data that contains many candidates.
func TestFindIsBounded(t *testing.T) {
	l := newList(5)
	data := make([]byte, 1<<20)
	for at := 0; at+descriptorSize <= len(data); at += descriptorSize {
		binary.LittleEndian.PutUint32(data[at:], 1)
		binary.LittleEndian.PutUint64(data[at+16:], 0x1238)
	}
	l.regions = map[uint64][]byte{fakeData: data}
	_, err := find(memory{l}, []usdt.Range{{Start: fakeData, End: fakeData + uint64(len(data))}})
	if !errors.Is(err, ErrNone) || !errors.Is(err, ErrLimit) || l.reads > 2*maxTried {
		t.Errorf("%v after %d readings", err, l.reads)
	}
}

// If a list becomes malformed, Read returns an error after a bounded number of reads, and does not
// crash.
func TestHostileList(t *testing.T) {
	le := binary.LittleEndian
	for name, test := range map[string]struct {
		change func(*list)
		want   error
	}{
		"a cycle":                       {func(l *list) { le.PutUint64(l.regions[l.entries[5]][0:], l.entries[2]) }, ErrFormat},
		"a cycle of all entries":        {func(l *list) { le.PutUint64(l.regions[l.entries[5]][0:], l.entries[0]) }, ErrFormat},
		"an entry that links to itself": {func(l *list) { le.PutUint64(l.regions[l.entries[0]][0:], l.entries[0]) }, ErrFormat},
		"no descriptor":                 {func(l *list) { clear(l.regions[fakeData]) }, ErrFormat},
		"no data":                       {func(l *list) { delete(l.regions, fakeData) }, ErrFormat},
		"an invalid block address":      {func(l *list) { le.PutUint64(l.regions[l.entries[3]][16:], 1<<60) }, ErrFormat},
		"a block that is gone":          {func(l *list) { delete(l.regions, l.entries[3]+0x100) }, ErrFormat},
		"a block too small":             {func(l *list) { le.PutUint64(l.regions[l.entries[3]][24:], 40) }, ErrFormat},
		"a block too large":             {func(l *list) { le.PutUint64(l.regions[l.entries[3]][24:], maxBlock+1) }, ErrLimit},
		"trailing bytes":                {func(l *list) { l.grow(3) }, ErrFormat},
		"too many functions":            {func(l *list) { le.PutUint32(l.block(3)[16:], 1<<31) }, ErrFormat},
		"one function more":             {func(l *list) { le.PutUint32(l.block(3)[16:], 4) }, ErrFormat},
		"a long module name":            {func(l *list) { le.PutUint16(l.block(3)[24:], 1<<15) }, ErrFormat},
		"code at no address":            {func(l *list) { le.PutUint64(l.block(3)[8:], 1<<63) }, ErrFormat},
		"code beyond addresses":         {func(l *list) { le.PutUint64(l.block(3)[8:], maxAddress-1) }, ErrFormat},
		"code beyond a module":          {func(l *list) { le.PutUint32(l.block(3)[20:], 0x10) }, ErrFormat},
		"a function backwards":          {func(l *list) { le.PutUint32(l.function(3)[0:], 0x90) }, ErrFormat},
		"too many lines":                {func(l *list) { le.PutUint32(l.function(3)[8:], 1<<31) }, ErrFormat},
		"a name without end":            {func(l *list) { l.function(3)[rangeName+7] = 'x' }, ErrFormat},
		"an empty name":                 {func(l *list) { le.PutUint16(l.function(3)[12:], 0) }, ErrFormat},
	} {
		l := newList(6)
		r := l.reader(t)
		test.change(l)
		if code, err := r.Read(t.Context()); !errors.Is(err, test.want) {
			t.Errorf("%s: %v %v", name, code, err)
		}
		if l.reads > 1000 {
			t.Errorf("%s: %d readings", name, l.reads)
		}
	}
}

func (l *list) block(i int) []byte { return l.regions[l.entries[i]+0x100] }

// function returns the first function of a block.
func (l *list) function(i int) []byte {
	return l.block(i)[headSize+int(binary.LittleEndian.Uint16(l.block(i)[24:])):]
}

// grow adds bytes to a block that none of its fields describe.
func (l *list) grow(i int) {
	at := l.entries[i] + 0x100
	l.regions[at] = append(l.regions[at], make([]byte, 8)...)
	binary.LittleEndian.PutUint64(l.regions[l.entries[i]][24:], uint64(len(l.regions[at])))
}

// A list can exceed the limit of entries without a cycle.
func TestEndlessList(t *testing.T) {
	l := newList(4)
	r := l.reader(t)
	r.mem = memory{endless{}}
	if _, err := r.Read(t.Context()); !errors.Is(err, ErrLimit) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("enough")
	cancel(reason)
	if _, err := r.Read(ctx); !errors.Is(err, reason) {
		t.Error(err)
	}
}

// endless is memory with an entry at every address. Each entry links to the next address.
type endless struct{}

func (endless) ReadAt(data []byte, at int64) (int, error) {
	le := binary.LittleEndian
	if len(data) == descriptorSize {
		le.PutUint64(data, 1)
		le.PutUint64(data[16:], uint64(at)+0x1000)
		return len(data), nil
	}
	le.PutUint64(data, uint64(at)+entrySize)
	le.PutUint64(data[8:], uint64(at)-entrySize)
	le.PutUint64(data[16:], 0x5000)
	le.PutUint64(data[24:], headSize)
	return len(data), nil
}

// If modules come and go during a read, Read returns a list that existed at one moment, or an
// error.
func TestListChanges(t *testing.T) {
	l := newList(8)
	r := l.reader(t)
	if _, err := r.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.reads = 0
	l.onRead = func(n int) {
		if n == 12 || n == 30 {
			l.drop(3)
		}
	}
	code, err := r.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if code.Len() != 18 {
		t.Errorf("%d functions", code.Len())
	}
	changes := 0
	l.onRead = func(int) { // on every read
		changes++
		binary.LittleEndian.PutUint64(l.regions[l.entries[changes%2]][8:], uint64(changes)*8)
	}
	if _, err := r.Read(t.Context()); !errors.Is(err, ErrUnsettled) && !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
}

// For a process that has ended, Read returns ErrProcessGone and not ErrFormat.
func TestProcessGone(t *testing.T) {
	l := newList(5)
	r := l.reader(t)
	l.ended = true
	if _, err := r.Read(t.Context()); !errors.Is(err, usdt.ErrProcessGone) || errors.Is(err, ErrFormat) {
		t.Error(err)
	}
	l.ended = false
	l.reads = 0
	l.onRead = func(n int) { l.ended = n > 12 }
	if _, err := r.Read(t.Context()); !errors.Is(err, usdt.ErrProcessGone) || errors.Is(err, ErrFormat) {
		t.Error(err)
	}
}

// If another module is loaded at the same address, Read returns only the new functions.
func TestModuleReplaced(t *testing.T) {
	l := newList(5)
	r := l.reader(t)
	if _, err := r.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	copy(l.block(2), block("n2", fakeCode+2*codeBytes))
	code, err := r.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if f, _ := code.Function(fakeCode + 2*codeBytes); f.Name != "n2:f0/0" {
		t.Errorf("%q", f.Name)
	}
	before := l.reads
	if again, err := r.Read(t.Context()); err != nil || again != code {
		t.Errorf("%v %v", again, err)
	}
	t.Logf("%d readings where nothing has changed", l.reads-before)
}

// If functions overlap, the one of the newer module is kept: OTP 25 keeps purged modules in the
// list.
func TestNewerModulesWin(t *testing.T) {
	code := newCode([]module{
		{functions: []Function{{10, 20, "new"}, {30, 40, "new"}}},
		{functions: []Function{{5, 11, "old"}, {20, 30, "beside"}, {35, 36, "within"}, {38, 60, "old"}, {60, 70, "far"}}},
		{functions: []Function{{1, 5, "free"}, {45, 55, "older"}, {69, 80, "older"}, {80, 81, "free"}}},
	})
	var names []string
	for f := range code.All() {
		names = append(names, f.Name)
	}
	if want := []string{"free", "new", "beside", "new", "far", "free"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

// For any set of modules, the function found at an address belongs to the newest module with code
// there.
func TestFunctionIsNewest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var modules []module
		for range rapid.IntRange(0, 6).Draw(t, "modules") {
			var m module
			at := uint64(1)
			for range rapid.IntRange(0, 4).Draw(t, "functions") {
				start := at + rapid.Uint64Range(0, 20).Draw(t, "gap")
				at = start + rapid.Uint64Range(1, 10).Draw(t, "size")
				m.functions = append(m.functions, Function{start, at, "f"})
			}
			modules = append(modules, m)
		}
		code := newCode(modules)
		for at := range uint64(130) {
			f, ok := code.Function(at)
			for _, m := range modules {
				i := slices.IndexFunc(m.functions, func(f Function) bool { return f.Start <= at && at < f.End })
				if i < 0 {
					continue
				}
				if ok && m.functions[i] != f {
					t.Fatalf("%d: %v, the newest is %v", at, f, m.functions[i])
				}
				break
			}
		}
	})
}

// FuzzModule parses arbitrary blocks.
func FuzzModule(f *testing.F) {
	f.Add(block("m", fakeCode))
	f.Add(make([]byte, headSize))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < headSize {
			return // entries cannot have shorter blocks
		}
		functions, err := parseModule(data)
		if err != nil && !errors.Is(err, ErrFormat) {
			t.Error(err)
		}
		for _, f := range functions {
			if f.Start >= f.End || f.End >= maxAddress || len(f.Name) > maxName {
				t.Errorf("%+v", f)
			}
		}
	})
}

// FuzzMemory reads a list from memory in which some bytes were changed.
func FuzzMemory(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 3, 5, 16, 9})
	f.Fuzz(func(t *testing.T, changes []byte) {
		l := newList(6)
		r := l.reader(t)
		addresses := slices.Sorted(maps.Keys(l.regions))
		for ; len(changes) >= 4; changes = changes[4:] {
			region := l.regions[addresses[int(changes[0])%len(addresses)]]
			region[int(binary.LittleEndian.Uint16(changes[1:]))%len(region)] = changes[3]
		}
		was := bytes.Clone(l.regions[fakeData])
		_, err := r.Read(t.Context())
		if err != nil && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrLimit) && !errors.Is(err, ErrUnsettled) {
			t.Error(err)
		}
		if l.reads > 1<<12 || !bytes.Equal(was, l.regions[fakeData]) {
			t.Errorf("%d readings", l.reads)
		}
	})
}
