package usdt

import (
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// A File is an ELF executable or shared object whose probes can be read. Its
// methods may be called from several goroutines at once.
type File struct {
	image *image
	file  *os.File // nil if the file is read from elsewhere
	name  string
	debug *File // has symbols that this file lacks, see [File.UseSymbols]; nil for none

	disbelieved error // see [File.Disbelieved]
}

// Open opens the ELF file at path, which must be a regular file; see NewFile. Open refuses a pipe
// at once, without waiting for a writer. The caller must Close the file.
func Open(path string) (*File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	return OpenFile(file)
}

// Open opens the mapped file as [Open] does, and verifies it. The error wraps ErrReplaced if the
// process runs another file by now, and ErrServed if another user may keep the file from being read.
// While the kernel attaches to such a file it might not even end this process.
func (m MappedFile) Open() (*File, error) {
	file, err := m.open()
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, err
	}
	if device, inode := Identity(info); device != m.Device || inode != m.Inode {
		file.Close()
		return nil, fmt.Errorf("%s: %w", m.Name, ErrReplaced)
	}
	f, err := OpenFile(file)
	if err != nil {
		return nil, err
	}
	f.name = m.Name
	return f, nil
}

// OpenFile is like [Open] for an open file. The result takes over the file; if there is an error,
// OpenFile closes it.
func OpenFile(file *os.File) (*File, error) {
	err := regular(file)
	var opened *File
	if err == nil {
		opened, err = NewFile(file)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", file.Name(), err)
	}
	opened.file, opened.name = file, file.Name()
	return opened, nil
}

// NewFile reads the headers of an ELF file: 64-bit, little-endian, x86-64 or arm64, an executable
// (position-independent or not) or a shared object. The error is ErrMachine for ELF files of other
// machines, and ErrFormat for files that are not ELF, are malformed, or exceed the package's
// limits.
//
// Other methods read the rest of the file when they need it, so r must stay usable.
func NewFile(r io.ReaderAt) (*File, error) {
	img, err := readImage(r)
	if err != nil {
		return nil, err
	}
	return &File{image: img}, nil
}

// Close closes the file unless it came from NewFile.
func (f *File) Close() error {
	var err error
	if f.debug != nil {
		err = f.debug.Close()
	}
	if f.file == nil {
		return err
	}
	return errors.Join(err, f.file.Close())
}

// Path returns a path that leads to this file until it is closed, even if the file is renamed or
// deleted. It is "" for a file from NewFile.
func (f *File) Path() string {
	if f.file == nil {
		return ""
	}
	return "/proc/self/fd/" + strconv.Itoa(int(f.file.Fd()))
}

// Name returns the name of the file, for display: the name by which it was opened, or by which the
// process that maps it knows it.
func (f *File) Name() string { return f.name }

// Stat describes the file. The error is os.ErrInvalid for a file that came from NewFile.
func (f *File) Stat() (os.FileInfo, error) {
	if f.file == nil {
		return nil, os.ErrInvalid
	}
	return f.file.Stat()
}

