package usdt

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
)

// The layout of an unwound function's file.
const (
	unwoundName   = "function"
	unwoundSize   = 0x40
	tableAddress  = 0x405000
	framesAddress = 0x406000
	framesOffset  = 0x6000
)

// An unwound is a file with one function, in parts that a test can change before it makes the file.
type unwound struct {
	machine elf.Machine
	section string // of the code
	table   []byte // .eh_frame_hdr
	frames  []byte // .eh_frame: the common record, and behind it that of the function
	header  elf.Section64
	symbol  testSymbol
}

// Call frame instructions as compilers write them at the beginning of functions.
const (
	pushed  = "\x41\x0e\x10\x86\x02" // behind 1 byte, the frame ends 16 bytes above the stack pointer
	stored  = "\x41\x0e\x20\x9d\x04" // the same of arm64, behind one instruction
	ofX86   = "\x0c\x07\x08\x90\x01"
	ofArm64 = "\x0c\x1f\x00"
)

// newUnwound returns a file that has a good function.
func newUnwound(machine elf.Machine) *unwound {
	u := &unwound{machine: machine, section: ".text", symbol: sized(unwoundName, textAddress, unwoundSize)}
	u.header = elf.Section64{Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC), Addr: framesAddress, Off: framesOffset}
	if machine == elf.EM_AARCH64 {
		u.setFrames(common("zR\x00", "\x04\x78\x1e", "\x1b", ofArm64), stored)
	} else {
		u.setFrames(common("zR\x00", "\x01\x78\x10", "\x1b", ofX86), pushed)
	}
	return u
}

// frameOf returns a record of .eh_frame, padded with DW_CFA_nop.
func frameOf(data []byte) []byte {
	data = append(data, make([]byte, -len(data)&3)...)
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(data))), data...)
}

// common returns a common record.
func common(augmentation, units, extra, instructions string) []byte {
	return frameOf([]byte("\x00\x00\x00\x00\x01" + augmentation + units + string(rune(len(extra))) + extra + instructions))
}

// setFrames sets the frames to a common record and one of the function, and the table to an entry for it.
func (u *unwound) setFrames(common []byte, instructions string) {
	at := uint32(len(common))
	const address, head = textAddress - framesAddress, 8 // bytes before the address
	data := binary.LittleEndian.AppendUint32(nil, at+4)  // distance to the common record
	data = binary.LittleEndian.AppendUint32(data, uint32(address-int64(at)-head))
	data = binary.LittleEndian.AppendUint32(data, unwoundSize)
	data = append(data, "\x00"+instructions...)
	u.frames = append(slices.Clone(common), frameOf(data)...)
	u.table = functionTable(tableAddress, textAddress)
	binary.LittleEndian.PutUint32(u.table[16:], framesAddress-tableAddress+at)
}

// atFunction returns the record of the function.
func (u *unwound) atFunction() []byte { return u.frames[4+binary.LittleEndian.Uint32(u.frames):] }

func (u *unwound) bytes() []byte {
	file := newELF(u.machine)
	file.addSection(u.section, elf.Section64{Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC | elf.SHF_EXECINSTR), Addr: textAddress, Off: textOffset, Size: areaSize}, nil)
	file.addSection(".eh_frame_hdr", elf.Section64{Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC), Addr: tableAddress, Off: 0x5000}, u.table)
	file.addSection(".eh_frame", u.header, u.frames)
	return file.bytes()
}

// find looks up the function, whose place is in another file.
func (u *unwound) find(t *testing.T) (uint64, error) {
	t.Helper()
	debug := newELF(u.machine)
	debug.addSymbols(elf.SHT_SYMTAB, 0x4000, u.symbol)
	f := openBytes(t, u.bytes())
	f.UseSymbols(openBytes(t, debug.bytes()))
	address, _, err := f.Symbol(unwoundName)
	if (f.Disbelieved() == nil) != (err == nil) {
		t.Errorf("disbelieved: %v, and the error is %v", f.Disbelieved(), err)
	}
	return address, err
}

