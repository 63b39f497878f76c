package usdt

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// A mapping is one line of a process's maps file (proc(5)) that maps a file.
type mapping struct {
	text          string // the address range as it stands there, the name in map_files
	start, end    uint64
	write         bool
	execute       bool
	private       bool
	offset        uint64 // of start in the file
	device, inode uint64
}

// maxMapsLine bounds a line of a maps file: a path of at most 4096 bytes, of which
// each may be written as an octal escape.
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

// deviceNumber composes a device number as stat(2) shows it (Linux
// include/linux/kdev_t.h, new_encode_dev; glibc's makedev agrees).
func deviceNumber(major, minor uint64) uint64 {
	return minor&0xff | major<<8&0xfff00 | minor&^0xff<<12
}

// holds tells whether the mapping shows size bytes at a file offset.
func (m mapping) holds(offset, size uint64) bool {
	return offset >= m.offset && m.end-m.start >= size && offset-m.offset <= m.end-m.start-size
}

// overlaps tells whether the mapping shows a part of a segment of its file.
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

// Anonymous returns the parts of the process's memory that are its own, can be written to
// and belong to no file, in order of address.
func (p Process) Anonymous() ([]Range, error) {
	file, err := os.Open(p.path("maps"))
	if err != nil {
		return nil, p.wrap("maps", err)
	}
	defer file.Close()
	var ranges []Range
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxMapsLine)
	for lines.Scan() {
		m, err := parseMapping(lines.Text())
		if err != nil {
			return nil, p.wrap("maps", fmt.Errorf("%q: %w", lines.Text(), err))
		}
		if m.inode == 0 && m.write && m.private {
			ranges = append(ranges, Range{Start: m.start, End: m.end})
		}
	}
	if err := lines.Err(); err != nil {
		return nil, p.wrap("maps", err)
	}
	return ranges, p.check()
}

// Pages opens what tells which pages of the process's memory are there: 8 bytes a page,
// see pagemap in the kernel's documentation of /proc.
func (p Process) Pages() (*os.File, error) { return p.open("pagemap", os.O_RDONLY) }

// WritableMemory opens the process's memory to be read and written by address. The
// file stays that of this process's memory, also when its PID is another's.
func (p Process) WritableMemory() (*os.File, error) { return p.open("mem", os.O_RDWR) }

// open opens one of the process's files.
func (p Process) open(name string, flags int) (*os.File, error) {
	file, err := os.OpenFile(p.path(name), flags, 0)
	if err != nil {
		return nil, p.wrap(name, err)
	}
	if err := p.check(); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}
