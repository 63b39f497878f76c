package usdt

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// The limits on notes.
const (
	maxNotes       = 10_000
	maxNoteField   = 1 << 20  // bytes of a note's name or descriptor
	maxNoteBytes   = 64 << 20 // of all notes that are read
	maxArgsLength  = 4096     // bytes of a probe's argument specifications
	noteHeaderSize = 12
)

// Names and types of the notes of <sys/sdt.h> and of the linker's build ID.
const (
	stapsdtSection = ".note.stapsdt"
	stapsdtBase    = ".stapsdt.base"
	stapsdtName    = "stapsdt"
	stapsdtType    = 3
	gnuName        = "GNU"
	buildIDType    = 3
)

// A note is one entry of a note section or segment. Its descriptor is valid until
// the next note is read.
type note struct {
	name       string
	kind       uint32
	descriptor []byte
}

// A noteReader reads the notes of several areas of a file, one area at a time, with a common limit.
type noteReader struct {
	r      io.ReaderAt
	notes  int    // still allowed
	bytes  uint64 // still allowed
	buffer []byte // for names and descriptors

	area  *bufio.Reader
	left  uint64 // bytes of the area not yet read
	align uint64 // of names and descriptors within the area
}

func newNoteReader(r io.ReaderAt) *noteReader {
	return &noteReader{r: r, notes: maxNotes, bytes: maxNoteBytes, area: bufio.NewReader(nil)}
}

// enter starts reading an area of the file.
func (n *noteReader) enter(offset, size, align uint64) error {
	if size > n.bytes {
		return fmt.Errorf("%w: notes of %d bytes, at most %d are read", ErrFormat, size, maxNoteBytes)
	}
	part, err := sectionReader(n.r, offset, size)
	if err != nil {
		return err
	}
	n.bytes -= size
	n.left = size
	// Notes are aligned to 4 bytes whatever the word size, unless the area specifies 8 (gABI;
	// .note.gnu.property is such an area).
	n.align = 4
	if align == 8 {
		n.align = 8
	}
	n.area.Reset(part)
	return nil
}

// next returns the next note of the area, or io.EOF after the last.
func (n *noteReader) next() (note, error) {
	if n.left == 0 {
		return note{}, io.EOF
	}
	if n.notes == 0 {
		return note{}, fmt.Errorf("%w: more than %d notes", ErrFormat, maxNotes)
	}
	n.notes--
	head, err := n.read("header", noteHeaderSize)
	if err != nil {
		return note{}, err
	}
	nameSize := uint64(binary.LittleEndian.Uint32(head))
	size := uint64(binary.LittleEndian.Uint32(head[4:]))
	kind := binary.LittleEndian.Uint32(head[8:])
	name, err := n.read("name", nameSize)
	if err != nil {
		return note{}, err
	}
	result := note{name: string(bytes.TrimRight(name[:min(len(name), maxNameLength)], "\x00")), kind: kind}
	if err := n.pad(noteHeaderSize + nameSize); err != nil {
		return note{}, err
	}
	if result.descriptor, err = n.read("descriptor", size); err != nil {
		return note{}, err
	}
	return result, n.pad(size)
}

// read returns the next size bytes, valid until the next call.
func (n *noteReader) read(field string, size uint64) ([]byte, error) {
	if size > maxNoteField {
		return nil, fmt.Errorf("%w: note %s of %d bytes, at most %d are read", ErrFormat, field, size, maxNoteField)
	}
	if size > n.left {
		return nil, fmt.Errorf("%w: note %s of %d bytes where %d are left", ErrFormat, field, size, n.left)
	}
	if uint64(cap(n.buffer)) < size {
		n.buffer = make([]byte, size)
	}
	buffer := n.buffer[:size]
	if _, err := io.ReadFull(n.area, buffer); err != nil {
		return nil, fmt.Errorf("note %s: %w", field, readError(err))
	}
	n.left -= size
	return buffer, nil
}

// pad skips to the next aligned position after size bytes from an aligned one.
// The last note of an area need not be padded.
func (n *noteReader) pad(size uint64) error {
	skip := min(-size&(n.align-1), n.left)
	if _, err := n.area.Discard(int(skip)); err != nil {
		return fmt.Errorf("note padding: %w", readError(err))
	}
	n.left -= skip
	return nil
}

// A stapsdtNote is a note of <sys/sdt.h> as the file contains it.
type stapsdtNote struct {
	location, base, semaphore uint64
	provider, name, args      string
}

