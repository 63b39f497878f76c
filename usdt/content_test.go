package usdt

import (
	"bytes"
	"debug/elf"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTexts(t *testing.T) {
	const prefix = "VM "
	long := prefix + strings.Repeat("x", maxNameLength)
	f := newELF(elf.EM_X86_64)
	f.blobs[textOffset+16] = []byte("VM in the code\x00")
	f.blobs[dataOffset+16] = []byte("VM 1\x00another VM 2\x00VM 1\x00" + long + "\x00VM 3\x00")
	file, err := NewFile(bytes.NewReader(f.bytes()))
	if err != nil {
		t.Fatal(err)
	}
	got, err := file.Texts(prefix)
	if want := []string{"VM 1", "VM 2", "VM 3"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// A string is found at any position relative to the chunks in which a segment is read.
func TestTextsAnywhere(t *testing.T) {
	const size = 3<<20 + 7
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.IntRange(0, maxNameLength-len("VM ")).Draw(t, "length")
		text := "VM " + strings.Repeat("y", length)
		near := rapid.SampledFrom([]int{0, 1 << 20, 2 << 20, 3 << 20, size - len(text) - 1}).Draw(t, "near")
		at := min(max(near+rapid.IntRange(-len(text)-2, 2).Draw(t, "by"), 0), size-len(text)-1)
		data := make([]byte, size)
		copy(data[at:], text)
		file := &File{image: &image{r: bytes.NewReader(data), segments: []segment{{kind: elf.PT_LOAD, fileSize: size}}}}
		got, err := file.Texts("VM ")
		if err != nil || !slices.Equal(got, []string{text}) {
			t.Fatalf("at %d: %q, %v", at, got, err)
		}
	})
}

func TestTextsOfHostileFiles(t *testing.T) {
	file := func(size uint64) *File {
		return &File{image: &image{r: sparseFile(nil), segments: []segment{
			{kind: elf.PT_LOAD, fileSize: maxDataBytes / 2},
			{kind: elf.PT_LOAD, fileSize: size},
		}}}
	}
	if _, err := file(maxDataBytes/2 + 1).Texts("VM"); !errors.Is(err, ErrFormat) {
		t.Errorf("too much data: %v", err)
	}
	if n := allocated(func() { _, _ = file(maxDataBytes / 2).Texts("VM") }); n > 4<<20 {
		t.Errorf("%d bytes allocated", n)
	}
	var many bytes.Buffer
	for i := range maxTexts + 1 {
		many.WriteString("VM " + strings.Repeat("z", i) + "\x00")
	}
	f := &File{image: &image{r: bytes.NewReader(many.Bytes()), segments: []segment{{kind: elf.PT_LOAD, fileSize: uint64(many.Len())}}}}
	if _, err := f.Texts("VM "); !errors.Is(err, ErrFormat) {
		t.Errorf("too many strings: %v", err)
	}
	f.image.segments[0].fileSize += 1
	if _, err := f.Texts("VN "); !errors.Is(err, ErrFormat) {
		t.Errorf("a file that ends early: %v", err)
	}
}

func TestCode(t *testing.T) {
	f := newELF(elf.EM_X86_64)
	f.blobs[textOffset+0x20] = []byte{0xf3, 0x0f, 0x1e, 0xfa, 0x55}
	file, err := NewFile(bytes.NewReader(f.bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := file.Code(textAddress+0x20, 5); err != nil || !bytes.Equal(got, []byte{0xf3, 0x0f, 0x1e, 0xfa, 0x55}) {
		t.Errorf("%x, %v", got, err)
	}
	for _, bad := range []struct {
		address uint64
		n       int
	}{{dataAddress, 1}, {textAddress + areaSize - 1, 2}, {textAddress, maxCode + 1}, {0, 1}} {
		if _, err := file.Code(bad.address, bad.n); !errors.Is(err, ErrFormat) {
			t.Errorf("%d bytes at %#x: %v", bad.n, bad.address, err)
		}
	}
}
