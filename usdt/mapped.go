package usdt

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// A MappedFile is a file that a process executes code of.
type MappedFile struct {
	// Path is a path to open: a link under /proc to the file itself. It leads to the right file
	// across mount namespaces and after deletion, as long as the process runs and maps the file.
	Path string

	// Name is the file's name as the process sees it, for display.
	Name string

	// Deleted means that Name no longer leads to the file.
	Deleted bool

	// Device and Inode identify the file, as stat(2) has them.
	Device, Inode uint64
}

// deletedSuffix is the suffix that the kernel adds to the names of deleted files.
const deletedSuffix = " (deleted)"

// Executable returns the file that the process was started from. Kernel threads
// and zombies have none; that is an error which wraps os.ErrNotExist, but not
// ErrProcessGone.
func (p Process) Executable() (MappedFile, error) {
	file, err := p.mappedFile("exe")
	if errors.Is(err, ErrProcessGone) && p.check() == nil {
		return MappedFile{}, fmt.Errorf("process %d: a kernel thread or zombie, without executable: %w", p.PID, os.ErrNotExist)
	}
	if err != nil {
		return MappedFile{}, err
	}
	return file, p.check()
}

// Files returns the executable and every other regular file with a part that the process maps as
// executable. Each file is listed once, the executable first. Some may not be ELF files:
// just-in-time compilers map other files.
func (p Process) Files() ([]MappedFile, error) {
	executable, err := p.Executable()
	if err != nil {
		return nil, err
	}
	mappings, err := p.mappings()
	if err != nil {
		return nil, err
	}
	files := []MappedFile{executable}
	seen := map[[2]uint64]bool{{executable.Device, executable.Inode}: true}
	for _, m := range executables(mappings) {
		file, err := p.mappedFile("map_files", m.text)
		switch {
		case errors.Is(err, ErrProcessGone), errors.Is(err, errIrregular): // perhaps only unmapped
			continue
		case err != nil:
			return nil, err
		}
		key := [2]uint64{file.Device, file.Inode}
		if !seen[key] {
			seen[key] = true
			files = append(files, file)
		}
	}
	return files, p.check()
}

// errIrregular is the error for devices and the like.
var errIrregular = errors.New("not a regular file")

// mappedFile describes the target of a link in the process's /proc folder.
func (p Process) mappedFile(elements ...string) (MappedFile, error) {
	file := MappedFile{Path: p.path(elements...)}
	name, err := os.Readlink(file.Path)
	if err != nil {
		return MappedFile{}, p.wrap(elements[0], err)
	}
	regular, err := file.identify()
	if err != nil {
		return MappedFile{}, p.wrap(elements[0], err)
	}
	if !regular {
		return MappedFile{}, fmt.Errorf("process %d: %s: %w", p.PID, name, errIrregular)
	}
	file.Name = name
	if base, ok := strings.CutSuffix(name, deletedSuffix); ok && !p.sees(name, file) {
		file.Name, file.Deleted = base, true
	}
	return file, nil
}

// sees reports whether the process finds a file under a name. A file's own name might end like that
// of a deleted file.
func (p Process) sees(name string, file MappedFile) bool {
	place, err := p.place(name)
	if err != nil {
		return false
	}
	defer place.Close()
	info, err := place.Stat()
	if err != nil {
		return false
	}
	device, inode := Identity(info)
	return device == file.Device && inode == file.Inode
}

// Identity returns a file's device and inode numbers, as stat(2) has them.
func Identity(info fs.FileInfo) (device, inode uint64) {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Dev), uint64(stat.Ino)
	}
	return 0, 0
}