// stapsdtNotes returns all probe notes of the file, in order.
func (img *image) stapsdtNotes() ([]stapsdtNote, error) {
	reader := newNoteReader(img.r)
	var notes []stapsdtNote
	for _, area := range img.stapsdtAreas() {
		err := area.check(maxNoteBytes)
		if err == nil {
			notes, err = appendStapsdt(notes, reader, area)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", area.name, err)
		}
	}
	return notes, nil
}

// stapsdtAreas returns the sections of probe notes or, in a file that has lost
// its section names, the note segments.
func (img *image) stapsdtAreas() []section {
	var areas []section
	for _, s := range img.sections {
		if s.name == stapsdtSection && s.kind != elf.SHT_NOBITS {
			areas = append(areas, s)
		}
	}
	if areas != nil {
		return areas
	}
	return img.noteSegments()
}

// noteSegments returns the note segments in the form of sections.
func (img *image) noteSegments() []section {
	var areas []section
	for _, s := range img.segments {
		if s.kind == elf.PT_NOTE {
			areas = append(areas, section{name: "PT_NOTE", offset: s.offset, size: s.fileSize, align: s.align})
		}
	}
	return areas
}

// appendStapsdt appends the probe notes of one area.
func appendStapsdt(notes []stapsdtNote, reader *noteReader, area section) ([]stapsdtNote, error) {
	if err := reader.enter(area.offset, area.size, area.align); err != nil {
		return nil, err
	}
	for i := 0; ; i++ {
		n, err := reader.next()
		if errors.Is(err, io.EOF) {
			return notes, nil
		}
		if err != nil {
			return nil, fmt.Errorf("note %d: %w", i, err)
		}
		if n.name != stapsdtName || n.kind != stapsdtType {
			continue
		}
		parsed, err := parseStapsdt(n.descriptor)
		if err != nil {
			return nil, fmt.Errorf("note %d: %w", i, err)
		}
		notes = append(notes, parsed)
	}
}

// parseStapsdt parses a probe note's descriptor: three addresses, then three
// strings (SystemTap wiki, UserSpaceProbeImplementation). What follows the
// strings is ignored, so that later versions may add fields.
func parseStapsdt(descriptor []byte) (stapsdtNote, error) {
	const addresses = 3 * 8
	if len(descriptor) < addresses {
		return stapsdtNote{}, fmt.Errorf("%w: descriptor of %d bytes is too short for three addresses", ErrFormat, len(descriptor))
	}
	n := stapsdtNote{
		location:  binary.LittleEndian.Uint64(descriptor),
		base:      binary.LittleEndian.Uint64(descriptor[8:]),
		semaphore: binary.LittleEndian.Uint64(descriptor[16:]),
	}
	rest := descriptor[addresses:]
	for _, field := range []struct {
		what  string
		limit int
		value *string
	}{
		{"provider", maxNameLength, &n.provider},
		{"name", maxNameLength, &n.name},
		{"arguments", maxArgsLength, &n.args},
	} {
		value, tail, found := bytes.Cut(rest, []byte{0})
		if !found {
			return stapsdtNote{}, fmt.Errorf("%w: the %s is not terminated", ErrFormat, field.what)
		}
		if len(value) > field.limit {
			return stapsdtNote{}, fmt.Errorf("%w: %s of %d bytes, at most %d are read", ErrFormat, field.what, len(value), field.limit)
		}
		*field.value, rest = string(value), tail
	}
	if !isName(n.provider) || !isName(n.name) {
		return stapsdtNote{}, fmt.Errorf("%w: %q:%q are not names", ErrFormat, n.provider, n.name)
	}
	return n, nil
}

// isName reports whether a provider's or probe's name can be displayed: it comes from the file and
// is written to terminals.
func isName(s string) bool {
	if s == "" || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !unicode.IsGraphic(r) || unicode.IsSpace(r) {
			return false
		}
	}
	return true
}

// base returns the address of .stapsdt.base, or 0.
func (img *image) base() uint64 {
	for _, s := range img.sections {
		if s.name == stapsdtBase {
			return s.address
		}
	}
	return 0
}

// drift returns the offset that was added to a file's addresses after a note was written, from the
// present address of .stapsdt.base. prelink moves that section but does not change notes (SystemTap
// wiki, UserSpaceProbeImplementation; libbpf src/usdt.c).
func (n stapsdtNote) drift(base uint64) uint64 {
	if base == 0 || n.base == 0 {
		return 0
	}
	return base - n.base
}