// A function of another file is believed if the executable has all of it at the address, and it is entered
// there.
func TestEntry(t *testing.T) {
	frames := func(common []byte, instructions string) func(*unwound) {
		return func(u *unwound) { u.setFrames(common, instructions) }
	}
	x86 := func(augmentation, extra string) []byte { return common(augmentation, "\x01\x78\x10", extra, ofX86) }
	for name, change := range map[string]func(*unwound){
		"a frame":                  func(*unwound) {},
		"no frame":                 frames(x86("zR\x00", "\x1b"), ""),
		"after nothing":            frames(x86("zR\x00", "\x1b"), "\x00\x00"+pushed),
		"behind many bytes":        frames(x86("zR\x00", "\x1b"), "\x02\x50\x0e\x10"),
		"behind more bytes":        frames(x86("zR\x00", "\x1b"), "\x03\x00\x01\x0e\x10"),
		"behind very many bytes":   frames(x86("zR\x00", "\x1b"), "\x04\x00\x00\x01\x00\x0e\x10"),
		"with exceptions":          frames(x86("zPLR\x00", "\x9b\x01\x02\x03\x04\xff\x1b"), pushed),
		"with an unsigned handler": frames(x86("zPR\x00", "\x03\x01\x02\x03\x04\x1b"), pushed),
		"arm64":                    func(u *unwound) { *u = *newUnwound(elf.EM_AARCH64) },
		"arm64, of another clang":  func(u *unwound) { *u = *newUnwound(elf.EM_AARCH64); u.frames[9+3+1] = 0x7c },
	} {
		u := newUnwound(elf.EM_X86_64)
		change(u)
		if address, err := u.find(t); err != nil || address != textAddress {
			t.Errorf("%s: %#x, error %v", name, address, err)
		}
	}
}

// Where a return probe would overwrite anything else than a return address, the other file is not believed.
func TestNoEntry(t *testing.T) {
	frames := func(common []byte, instructions string) func(*unwound) {
		return func(u *unwound) { u.setFrames(common, instructions) }
	}
	x86 := func(augmentation, extra string) []byte { return common(augmentation, "\x01\x78\x10", extra, ofX86) }
	ordinary := x86("zR\x00", "\x1b")
	put := func(at int, value uint32) func(*unwound) {
		return func(u *unwound) { binary.LittleEndian.PutUint32(u.atFunction()[at:], value) }
	}
	arm64 := func(instructions string) func(*unwound) {
		return func(u *unwound) {
			*u = *newUnwound(elf.EM_AARCH64)
			u.setFrames(common("zR\x00", "\x04\x78\x1e", "\x1b", ofArm64), instructions)
		}
	}
	for name, test := range map[string]struct {
		change func(*unwound)
		says   string
	}{
		"elsewhere":                    {func(u *unwound) { u.symbol.Value++ }, "no function begins"},
		"of another size":              {func(u *unwound) { u.symbol.Size-- }, "64 bytes, not 63"},
		"of no size":                   {func(u *unwound) { u.symbol.Size = 0 }, "64 bytes, not 0"},
		"longer than the code":         {func(u *unwound) { put(12, areaSize+1)(u); u.symbol.Size = areaSize + 1 }, "no executable segment"},
		"of nothing":                   {func(u *unwound) { put(12, 0)(u); u.symbol.Size = 0 }, "not that of the code"},
		"of the linker":                {func(u *unwound) { u.section = ".plt.got" }, `".plt.got"`},
		"in a part":                    {frames(ordinary, "\x0e\x50\x83\x07\x8c\x06"), "a part of a function"},
		"in a part with other end":     {frames(ordinary, "\x0c\x06\x10\x86\x02"), "a part of a function"},
		"in a part behind nothing":     {frames(ordinary, "\x00\x40\x0e\x50"), "a part of a function"},
		"behind no bytes":              {frames(ordinary, "\x02\x00\x0e\x50"), "a part of a function"},
		"behind no two bytes":          {frames(ordinary, "\x03\x00\x00\x0e\x50"), "a part of a function"},
		"behind no four bytes":         {frames(ordinary, "\x04\x00\x00\x00\x00\x0e\x50"), "a part of a function"},
		"with a saved register":        {frames(ordinary, "\x83\x02"), "a part of a function"},
		"with register 0":              {frames(ordinary, "\x80\x02"), "a part of a function"},
		"changed by the last byte":     {frames(ordinary, "\x00\x00\x2d"), "a part of a function"},
		"with an expression":           {frames(ordinary, "\x0f\x01\x77"), "a part of a function"},
		"in a table of linkage":        {frames(common("zR\x00", "\x01\x78\x10", "\x1b", "\x0c\x07\x10\x90\x01"), ""), "not called"},
		"at the first instruction":     {frames(common("zR\x00", "\x01\x78\x10", "\x1b", ofX86+"\x07\x10"), ""), "not called"},
		"with another unit":            {frames(common("zR\x00", "\x01\x7c\x10", "\x1b", ofX86), ""), "not called"},
		"with another return":          {frames(common("zR\x00", "\x01\x78\x0f", "\x1b", ofX86), ""), "not called"},
		"with rules of arm64":          {frames(common("zR\x00", "\x01\x78\x10", "\x1b", ofArm64), ""), "not called"},
		"without rules":                {frames(common("zR\x00", "\x01\x78\x10", "\x1b", ""), ""), "not called"},
		"of a signal":                  {frames(x86("zRS\x00", "\x1b"), pushed), "another form"},
		"without an encoding":          {frames(x86("z\x00", ""), pushed), "another form"},
		"in another encoding":          {frames(x86("zR\x00", "\x1c"), pushed), "another form"},
		"of another handler":           {frames(x86("zPR\x00", "\x9c\x01\x02\x03\x04\x1b"), pushed), "another form"},
		"with data cut off":            {frames(x86("zRL\x00", "\x1b"), pushed), "another form"},
		"without a size":               {frames(x86("R\x00", "\x1b"), pushed), "another form"},
		"of no text":                   {frames(x86("zRRRRRRRRRRRRRRRRRRR", "\x1b"), pushed), "another form"},
		"without units":                {frames(common("zR\x00", "\x00\x78\x10", "\x1b", ofX86), ""), "another form"},
		"of a later version":           {func(u *unwound) { u.frames[8] = 4 }, "another form"},
		"common with itself":           {put(4, 4), "another form"},
		"no record":                    {put(0, 0), "0 bytes"},
		"a record of 64 bits":          {put(0, 1<<32-1), "4294967295 bytes"},
		"a record past the end":        {put(0, 0x1000), "ends"},
		"a common record":              {put(4, 0), "no common record"},
		"common from before":           {put(4, 1<<20), "no common record"},
		"of another function":          {put(8, 0), "not that of the code"},
		"half a record":                {put(0, 9), "not that of the code"},
		"data past the end":            {func(u *unwound) { u.atFunction()[16] = 0x7f }, "not that of the code"},
		"data of unlimited size":       {func(u *unwound) { copy(u.atFunction()[16:], bytes.Repeat([]byte{0xff}, 6)) }, "not that of the code"},
		"a record before the section":  {func(u *unwound) { u.header.Addr += 0x1000 }, "outside"},
		"a record behind the section":  {func(u *unwound) { u.header.Addr -= 0x1000 }, "outside"},
		"at the end of the section":    {func(u *unwound) { u.header.Size = uint64(len(u.frames) - len(u.atFunction()) + 2) }, "ends"},
		"no section":                   {func(u *unwound) { u.section, u.header.Type = ".text", uint32(elf.SHT_NOBITS) }, "not in this file"},
		"a compressed section":         {func(u *unwound) { u.header.Flags |= uint64(elf.SHF_COMPRESSED) }, "compressed"},
		"a huge section":               {func(u *unwound) { u.header.Size = maxFrames + 1 }, "at most"},
		"a section behind all files":   {func(u *unwound) { u.header.Off = 1<<64 - 8 }, "past the end"},
		"no table":                     {func(u *unwound) { u.table = u.table[:8] }, "another form"},
		"arm64, in a part":             {arm64("\x0e\x20\x9d\x04"), "a part of a function"},
		"arm64, with a signed address": {arm64("\x2d"), "a part of a function"},
	} {
		u := newUnwound(elf.EM_X86_64)
		test.change(u)
		var err error
		if bytes := allocated(func() { _, err = u.find(t) }); bytes > 1<<20 {
			t.Errorf("%s: %d bytes are allocated", name, bytes)
		}
		if !errors.Is(err, ErrNoSymbol) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: error %v, want %q", name, err, test.says)
		}
	}
}

