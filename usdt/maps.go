package usdt

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// A mapping is one line of a process's maps file (proc(5)) that maps a file.
type mapping struct {
	text          string // the address range as in the line, which is also the name in map_files
	start, end    uint64
	write         bool
	execute       bool
	private       bool
	offset        uint64 // of start in the file
	device, inode uint64
}

// maxMapsLine limits the length of a line in a maps file: a path of at most 4096 bytes, each of
// which may be an octal escape.
const maxMapsLine = 64 << 10

// mappings returns the process's mappings of files, in order of address.
func (p Process) mappings() ([]mapping, error) {
	file, err := os.Open(p.path("maps"))
	if err != nil {
		return nil, p.wrap("maps", err)
	}
	defer file.Close()
	mappings, err := parseMappings(file)
	if err != nil {
		return nil, p.wrap("maps", err)
	}
	return mappings, p.check()
}

// parseMappings parses a maps file.
func parseMappings(r io.Reader) ([]mapping, error) {
	var mappings []mapping
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxMapsLine)
	for lines.Scan() {
		m, err := parseMapping(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("%q: %w", lines.Text(), err)
		}
		if m.inode != 0 {
			mappings = append(mappings, m)
		}
	}
	return mappings, lines.Err()
}

// parseMapping parses a line like
//
//	7f5c8d000000-7f5c8d021000 rw-p 00001000 fd:00 1234      /usr/lib/x.so
//
// up to the inode. The name is not used: the link in map_files gives it without
// escapes, and leads to the file.
func parseMapping(line string) (mapping, error) {
	var (
		m     mapping
		field [5]string
	)
	for i := range field {
		field[i], line, _ = strings.Cut(line, " ")
	}
	m.text = field[0]
	start, end, _ := strings.Cut(field[0], "-")
	major, minor, _ := strings.Cut(field[3], ":")
	if len(field[1]) != 4 {
		return m, fmt.Errorf("permissions %q", field[1])
	}
	m.write, m.execute, m.private = field[1][1] == 'w', field[1][2] == 'x', field[1][3] == 'p'
	var majorNumber, minorNumber uint64
	for _, number := range []struct {
		text  string
		base  int
		value *uint64
	}{
		{start, 16, &m.start},
		{end, 16, &m.end},
		{field[2], 16, &m.offset},
		{major, 16, &majorNumber},
		{minor, 16, &minorNumber},
		{field[4], 10, &m.inode},
	} {
		var err error
		if *number.value, err = strconv.ParseUint(number.text, number.base, 64); err != nil {
			return m, err
		}
	}
	m.device = deviceNumber(majorNumber, minorNumber)
	return m, nil
}

// deviceNumber encodes a device number as in stat(2) (Linux include/linux/kdev_t.h, new_encode_dev;
// glibc's makedev agrees).
func deviceNumber(major, minor uint64) uint64 {
	return minor&0xff | major<<8&0xfff00 | minor&^0xff<<12
}

// holds reports whether the mapping contains size bytes at a file offset.
func (m mapping) holds(offset, size uint64) bool {
	return offset >= m.offset && m.end-m.start >= size && offset-m.offset <= m.end-m.start-size
}

// overlaps reports whether the mapping contains a part of a segment of its file.
func (m mapping) overlaps(s segment) bool {
	return m.offset < s.offset+s.fileSize && s.offset < m.offset+(m.end-m.start)
}

// executables returns one executable mapping for each file that has one.
func executables(mappings []mapping) []mapping {
	seen := make(map[[2]uint64]bool)
	var result []mapping
	for _, m := range mappings {
		key := [2]uint64{m.device, m.inode}
		if m.execute && !seen[key] {
			seen[key] = true
			result = append(result, m)
		}
	}
	return result
}

// A Range is a part of a process's addresses.
type Range struct{ Start, End uint64 }

// Anonymous returns the writable parts of the process's own memory that belong to no file, in order
// of address, without its stack. The stack contains data from others, such as the environment.
func (p Process) Anonymous() ([]Range, error) {
	file, err := os.Open(p.path("maps"))
	if err != nil {
		return nil, p.wrap("maps", err)
	}
	defer file.Close()
	ranges, err := parseAnonymous(file)
	if err != nil {
		return nil, p.wrap("maps", err)
	}
	return ranges, p.check()
}

