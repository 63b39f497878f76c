package procname

import (
	"errors"
	"slices"
	"testing"
)

// Places of the figures in the fake layout, after those for names.
const (
	fakeInner = 208 + 8*iota
	fakeMiddle
	fakeOuter
	fakeOuterSignal
	fakeBuffers
	fakeHeapWords
	fakeFragments
	fakeAbandoned
	fakeReductions
	fakeInstruction
	fakeCurrently
	fakeFiguresSize
)

// surveyFake returns a reader of the memory with the places of figures.
func (s subject) surveyFake(t *testing.T) *Reader {
	t.Helper()
	l := fakeLayout
	l.figures = figureLayout{
		size: fakeFiguresSize, inner: fakeInner, middle: fakeMiddle, outer: fakeOuter, outerSignal: fakeOuterSignal, buffers: fakeBuffers,
		heapWords: fakeHeapWords, fragments: fakeFragments, abandoned: fakeAbandoned,
		reductions: fakeReductions, instruction: fakeInstruction, currently: fakeCurrently,
	}
	l.noCode = errors.New("none in a fake")
	r := newReader(s.fake, l, fakeBase)
	if err := r.check(); err != nil {
		t.Fatal(err)
	}
	s.reads = 0
	return r
}

// busySubject is a subject whose process has figures. Its structure is the last one, so
// that there is room for them.
func busySubject(t *testing.T) (subject, *Reader) {
	s := newSubject()
	s.process = s.room(fakeFiguresSize)
	s.spawnAt(s.process, 23, 1, s.mfa("busy", "run", 0))
	s.set(s.process+fakeInner, 5000)
	s.set(s.process+fakeOuter, 25000)
	s.set(s.process+fakeReductions, 77)
	s.set(s.process+fakeHeapWords, fakeHeap/wordSize)
	s.set(s.process+fakeLayout.process.heap, s.heap)
	s.set(s.process+fakeLayout.process.heapEnd, s.heap+fakeHeap)
	return s, s.surveyFake(t)
}

// surveyOf returns the figures of the busy process.
func surveyOf(t *testing.T, r *Reader) (Figures, bool) {
	t.Helper()
	all, next, err := r.Survey(0, surveyMost)
	if err != nil || next != 0 {
		t.Fatalf("next %d, error %v", next, err)
	}
	for _, f := range all {
		if f.Number == 23 && f.Serial == 1 {
			return f, true
		}
	}
	return Figures{}, false
}

func TestSurvey(t *testing.T) {
	_, r := busySubject(t)
	want := Figures{Number: 23, Serial: 1, Waiting: 30000, Unfetched: 25000, Memory: fakeHeap, Reductions: 77}
	if got, ok := surveyOf(t, r); !ok || got != want {
		t.Errorf("%+v, %v", got, ok)
	}
}

// Whatever limit of processes a call has, all calls together read each process once, and none stops
// at an empty place.
func TestSurveyInParts(t *testing.T) {
	_, r := busySubject(t)
	whole, _, err := r.Survey(0, surveyMost)
	if err != nil || len(whole) < 2 {
		t.Fatalf("%+v, %v", whole, err)
	}
	for most := 1; most <= len(whole)+1; most++ {
		var all []Figures
		calls := 0
		for from := uint32(0); ; {
			some, next, err := r.Survey(from, most)
			if err != nil || len(some) > most || len(some) < most && next != 0 || next != 0 && next <= from {
				t.Fatalf("%d of %d processes from %d on, next %d, error %v", len(some), most, from, next, err)
			}
			all, calls = append(all, some...), calls+1
			if from = next; next == 0 {
				break
			}
		}
		if !slices.Equal(all, whole) || calls != (len(whole)+most-1)/most {
			t.Errorf("%d at a time: %d calls, %+v, want %+v", most, calls, all, whole)
		}
	}
}