// Whatever the frames are, they are read within limits.
func FuzzEntry(f *testing.F) {
	for _, machine := range []elf.Machine{elf.EM_X86_64, elf.EM_AARCH64} {
		u := newUnwound(machine)
		f.Add(machine == elf.EM_AARCH64, binary.LittleEndian.Uint32(u.table[16:]), uint64(unwoundSize), u.frames)
		f.Add(machine == elf.EM_AARCH64, binary.LittleEndian.Uint32(u.table[16:]), uint64(unwoundSize), u.frames[:len(u.frames)-6])
	}
	f.Fuzz(func(t *testing.T, arm64 bool, record uint32, size uint64, frames []byte) {
		u := newUnwound(elf.EM_X86_64)
		if arm64 {
			u = newUnwound(elf.EM_AARCH64)
		}
		u.frames = frames[:min(len(frames), 0x1000)]
		binary.LittleEndian.PutUint32(u.table[16:], record)
		file := openBytes(t, u.bytes())
		if err := file.image.checkEntry(textAddress, size); err != nil {
			return
		}
		at := uint64(int64(int32(record))) + tableAddress - framesAddress
		if at > uint64(len(u.frames)) || uint64(binary.LittleEndian.Uint32(u.frames[at+12:])) != size || size == 0 || size > areaSize {
			t.Errorf("%d bytes are accepted at %#x", size, at)
		}
	})
}
