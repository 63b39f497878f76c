package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/usdt"
)

// Labels are 1 + crc32(name) rem 950, as in the wrapper. The values come from erlang:crc32/1.
func TestLabel(t *testing.T) {
	for name, want := range map[string]uint32{
		"":          1,                  // crc32 0
		"123456789": 1 + 0xcbf43926%950, // the check value of CRC-32
		"a":         1 + 0xe8b7be43%950,
		"worker_1":  797,
		"probe":     433,
		"żółw":      281,
	} {
		if got := Label(name); got != want {
			t.Errorf("Label(%q) = %d, want %d", name, got, want)
		}
	}
}

// No two rows of an outcome overlap, and all are within its cells, whatever its
// size and that of the others; the stripes are within the map.
func TestLayoutRowsAreDisjoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var outcomes []Outcome
		for _, bins := range rapid.SliceOfN(rapid.IntRange(1, 40), 0, 6).Draw(t, "bins") {
			outcomes = append(outcomes, Outcome{Bins: bins})
		}
		slots := rapid.IntRange(1, 5).Draw(t, "slots")
		l, err := newLayout(outcomes, slots, rapid.IntRange(1, 9).Draw(t, "processors"), rapid.Bool().Draw(t, "discover"))
		if err != nil {
			t.Fatal(err)
		}
		cells := newArena(l.ofOutcomes())
		for _, o := range outcomes {
			r, ok := cells.take(l.size(o.Bins))
			if !ok {
				t.Fatalf("no room for %d bins", o.Bins)
			}
			next := r.first
			for slot := range slots + 1 {
				for row := range windows + 1 {
					if first := l.row(r, o.Bins, slot, row); first != next {
						t.Fatalf("slot %d, row %d of %+v begins at %d, want %d", slot, row, r, first, next)
					}
					next += columns + o.Bins
				}
			}
			if next != r.end() {
				t.Fatalf("the rows of %+v end at %d", r, next)
			}
		}
		if l.bytes() != l.stripes*l.stripeCells*8 || l.stripes&(l.stripes-1) != 0 || l.bytes() > maxCellsBytes {
			t.Fatalf("%d stripes, %d bytes", l.stripes, l.bytes())
		}
	})
}

// After any sequence of takes and gives, regions of an arena never overlap, free and taken regions
// together are the whole arena, no two free regions are adjacent, and take fails only if no free
// region is large enough.
func TestArena(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := region{rapid.IntRange(0, 9).Draw(t, "first"), rapid.IntRange(1, 60).Draw(t, "size")}
		a := newArena(whole)
		var taken []region
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				size := rapid.IntRange(1, 20).Draw(t, "size")
				fits := slices.ContainsFunc(a.free, func(r region) bool { return r.size >= size })
				r, ok := a.take(size)
				if ok != fits || ok && r.size != size {
					t.Fatalf("taking %d gave %+v, %v, where it fits: %v", size, r, ok, fits)
				}
				if ok {
					taken = append(taken, r)
				}
			},
			"give": func(t *rapid.T) {
				if len(taken) == 0 {
					t.Skip("nothing is taken")
				}
				i := rapid.IntRange(0, len(taken)-1).Draw(t, "which")
				a.give(taken[i])
				taken = slices.Delete(taken, i, i+1)
			},
			"": func(t *rapid.T) {
				all := slices.Concat(a.free, taken)
				slices.SortFunc(all, func(a, b region) int { return a.first - b.first })
				next := whole.first
				for i, r := range all {
					if r.first != next || r.size < 1 {
						t.Fatalf("%+v at %d of %+v", r, next, all)
					}
					next = r.end()
					if i > 0 && slices.Contains(a.free, all[i-1]) && slices.Contains(a.free, r) {
						t.Fatalf("%+v and %+v are free and touch", all[i-1], r)
					}
				}
				if next != whole.end() || !slices.IsSortedFunc(a.free, func(a, b region) int { return a.first - b.first }) {
					t.Fatalf("%+v are not %+v in order", all, whole)
				}
			},
		})
	})
}