// Impossible data is left out or marked as unknown.
func TestSurveyImplausible(t *testing.T) {
	for name, test := range map[string]struct {
		at, value uint64
		known     bool
		memory    int64
	}{
		"a queue of less than nothing":        {fakeInner, 1<<64 - 1, false, 0},
		"a queue that no memory has room for": {fakeOuter, maxQueue + 1, false, 0},
		"a heap of another size":              {fakeHeapWords, 7, true, -1},
		"a heap that is being left":           {fakeAbandoned, 0x1000, true, -1},
		"too many fragments":                  {fakeFragments, maxWords + 1, true, -1},
		"no function at all":                  {fakeLayout.process.function, 12345, false, 0},
		"another identifier":                  {fakeLayout.process.id, pidTerm(1<<numberBits|24, 0), false, 0},
	} {
		s, r := busySubject(t)
		s.set(s.process+test.at, test.value)
		if got, ok := surveyOf(t, r); ok != test.known || ok && got.Memory != test.memory {
			t.Errorf("%s: %+v, %v", name, got, ok)
		}
	}
}

// A process that ends or is replaced while it is read is left out. A change between two reads never
// produces a figure that the process never had.
func TestSurveyWhileItChanges(t *testing.T) {
	for at := 1; at < 40; at++ {
		s, r := busySubject(t)
		s.before = func(read int) {
			if read == at {
				s.spawnAt(s.process, 23, 2, s.mfa("next", "run", 0)) // in the same place
				s.set(s.process+fakeInner, 1)
				s.set(s.process+fakeOuter, 0)
			}
		}
		all, _, err := r.Survey(0, surveyMost)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			if f.Number == 23 && (f.Serial == 1 && f.Waiting != 30000 || f.Serial == 2 && f.Waiting != 1) {
				t.Errorf("changed at read %d: %+v", at, f)
			}
		}
	}
}

// If the layout has no figures, Survey returns an error, and names are still available.
func TestSurveyUnknown(t *testing.T) {
	s := newSubject()
	r := s.reader(t)
	r.layout.noFigures = errMember
	if _, _, err := r.Survey(0, surveyMost); !errors.Is(err, ErrNoLayout) || !errors.Is(err, errMember) {
		t.Errorf("error %v", err)
	}
	if name, err := r.Lookup(21, 1); err != nil || name != subjectName {
		t.Errorf("%v, error %v", name, err)
	}
}

// Functions are found by the addresses in their code, and by no other addresses.
func TestFunctionOfCode(t *testing.T) {
	s := newSubject()
	header, ranges, active := s.room(8*wordSize), s.room(64), s.room(wordSize)
	modules := s.room(2 * wordSize)
	var infos []uint64
	for _, name := range []string{"first", "second"} {
		info := s.room(6 * wordSize) // the last word is code
		s.set(info+2*wordSize, uint64(s.atom("some")))
		s.set(info+3*wordSize, uint64(s.atom(name)))
		s.set(info+4*wordSize, 1)
		infos = append(infos, info)
	}
	end := infos[1] + 6*wordSize
	s.set(header, 2)
	s.set(header+wordSize, infos[0])
	s.set(header+2*wordSize, infos[1])
	s.set(header+3*wordSize, end)
	s.set(modules, header)
	s.set(modules+wordSize, end)
	s.set(ranges, modules)
	s.set(ranges+8, 1)
	l := codeLayout{ranges: ranges, active: active, size: 16, modules: 0, count: 8, functionCount: 0, functions: wordSize, infoModule: 2 * wordSize, rangesSize: 32}
	c := code{mem: memory{s.fake}, layout: l}
	if err := c.refresh(); err != nil || len(c.modules) != 2 {
		t.Fatalf("%v, error %v", c.modules, err)
	}
	for _, test := range []struct {
		noted, at uint64
		want      mfa
	}{
		{0, infos[0] + 5*wordSize, s.mfa("some", "first", 1)},
		{0, infos[1] + 5*wordSize, s.mfa("some", "second", 1)},
		{infos[0] + 2*wordSize, infos[1] + 5*wordSize, s.mfa("some", "first", 1)},
		{0, end, mfa{}},
		{0, header - 1, mfa{}},
		{0, header, mfa{}},
		{1 << 50, 0, mfa{}},
	} {
		for range 2 { // it is cached
			got, err := c.function(test.noted, test.at)
			if got != test.want || (err != nil) != (test.want == mfa{}) {
				t.Errorf("%#x, %#x: %v, error %v", test.noted, test.at, got, err)
			}
		}
	}
	s.set(ranges+8, 0)
	if c.same() {
		t.Error("a module was purged, and the code is said to be the same")
	}
	if err := c.refresh(); err != nil || len(c.modules) != 0 || len(c.known) != 0 {
		t.Errorf("%v, %v, error %v", c.modules, c.known, err)
	}
}