// parseAnonymous parses a maps file for [Process.Anonymous]. A file system in user space can claim
// inode 0 for a file, but not device 0.
func parseAnonymous(r io.Reader) ([]Range, error) {
	var ranges []Range
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxMapsLine)
	for lines.Scan() {
		m, err := parseMapping(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("%q: %w", lines.Text(), err)
		}
		if m.device == 0 && m.inode == 0 && m.write && m.private && !strings.HasSuffix(lines.Text(), " [stack]") {
			ranges = append(ranges, Range{Start: m.start, End: m.end})
		}
	}
	return ranges, lines.Err()
}

// WritableParts returns the places where the process has parts of a file in private, writable
// mappings, in order of address: the data of an executable. The file must come from Executable or
// Files.
func (p Process) WritableParts(file MappedFile) ([]Range, error) {
	mappings, err := p.mappings()
	if err != nil {
		return nil, err
	}
	var parts []Range
	for _, m := range mappings {
		if m.write && m.private && p.maps(m, file) {
			parts = append(parts, Range{Start: m.start, End: m.end})
		}
	}
	return parts, nil
}

// Pages opens the file that shows which pages of the process's memory are present: 8 bytes a page,
// see pagemap in the kernel's documentation of /proc. If this user may trace the process, but may not
// open that file, the pages have no bits except the one for presence.
func (p Process) Pages() (ReadableMemory, error) {
	return openOr(p, "pagemap", os.O_RDONLY, p.threadPages)
}

// WritableMemory opens the process's memory for reading and writing by address. The process must
// run an executable, and all of its user ids must be equal. Otherwise the error wraps
// [ErrReplaced]: any process can execute a program that has more rights than itself, and keeps its
// PID. The file stays that of this memory: it never writes to the next process with the PID, or to
// the next program of the process. To trace the process is the only right that is needed.
func (p Process) WritableMemory(executable MappedFile, user int) (Memory, error) {
	memory, err := openOr(p, "mem", os.O_RDWR, p.threadMemory)
	if err != nil {
		return nil, err
	}
	// The check comes last. If the process has executed another program since, that program has
	// other memory.
	if err = p.runs(executable); err == nil {
		err = p.isOne(user)
	}
	if err == nil {
		err = stillThere(memory)
	}
	if err != nil {
		memory.Close()
		return nil, err
	}
	return memory, nil
}

// runs returns nil if the process runs an executable.
func (p Process) runs(executable MappedFile) error {
	now, err := p.Executable()
	if err != nil {
		return err
	}
	if now.Device != executable.Device || now.Inode != executable.Inode {
		return fmt.Errorf("process %d: %w: it executed %s", p.PID, ErrReplaced, now.Name)
	}
	return nil
}

// isOne returns nil if all user ids of the process belong to one user.
func (p Process) isOne(user int) error {
	status, err := os.ReadFile(p.path("status"))
	if err != nil {
		return p.wrap("status", err)
	}
	for line := range strings.Lines(string(status)) {
		ids, found := strings.CutPrefix(line, "Uid:")
		if !found {
			continue
		}
		all := strings.Fields(ids) // real, effective, saved, of files
		if len(all) != 4 || slices.ContainsFunc(all, func(id string) bool { return id != strconv.Itoa(user) }) {
			return fmt.Errorf("process %d: %w: its user ids are %s, not all %d", p.PID, ErrReplaced, strings.Join(all, ", "), user)
		}
		return p.check()
	}
	return fmt.Errorf("process %d: %w: its user ids are not known", p.PID, ErrReplaced)
}

// openOr opens one of the process's files. If this user may not open it, other does instead.
func openOr[T ReadableMemory](p Process, name string, flags int, other func() (T, error)) (opened T, err error) {
	file, err := os.OpenFile(p.path(name), flags, 0)
	switch {
	case errors.Is(err, fs.ErrPermission):
		var otherErr error
		if opened, otherErr = other(); otherErr != nil {
			err = p.forbidden(err, otherErr)
			return opened, err
		}
		return opened, nil
	case err != nil:
		return opened, p.wrap(name, err)
	}
	if err := p.check(); err != nil {
		file.Close()
		return opened, err
	}
	return any(file).(T), nil
}