// There are as many stripes as processors, rounded up to a power of two, or fewer if the map would
// become too large. If one stripe is too large, there is an error.
func TestLayoutStripes(t *testing.T) {
	const gib = 1 << 30
	large := func(share int) []Outcome { return []Outcome{{Bins: (gib/8/share-others-2)/(2*9) - columns}} }
	for _, test := range []struct {
		outcomes                 []Outcome
		processors, wantsStripes int
	}{
		{[]Outcome{{Bins: 1}}, 1, 1},
		{[]Outcome{{Bins: 1}}, 2, 2},
		{[]Outcome{{Bins: 1}}, 3, 4},
		{[]Outcome{{Bins: 1}}, 64, 64},
		{large(1), 8, 1},
		{large(2), 8, 2},
		{large(3), 8, 2},
	} {
		l, err := newLayout(test.outcomes, 1, test.processors, false)
		if err != nil {
			t.Fatal(err)
		}
		if l.stripes != test.wantsStripes || l.bytes() > gib {
			t.Errorf("%d bins on %d processors: %d stripes of %d cells, want %d",
				test.outcomes[0].Bins, test.processors, l.stripes, l.stripeCells, test.wantsStripes)
		}
	}
	// With discovery there is room for 16 outcomes to change, and less is taken.
	for _, test := range []struct{ outcomes, processors, stripes int }{{0, 1, 1}, {0, 2, 2}, {0, 64, 4}, {40, 64, 4}, {100, 64, 2}, {200, 64, 1}} {
		var outcomes []Outcome
		for range test.outcomes {
			outcomes = append(outcomes, Outcome{Bins: 1000})
		}
		l, err := newLayout(outcomes, 8, test.processors, true)
		if err != nil {
			t.Fatal(err)
		}
		if spare := l.ofOutcomes().size - test.outcomes*l.size(1000); l.stripes != test.stripes || spare < 16*l.size(1000) {
			t.Errorf("%+v: %d stripes and %d cells to spare", test, l.stripes, spare)
		}
	}
	if _, err := newLayout(append(large(1), Outcome{Bins: 1}), 1, 1, false); !errors.Is(err, errTooLarge) {
		t.Errorf("error %v, want %v", err, errTooLarge)
	}
}

// There are as many spare cells as used ones, or as many as discovery may need: at least 2^17 in
// each stripe, at most 64 MiB in total, and no more than fit into 1 GiB.
func TestSpareCells(t *testing.T) {
	const mib = 1 << 20 / 8 // cells
	// For one VM and those without a slot: 7 cells, 2 for their hits, and 2*9 of each column and
	// bin.
	bins := func(cells int) int { return (cells-9)/18 - 16 }
	for _, test := range []struct {
		bins, slots, processors int
		discover                bool
		stripes, spare          int
	}{
		{1, 1, 1, false, 1, 1 << 17},
		{bins(3 * mib), 1, 1, false, 1, 9 + 18*(bins(3*mib)+16)},
		{bins(100 * mib), 1, 1, false, 1, 64 * mib},
		{bins(100 * mib), 1, 2, false, 2, 32 * mib},
		{bins(1000 * mib), 1, 1, false, 1, 1024*mib - 9 - 18*(bins(1000*mib)+16)},
		{0, 1, 1, true, 1, 64 * mib},
		{0, 1, 4, true, 4, 16 * mib},
		{0, 15, 1, true, 1, 64 * mib},
		{0, 16, 1, true, 1, 64 * mib},
		{0, 63, 1, true, 1, 64 * mib},
		{0, 64, 1, true, 1, 64 * mib},
		{0, 1000, 4, true, 1, 64 * mib},
	} {
		var outcomes []Outcome
		if test.bins > 0 {
			outcomes = []Outcome{{Bins: test.bins}}
		}
		used := 7 + test.slots + 1
		if test.bins > 0 {
			used += 18 * (16 + test.bins)
		}
		l, err := newLayout(outcomes, test.slots, test.processors, test.discover)
		if err != nil || l.stripes != test.stripes || l.stripeCells != used+test.spare || l.slots != test.slots+1 {
			t.Errorf("%+v: %+v, error %v", test, l, err)
		}
	}
	many := make([]Outcome, 200)
	for i := range many {
		many[i].Bins = 1000
	}
	if _, err := newLayout(many, 64, 4, true); !errors.Is(err, ErrNoRoom) {
		t.Errorf("200 outcomes of 64 VMs with discovery: error %v, want %v", err, ErrNoRoom)
	}
	_, err := newLayout([]Outcome{{Bins: bins(2048 * mib)}}, 1, 4, false)
	const want = "no room for more outcomes: histograms too large: 2047 MiB for 1 outcomes of 1 VMs, at most 1024 MiB: use fewer bins"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if plain, discovering := spareEntries(Options{}), spareEntries(Options{Discover: true}); plain != 64 || discovering != 512 {
		t.Errorf("room for %d outcomes more, with discovery %d", plain, discovering)
	}
}

