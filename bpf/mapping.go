package bpf

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// mappings are the kernel's maps that are mapped into our memory, so that reading and writing them
// needs no system call. Words are read and written atomically.
type mappings struct {
	cells    []uint64
	outcomes []kernelOutcome
	clock    *kernelClock
	slotPIDs []uint64 // by slot, 0: no VM
	worsts   []kernelWorst

	rooms, queueRooms []kernelRoom

	seenNames []kernelSeenName
	namesSeen []uint64 // by slot
	hashes    []uint64

	records []kernelRecord // of the log; if there is no log, one that is never written
	heads   []kernelLogHead

	all [][]byte
}

func mapMaps(maps *kernelMaps) (*mappings, error) {
	m := new(mappings)
	var errs [12]error
	m.cells, errs[0] = mapped[uint64](m, maps.Cells)
	m.outcomes, errs[1] = mapped[kernelOutcome](m, maps.Outcomes)
	m.slotPIDs, errs[2] = mapped[uint64](m, maps.SlotPids)
	m.worsts, errs[3] = mapped[kernelWorst](m, maps.Worsts)
	clocks, err := mapped[kernelClock](m, maps.Clocks)
	errs[4] = err
	m.seenNames, errs[5] = mapped[kernelSeenName](m, maps.SeenNames)
	m.namesSeen, errs[6] = mapped[uint64](m, maps.NamesSeen)
	m.records, errs[7] = mapped[kernelRecord](m, maps.LogRecords)
	m.heads, errs[8] = mapped[kernelLogHead](m, maps.LogHeads)
	m.hashes, errs[9] = mapped[uint64](m, maps.Hashes)
	m.rooms, errs[10] = mapped[kernelRoom](m, maps.Rooms)
	m.queueRooms, errs[11] = mapped[kernelRoom](m, maps.QueueRooms)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, errors.Join(err, m.close())
	}
	m.clock = &clocks[0]
	return m, nil
}

// mapped returns the values of a map. T is their type, of whole words.
func mapped[T any](m *mappings, kernel *ebpf.Map) ([]T, error) {
	n := int(kernel.MaxEntries())
	size := n * int(unsafe.Sizeof(*new(T)))
	b, err := unix.Mmap(kernel.FD(), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s into memory: %w", kernel, err)
	}
	m.all = append(m.all, b)
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n), nil
}

func (m *mappings) close() error {
	if m == nil {
		return nil
	}
	var errs []error
	for _, b := range m.all {
		errs = append(errs, unix.Munmap(b))
	}
	m.all = nil
	return errors.Join(errs...)
}