// Again returns the same file with a descriptor of its own, which the caller closes too.
// Nothing is read for it. The result has no file with further symbols.
func (f *File) Again() (*File, error) {
	if f.file == nil {
		return nil, os.ErrInvalid
	}
	fd, err := unix.FcntlInt(f.file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	again := &File{file: os.NewFile(uintptr(fd), f.file.Name()), name: f.name}
	image := *f.image
	image.r = again.file
	again.image = &image
	return again, nil
}

// Machine returns the machine of the file: elf.EM_X86_64 or elf.EM_AARCH64.
func (f *File) Machine() elf.Machine { return f.image.machine }

// BuildID returns the identification that the linker gave the file, in lower-case hexadecimal, or
// "" if there is none.
func (f *File) BuildID() string {
	areas := f.image.noteSegments()
	for _, s := range f.image.sections {
		if s.kind == elf.SHT_NOTE && s.check(maxNoteBytes) == nil {
			areas = append(areas, s)
		}
	}
	reader := newNoteReader(f.image.r)
	for _, area := range areas {
		if id := findBuildID(reader, area); id != "" {
			return id
		}
	}
	return ""
}

// findBuildID returns the build ID in one area of notes, or "".
func findBuildID(reader *noteReader, area section) string {
	if err := reader.enter(area.offset, area.size, area.align); err != nil {
		return ""
	}
	const maxBuildID = 64 // bytes; linkers write 8 to 32
	for {
		n, err := reader.next()
		if err != nil {
			return ""
		}
		if n.name == gnuName && n.kind == buildIDType && len(n.descriptor) <= maxBuildID {
			return hex.EncodeToString(n.descriptor)
		}
	}
}

// Symbol returns the address, as linked, and the file offset of a function. The
// symbol is looked up in .symtab, which stripping removes, then in .dynsym, which
// has the exported functions, and then in the file of [File.UseSymbols]. Of several
// definitions the global one counts.
//
// A breakpoint within an instruction crashes the process that reaches it. So does a probe of a return
// where the return address is not in its place. So the other file is believed only if the sections of this
// file for unwinding have code of the same size at the address, which begins with the frame of a function that
// was just called.
//
// The error is ErrNoSymbol where the name is not defined, or defined more than
// once with different addresses, or where the other file is not believed. It is ErrFormat where a
// symbol table is malformed or the symbol is not in an executable segment of the file.
func (f *File) Symbol(name string) (address, offset uint64, err error) {
	address, size, apart, err := f.symbolAddress(name)
	if err == nil && apart {
		err = f.checkStart(name, address, size)
	}
	if err == nil {
		offset, err = f.image.fileOffset(address, 1, true)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("symbol %q: %w", name, err)
	}
	return address, offset, nil
}

// Variable returns the address, as linked, of a variable, which need not be in the
// file: uninitialised ones are not. It is looked up as [File.Symbol] does, with the
// same errors.
func (f *File) Variable(name string) (address uint64, err error) {
	if address, _, _, err = f.symbolAddress(name); err != nil {
		return 0, fmt.Errorf("symbol %q: %w", name, err)
	}
	return address, nil
}

// checkStart returns an error that wraps ErrNoSymbol unless a function of this size begins at an address,
// which the file of [File.UseSymbols] has for a name.
func (f *File) checkStart(name string, address, size uint64) error {
	err := f.image.checkEntry(address, size)
	if err == nil {
		return nil
	}
	if f.disbelieved == nil {
		f.disbelieved = fmt.Errorf("%s at %#x: %w", name, address, err)
	}
	return fmt.Errorf("%w: by %s it is at %#x: %w", ErrNoSymbol, f.SymbolsFrom(), address, err)
}

// Disbelieved returns why the first address in the file of [File.UseSymbols] was not believed, and nil if
// all that were looked up until now were believed.
func (f *File) Disbelieved() error { return f.disbelieved }

// Function returns the name of the function that contains an address, as linked. It uses the
// functions of .symtab, and those of .dynsym if .symtab has none at the address, and then those of
// the file of [File.UseSymbols].
//
// The error is ErrNoSymbol if there is no function at the address, or if there are functions with
// several names. It is ErrFormat if a symbol table is malformed.
func (f *File) Function(address uint64) (string, error) {
	for _, kind := range []elf.SectionType{elf.SHT_SYMTAB, elf.SHT_DYNSYM} {
		i := slices.IndexFunc(f.image.sections, func(s section) bool { return s.kind == kind })
		if i < 0 {
			continue
		}
		name, err := f.image.function(f.image.sections[i], address)
		if err != nil {
			return "", fmt.Errorf("function at %#x: symbol table %q: %w", address, f.image.sections[i].name, err)
		}
		if name != "" {
			return name, nil
		}
	}
	if f.debug != nil {
		return f.debug.Function(address)
	}
	return "", fmt.Errorf("function at %#x: %w", address, ErrNoSymbol)
}

// symbolAddress returns the address that a name is linked at, and the size of what is there. apart reports
// that they come from the file of [File.UseSymbols].
func (f *File) symbolAddress(name string) (address, size uint64, apart bool, err error) {
	found, lookupErr := f.image.lookup(map[string]bool{name: true})
	address, size, err = found[name].exported()
	if err != nil && lookupErr != nil {
		err = lookupErr
	}
	if errors.Is(err, ErrNoSymbol) && f.debug != nil {
		address, size, _, err = f.debug.symbolAddress(name)
		return address, size, true, err
	}
	return address, size, false, err
}

// Probes returns the probes of a provider or, if provider is "", of all
// providers, in the order in which the notes first name them. A name that the
// notes give several times is one probe with several sites.
//
// The error is ErrNoProbes if the file has no probe of any provider. If it has only probes of other
// providers, the result is empty and there is no error. The error is ErrFormat if a note is
// malformed or points outside the file's segments; of other providers' notes, only the names are
// checked. An argument that cannot be used is no error: see ArgUnknown, and ParseArgs for the reason.
func (f *File) Probes(provider string) ([]Probe, error) {
	notes, err := f.image.stapsdtNotes()
	if err != nil {
		return nil, err
	}
	if len(notes) == 0 {
		return nil, ErrNoProbes
	}
	var (
		group    grouping
		operands [][]operand
	)
	base := f.image.base()
	for i, n := range notes {
		if provider != "" && n.provider != provider {
			continue
		}
		site, ops, err := f.image.site(n, base)
		if err != nil {
			return nil, fmt.Errorf("probe note %d (%s:%s): %w", i, n.provider, n.name, err)
		}
		group.add(n, site)
		operands = append(operands, ops)
	}
	addresses := f.image.symbolAddresses(operands)
	for i, place := range group.places {
		site := &group.probes[place.probe].Sites[place.site]
		site.Args = f.image.resolve(operands[i], site.Address, addresses)
	}
	return group.probes, nil
}

// site makes a site from a note, without its arguments. It returns these as operands.
func (img *image) site(n stapsdtNote, base uint64) (Site, []operand, error) {
	drift := n.drift(base)
	site := Site{Address: n.location + drift}
	var err error
	if site.Offset, err = img.fileOffset(site.Address, 1, true); err != nil {
		return Site{}, nil, fmt.Errorf("location: %w", err)
	}
	if n.semaphore != 0 {
		// The counter is data; the kernel takes only writable mappings for it
		// (kernel/events/uprobes.c, valid_ref_ctr_vma).
		const counterSize = 2
		if site.Semaphore, err = img.fileOffset(n.semaphore+drift, counterSize, false); err != nil {
			return Site{}, nil, fmt.Errorf("semaphore: %w", err)
		}
	}
	operands, err := parseOperands(img.machine, n.args)
	if err != nil {
		return Site{}, nil, fmt.Errorf("arguments: %w", err)
	}
	return site, operands, nil
}

// symbolAddresses looks up the symbols of operands. Without a usable symbol table the result is
// empty, and the arguments become ArgUnknown.
func (img *image) symbolAddresses(operands [][]operand) map[string]uint64 {
	names := make(map[string]bool)
	for _, site := range operands {
		for _, o := range site {
			if o.symbol != "" {
				names[o.symbol] = true
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	found, _ := img.lookup(names)
	addresses := make(map[string]uint64)
	for name, d := range found {
		if address, ok := d.only(); ok {
			addresses[name] = address
		}
	}
	return addresses
}

// resolve makes arguments from a site's operands.
func (img *image) resolve(operands []operand, site uint64, addresses map[string]uint64) []Arg {
	var args []Arg
	for _, o := range operands {
		arg := o.arg
		if o.symbol != "" {
			arg = unknown(arg.Spec)
			if address, ok := addresses[o.symbol]; ok {
				arg = o.resolve(address, site, img.kind != elf.ET_EXEC)
			}
		}
		args = append(args, arg)
	}
	return args
}

// A grouping collects sites by provider and name.
type grouping struct {
	probes []Probe
	index  map[[2]string]int
	places []place // places of the sites, in the order in which they were added
}

// A place is the position of a site in a grouping.
type place struct{ probe, site int }

func (g *grouping) add(n stapsdtNote, site Site) {
	key := [2]string{n.provider, n.name}
	i, ok := g.index[key]
	if !ok {
		if g.index == nil {
			g.index = make(map[[2]string]int)
		}
		i = len(g.probes)
		g.index[key] = i
		g.probes = append(g.probes, Probe{Provider: n.provider, Name: n.name})
	}
	g.places = append(g.places, place{i, len(g.probes[i].Sites)})
	g.probes[i].Sites = append(g.probes[i].Sites, site)
}

// regular returns an error unless an open file is a regular one.
func regular(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: not a regular file", ErrFormat)
	}
	return nil
}