// Errors in options are returned before any call of the kernel.
func TestOptionsCheck(t *testing.T) {
	good := Outcome{Name: "a", DMax: 1, BinWidth: 1, Bins: 1}
	with := func(change func(*Outcome)) []Outcome {
		o := good
		change(&o)
		return []Outcome{o}
	}
	for _, test := range []struct {
		name    string
		options Options
		want    string // "" for no error
	}{
		{"good", Options{Outcomes: []Outcome{good}, Start: 1, Window: 1}, ""},
		{"no outcome", Options{Start: 1, Window: 1}, ""},
		{"no window", Options{Outcomes: []Outcome{good}, Start: 1}, "start 1 ns, window 0 ns"},
		{"no start", Options{Outcomes: []Outcome{good}, Window: 5}, "start 0 ns, window 5 ns"},
		{"no name", Options{Outcomes: with(func(o *Outcome) { o.Name = "" }), Start: 1, Window: 1},
			`outcome "": the name has 0 bytes, not 1 to 255`},
		{"longest name", Options{Outcomes: with(func(o *Outcome) { o.Name = strings.Repeat("x", 255) }), Start: 1, Window: 1}, ""},
		{"long name", Options{Outcomes: with(func(o *Outcome) { o.Name = strings.Repeat("x", 256) }), Start: 1, Window: 1},
			`outcome "` + strings.Repeat("x", 256) + `": the name has 256 bytes, not 1 to 255`},
		{"twice", Options{Outcomes: []Outcome{good, good}, Start: 1, Window: 1}, `outcome "a" is there twice`},
		{"no dMax", Options{Outcomes: with(func(o *Outcome) { o.DMax = 0 }), Start: 1, Window: 1},
			`outcome "a": dMax 0 ns, 1 bins of 1 ns`},
		{"no width", Options{Outcomes: with(func(o *Outcome) { o.BinWidth = -1 }), Start: 1, Window: 1},
			`outcome "a": dMax 1 ns, 1 bins of -1 ns`},
		{"no bins", Options{Outcomes: with(func(o *Outcome) { o.Bins = 0 }), Start: 1, Window: 1},
			`outcome "a": dMax 1 ns, 0 bins of 1 ns`},
		{"a rule to be explained", Options{Outcomes: with(func(o *Outcome) { o.Rule, o.Explain = new(dtrace.Rule), true }), Start: 1, Window: 1},
			`outcome "a": only spans can be explained`},
		{"crowded label", Options{Outcomes: onOneLabel(9), Start: 1, Window: 1},
			fmt.Sprintf(`outcome %q: more than 8 names fall on label 1: rename one`, onOneLabel(9)[8].Name)},
		{"full label", Options{Outcomes: onOneLabel(8), Start: 1, Window: 1}, ""},
	} {
		err := check(test.options.Start, test.options.Window, test.options.Outcomes)
		got := ""
		if err != nil {
			got = strings.TrimPrefix(err.Error(), ErrOptions.Error()+": ")
		}
		if got != test.want || err != nil && !errors.Is(err, ErrOptions) {
			t.Errorf("%s: error %v, want %q", test.name, err, test.want)
		}
	}
}

// onOneLabel returns n outcomes whose names have label 1.
func onOneLabel(n int) []Outcome {
	var outcomes []Outcome
	for i := 0; len(outcomes) < n; i++ {
		if name := fmt.Sprint(i); Label(name) == 1 {
			outcomes = append(outcomes, Outcome{Name: name, DMax: 1, BinWidth: 1, Bins: 1})
		}
	}
	return outcomes
}

const (
	kindConst    = uint8(kernelArgKindARG_CONST)
	kindRegister = uint8(kernelArgKindARG_REGISTER)
	kindMemory   = uint8(kernelArgKindARG_MEMORY)
	kindBlock    = uint8(kernelArgKindARG_BLOCK)
	kindUnknown  = uint8(kernelArgKindARG_UNKNOWN)
)