// Semaphore returns the value of a site's semaphore in the process: the number of tracers that want
// the probe. The file must come from Executable or Files, and the site from that file. The error is
// ErrNoSemaphore if the site has none or the process does not map it.
func (p Process) Semaphore(site Site, file MappedFile) (uint16, error) {
	if site.Semaphore == 0 {
		return 0, fmt.Errorf("site at %#x: %w", site.Address, ErrNoSemaphore)
	}
	executable, err := p.Executable()
	if err != nil {
		return 0, err
	}
	mappings, err := p.mappings()
	if err != nil {
		return 0, err
	}
	var value [2]byte
	address, ok := p.writable(mappings, file, site.Semaphore, uint64(len(value)))
	if !ok {
		return 0, fmt.Errorf("process %d: %w at offset %#x of %s: not mapped for writing",
			p.PID, ErrNoSemaphore, site.Semaphore, file.Name)
	}
	memory, err := p.Memory(executable)
	if err != nil {
		return 0, err
	}
	defer memory.Close()
	_, err = memory.ReadAt(value[:], int64(address))
	if gone := p.check(); gone != nil {
		return 0, gone
	}
	if err != nil {
		return 0, p.wrap("mem", err)
	}
	return binary.LittleEndian.Uint16(value[:]), nil
}

// Memory opens the process's memory for reading, by address. The process must run an executable,
// which the caller knew before it looked for addresses. Otherwise the error wraps [ErrReplaced]: the
// program that the process has executed since may have secrets there. It is always the memory of this
// process: after its end a read returns io.EOF, even if another process gets the PID. The caller
// must Close it.
func (p Process) Memory(executable MappedFile) (ReadableMemory, error) {
	memory, err := openOr(p, "mem", os.O_RDONLY, p.threadMemory)
	if err != nil {
		return nil, err
	}
	// The check comes last, see WritableMemory.
	err = p.runs(executable)
	if err == nil {
		err = stillThere(memory)
	}
	if err != nil {
		memory.Close()
		return nil, err
	}
	return memory, nil
}

// Bias returns the difference, modulo 2^64, between an address in the process and the address as
// linked in a file. Executable or Files returned the file, and f was opened from it. The error is
// ErrFormat if the process maps no part of the file as executable, or a part that the file does not
// declare as executable.
func (p Process) Bias(file MappedFile, f *File) (uint64, error) {
	mappings, err := p.mappings()
	if err != nil {
		return 0, err
	}
	for _, m := range executables(mappings) {
		if !p.maps(m, file) {
			continue
		}
		for _, s := range f.image.segments {
			if s.kind == elf.PT_LOAD && s.flags&elf.PF_X != 0 && m.overlaps(s) {
				return m.start - m.offset + s.offset - s.address, nil
			}
		}
	}
	return 0, fmt.Errorf("process %d: %w: no executable segment of %s is mapped", p.PID, ErrFormat, file.Name)
}

// writable returns the address of a part of a file in a private, writable mapping. The kernel finds
// a semaphore to raise by the same rule (kernel/events/uprobes.c, valid_ref_ctr_vma). The load bias
// is not needed, as the mapping contains its file offset.
func (p Process) writable(mappings []mapping, file MappedFile, offset, size uint64) (address uint64, ok bool) {
	same := make(map[[2]uint64]bool) // by the numbers in maps
	for _, m := range mappings {
		if !m.write || !m.private || !m.holds(offset, size) {
			continue
		}
		key := [2]uint64{m.device, m.inode}
		if _, known := same[key]; !known {
			same[key] = p.maps(m, file)
		}
		if same[key] {
			return m.start + (offset - m.offset), true
		}
	}
	return 0, false
}

// maps reports whether a mapping is of a file. Some file systems (btrfs, overlayfs) show different
// device numbers in maps and in stat(2). So if the numbers differ, maps examines the mapped file
// itself, which needs more privileges.
func (p Process) maps(m mapping, file MappedFile) bool {
	if m.device == file.Device && m.inode == file.Inode {
		return true
	}
	info, err := os.Stat(p.path("map_files", m.text))
	if err != nil {
		return false
	}
	device, inode := Identity(info)
	return device == file.Device && inode == file.Inode
}