// Places of the parts of a queue in the fake layout, and of a signal.
const (
	fakeMiddleTail = fakeFiguresSize + 8*iota
	fakeMiddleSignal
	fakeOuterFirst
	fakePartsSize

	fakeSignalNext  = 16
	fakeSignalCount = 8
	fakeSignalSize  = 24
)

// partedSubject is a subject whose process has 10 messages in the inner part of its queue and 20 in
// the middle part. In the outer part, 3 and 4 messages come before two signals, and 5 after them.
// partedSubject also returns the second signal.
func partedSubject(t *testing.T) (s subject, r *Reader, signal uint64) {
	s = newSubject()
	s.process = s.room(fakePartsSize)
	s.spawnAt(s.process, 23, 1, s.mfa("busy", "run", 0))
	for at, value := range map[uint64]uint64{fakeInner: 10, fakeMiddleTail: 20, fakeOuter: 5} {
		s.set(s.process+at, value)
	}
	previous := s.process + fakeOuterSignal
	for _, before := range []uint64{3, 4} {
		pointer := s.room(wordSize)
		signal = s.room(fakeSignalSize)
		s.set(pointer, signal)
		s.set(previous, pointer)
		s.set(signal+fakeSignalCount, before)
		previous = signal + fakeSignalNext
	}
	r = s.surveyFake(t)
	l := &r.layout.figures
	l.size = fakePartsSize
	l.parted = partedLayout{
		known: true, middle: fakeMiddleTail, middleSignal: fakeMiddleSignal, outerFirst: fakeOuterFirst,
		next: fakeSignalNext, count: fakeSignalCount, size: fakeSignalSize,
	}
	return s, r, signal
}

// Messages between signals are counted, unless there are too many signals or they are invalid: then
// the figure is marked as a lower bound.
func TestSurveyParted(t *testing.T) {
	for name, test := range map[string]struct {
		change             func(s subject, signal uint64)
		waiting, unfetched int64
		atLeast            bool
	}{
		"all":                      {func(subject, uint64) {}, 42, 12, false},
		"signals in a circle":      {func(s subject, signal uint64) { s.set(signal+fakeSignalNext, s.word(s.process+fakeOuterSignal)) }, 0, 0, true},
		"a signal that is nowhere": {func(s subject, signal uint64) { s.set(signal+fakeSignalNext, 1) }, 35, 5, true},
		"less than nothing":        {func(s subject, signal uint64) { s.set(signal+fakeSignalCount, 1<<64-1) }, 35, 5, true},
		"a signal in the middle":   {func(s subject, _ uint64) { s.set(s.process+fakeMiddleSignal, 0x1000) }, 42, 12, true},
		"no sense in the middle":   {func(s subject, _ uint64) { s.set(s.process+fakeMiddleTail, 1<<63) }, 22, 12, true},
	} {
		s, r, signal := partedSubject(t)
		test.change(s, signal)
		got, ok := surveyOf(t, r)
		if !ok || test.waiting > 0 && (got.Waiting != test.waiting || got.Unfetched != test.unfetched) || got.AtLeast != test.atLeast {
			t.Errorf("%s: %+v, %v", name, got, ok)
		}
	}
}

// If the process fetches its messages while they are counted, the figure is right or marked as a
// lower bound.
func TestSurveyPartedWhileItFetches(t *testing.T) {
	bounds := 0
	for at := 1; at < 40; at++ {
		s, r, _ := partedSubject(t)
		s.before = func(read int) {
			if read != at {
				return
			}
			s.set(s.process+fakeMiddleSignal, 0x1000)
			s.set(s.process+fakeMiddleTail, 5)
			for _, part := range []uint64{fakeOuter, fakeOuterSignal, fakeOuterFirst} {
				s.set(s.process+part, 0)
			}
		}
		got, ok := surveyOf(t, r)
		if !ok || got.Waiting > 42 || !got.AtLeast && got.Waiting != 42 {
			t.Errorf("before read %d: %+v, %v", at, got, ok)
		}
		if got.AtLeast {
			bounds++
		}
	}
	if bounds == 0 {
		t.Error("it is never fetched while it is counted")
	}
}