func memory(base usdt.Register, disp int64) usdt.Arg {
	return usdt.Arg{Kind: usdt.ArgMemory, Size: 8, Base: base, Index: usdt.NoRegister, Disp: disp}
}

// Each kind of location is converted to the programs' form, and missing or unsupported locations
// are unknown.
func TestKernelArguments(t *testing.T) {
	const none = usdt.NoRegister
	got := newBlockArguments([]usdt.Arg{
		{Kind: usdt.ArgConst, Size: 8, Signed: true, Base: none, Index: none, Disp: -7},
		{Kind: usdt.ArgRegister, Size: 4, Base: 10, Index: none},
		{Kind: usdt.ArgRegister, Size: 1, Signed: true, Base: 5, Index: none, Shift: 8},
		{Kind: usdt.ArgMemory, Size: 4, Signed: true, Base: 4, Index: none, Disp: -572},
		{Kind: usdt.ArgMemory, Size: 8, Base: 4, Index: 11, Scale: 8, Disp: 16},
		{Kind: usdt.ArgUnknown, Spec: "8@?"},
	})
	want := arguments{blockBase: -1}
	for i := range want.args {
		want.args[i].Kind = kindUnknown
	}
	want.args[0] = kernelArg{Kind: kindConst, Size: 8, IsSigned: 1, Base: -1, Index: -1, Disp: -7}
	want.args[1] = kernelArg{Kind: kindRegister, Size: 4, Base: 10, Index: -1}
	want.args[2] = kernelArg{Kind: kindRegister, Size: 1, IsSigned: 1, Base: 5, Index: -1, Shift: 8}
	want.args[3] = kernelArg{Kind: kindMemory, Size: 4, IsSigned: 1, Base: 4, Index: -1, Disp: -572}
	want.args[4] = kernelArg{Kind: kindMemory, Size: 8, Base: 4, Index: 11, Scale: 8, Disp: 16}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(arguments{}, kernelArg{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Adjacent whole words at one register are read in one block, and others are not.
func TestFindBlock(t *testing.T) {
	type block struct {
		Base  int8
		Disp  int64
		Bytes uint32
		Words map[int]int64 // of the block, by argument
	}
	none := block{Base: -1, Words: map[int]int64{}}
	four, indexed := memory(4, -8), memory(4, -8)
	four.Size = 4
	indexed.Index, indexed.Scale = 3, 1
	for _, test := range []struct {
		name string
		args []usdt.Arg
		want block
	}{
		{"nothing", nil, none},
		{"one word", []usdt.Arg{memory(4, -8)}, none},
		{"two words", []usdt.Arg{memory(4, -8), memory(4, -16)},
			block{4, -16, 16, map[int]int64{0: 1, 1: 0}}},
		{"a gap between", []usdt.Arg{memory(4, 0), memory(4, 24)},
			block{4, 0, 32, map[int]int64{0: 0, 1: 3}}},
		{"the last word that fits", []usdt.Arg{memory(4, 0), memory(4, 88)},
			block{4, 0, 96, map[int]int64{0: 0, 1: 11}}},
		{"too far", []usdt.Arg{memory(4, 0), memory(4, 96)}, none},
		{"one too far", []usdt.Arg{memory(4, 0), memory(4, 8), memory(4, 96)},
			block{4, 0, 16, map[int]int64{0: 0, 1: 1}}},
		{"not a multiple of a word", []usdt.Arg{memory(4, 0), memory(4, 4)}, none},
		{"another base", []usdt.Arg{memory(4, 0), memory(5, 8)}, none},
		{"between others", []usdt.Arg{memory(4, 0), memory(5, 0), memory(4, 8)},
			block{4, 0, 16, map[int]int64{0: 0, 2: 1}}},
		{"not a whole word", []usdt.Arg{four, memory(4, 0)}, none},
		{"an index", []usdt.Arg{indexed, memory(4, 0)}, none},
		{"the VM's", []usdt.Arg{
			{Kind: usdt.ArgRegister, Size: 8, Base: 2, Index: -1}, memory(4, -5360), memory(4, -5352), memory(4, -5344),
			memory(4, -5336), memory(4, -5328), memory(4, -5320), memory(4, -5312), memory(4, -5304), memory(4, -5296)},
			block{4, -5360, 72, map[int]int64{1: 0, 2: 1, 3: 2, 4: 3, 5: 4, 6: 5, 7: 6, 8: 7, 9: 8}}},
	} {
		a := newBlockArguments(test.args)
		got := block{a.blockBase, a.blockDisp, a.blockBytes, map[int]int64{}}
		for i, arg := range a.args {
			if arg.Kind == kindBlock {
				got.Words[i] = arg.Disp
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s, -want +got:\n%s", test.name, diff)
		}
	}
}

// The arguments of a block have the same places as if read separately, and the block is not larger
// than the programs' room.
func TestBlockIsWhereItsArgumentsAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		arg := rapid.Custom(func(t *rapid.T) usdt.Arg {
			a := memory(usdt.Register(rapid.IntRange(3, 5).Draw(t, "base")), int64(rapid.IntRange(-15, 15).Draw(t, "word"))*4)
			a.Size = rapid.SampledFrom([]int{4, 8}).Draw(t, "size")
			return a
		})
		args := rapid.SliceOfN(arg, 0, usdt.MaxArgs).Draw(t, "args")
		a := newBlockArguments(args)
		if a.blockBytes > blockBytes {
			t.Fatalf("a block of %d bytes", a.blockBytes)
		}
		for i, arg := range args {
			k := a.args[i]
			if k.Kind != kindBlock {
				if k.Kind != kindMemory || k.Disp != arg.Disp || k.Base != int8(arg.Base) {
					t.Fatalf("argument %d: %+v", i, k)
				}
				continue
			}
			if at := a.blockDisp + 8*k.Disp; a.blockBase != int8(arg.Base) || at != arg.Disp || arg.Size != 8 {
				t.Fatalf("argument %d: read %d behind register %d", i, at, a.blockBase)
			}
			if k.Disp < 0 || uint32(8*k.Disp+8) > a.blockBytes {
				t.Fatalf("argument %d: word %d of %d bytes", i, k.Disp, a.blockBytes)
			}
		}
	})
}

// record returns a streamed instance in the programs' form.
func record(status uint32, class string) []byte {
	var b []byte
	for _, v := range []uint64{100, 250, 7, 6, 5} {
		b = binary.NativeEndian.AppendUint64(b, v)
	}
	for _, v := range []uint32{3, 42, status, 0} {
		b = binary.NativeEndian.AppendUint32(b, v)
	}
	if class != "" {
		b = append(b, class...)
		b = append(b, make([]byte, failedBytes-len(b))...)
	}
	return b
}

// A record of the ring buffer is an instance. A longer record also has a class.
func TestDecodeInstance(t *testing.T) {
	want := Instance{Outcome: 3, PID: 42, Start: 100, End: 250, ID: 7, Parent: 6, Process: 5}
	for _, test := range []struct {
		record []byte
		status Status
		class  string
	}{
		{record(uint32(kernelColumnSUCCESSES), ""), Success, ""},
		{record(uint32(kernelColumnTIMEOUTS), ""), Timeout, ""},
		{record(uint32(kernelColumnFAILURES), ""), Failure, ""},
		{record(uint32(kernelColumnFAILURES), "error:badarith"), Failure, "error:badarith"},
		{record(uint32(kernelColumnFAILURES), strings.Repeat("c", 63)), Failure, strings.Repeat("c", 63)},
	} {
		want.Status, want.Class = test.status, test.class
		got, err := decodeInstance(test.record)
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	for _, bad := range [][]byte{nil, {1}, record(1, "")[1:], append(record(1, ""), 0), record(uint32(kernelColumnORPHANS), "")} {
		if i, err := decodeInstance(bad); err == nil {
			t.Errorf("%d bytes gave %+v", len(bad), i)
		}
	}
}

// Any content of the ring buffer is decoded to an instance or an error.
func FuzzDecodeInstance(f *testing.F) {
	f.Add(record(uint32(kernelColumnSUCCESSES), ""))
	f.Add(record(uint32(kernelColumnFAILURES), "load"))
	f.Add(record(99, ""))
	f.Fuzz(func(t *testing.T, b []byte) {
		aligned := make([]uint64, len(b)/8+1) // as the ring buffer is
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&aligned[0])), len(b)), b)
		i, err := decodeInstance(unsafe.Slice((*byte)(unsafe.Pointer(&aligned[0])), len(b)))
		if err == nil && (i.Status > Timeout || len(i.Class) > 64 || strings.ContainsRune(i.Class, 0)) {
			t.Errorf("decoded %+v", i)
		}
	})
}
