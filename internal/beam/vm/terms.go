package vm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/usdt"
)

var (
	// ErrTerms means that it is unknown how a VM's terms contain the pids of its processes.
	ErrTerms = errors.New("how the terms of this VM contain pids is not known")

	// ErrStarting means that a VM has not started far enough.
	ErrStarting = errors.New("the VM is starting")
)

// TermTables describes how the terms of VMs with one executable contain pids, and where the
// necessary data is in each of these VMs.
type TermTables struct {
	Form dtrace.TermForm

	// Processes and Ports are for dtrace.TermsByPlace: the linked addresses of the VM's data
	// about its tables of processes and ports. They begin with the member max of
	// ErtsPTabReadOnlyData, see erts/emulator/beam/erl_ptab.h.
	Processes, Ports uint64

	// Atoms is the address, as linked, of the VM's table of atoms, 0 if it is unknown.
	Atoms uint64
}

// Offsets of the members tab and max in struct ErtsPTab since OTP 26. They are valid for the
// releases in the catalogue, and the data that is read is checked.
const (
	tableTab = 0xc0
	tableMax = 0xd0
)

// termTables reads from an executable how terms contain pids. The error wraps [ErrTerms].
func termTables(f *usdt.File, release int) (TermTables, error) {
	t := TermTables{Form: dtrace.TermsOn(release)}
	if atoms, err := f.Variable("erts_atom_table"); err == nil {
		t.Atoms = atoms
	}
	switch t.Form {
	case dtrace.TermsUnknown:
		return t, fmt.Errorf("%w: it is %s", ErrTerms, dtrace.ReleaseName(release))
	case dtrace.TermsByNumber:
		return t, nil
	}
	for _, of := range []struct {
		name    string
		address *uint64
	}{{"erts_proc", &t.Processes}, {"erts_port", &t.Ports}} {
		table, err := f.Variable(of.name)
		if err != nil {
			return TermTables{}, fmt.Errorf("%w: %w", ErrTerms, err)
		}
		*of.address = table + tableMax
	}
	return t, nil
}

// Terms returns the form of pids in the VM's terms, from its executable or, since OTP 26, from
// its memory. The error wraps [ErrTerms], and also [ErrStarting] if the form may be known later.
func (v VM) Terms() (dtrace.Terms, error) {
	f, err := v.Open(context.Background())
	if err != nil {
		return dtrace.Terms{}, fmt.Errorf("pid %d: %w: %w", v.PID(), ErrTerms, err)
	}
	defer f.Close()
	return v.termsIn(f)
}

// termsIn is Terms for an open executable.
func (v VM) termsIn(f *usdt.File) (dtrace.Terms, error) {
	terms, err := v.readTerms(f)
	if err != nil && !errors.Is(err, ErrTerms) {
		err = fmt.Errorf("%w: %w", ErrTerms, err)
	}
	if err != nil {
		return dtrace.Terms{}, fmt.Errorf("pid %d: %w", v.PID(), err)
	}
	return terms, nil
}

func (v VM) readTerms(f *usdt.File) (dtrace.Terms, error) {
	tables, err := termTables(f, releaseOf(f))
	if err != nil || tables.Form == dtrace.TermsByNumber {
		return dtrace.Terms{Form: tables.Form}, err
	}
	bias, err := v.Process.Bias(v.Exe, f)
	if err != nil {
		return dtrace.Terms{}, err
	}
	memory, err := v.Process.Memory(v.Exe)
	if err != nil {
		return dtrace.Terms{}, err
	}
	defer memory.Close()
	if _, err := readTable(memory, tables.Ports+bias); err != nil {
		return dtrace.Terms{}, fmt.Errorf("table of ports: %w", err)
	}
	terms, err := readTable(memory, tables.Processes+bias)
	if err == nil {
		err = checkProcesses(memory, tables.Processes+bias-tableMax+tableTab, terms)
	}
	if err != nil {
		return dtrace.Terms{}, fmt.Errorf("table of processes: %w", err)
	}
	return terms, nil
}

// maxTableBits is the binary logarithm of ERTS_PTAB_MAX_SIZE.
const maxTableBits = 27

// readTable reads a VM's data about a table, and checks that it is consistent. bpf/pid.bpf.h does
// the same.
func readTable(memory io.ReaderAt, address uint64) (dtrace.Terms, error) {
	var raw [40]byte
	if _, err := memory.ReadAt(raw[:], int64(address)); err != nil {
		return dtrace.Terms{}, err
	}
	if raw == [len(raw)]byte{} {
		return dtrace.Terms{}, ErrStarting
	}
	le := binary.LittleEndian
	size := uint64(le.Uint32(raw[0:]))
	inBits, lineBits := le.Uint32(raw[32:]), le.Uint32(raw[36:])
	tableBits := uint32(bits.TrailingZeros64(size))
	if tableBits > maxTableBits || inBits > tableBits || lineBits != tableBits-inBits || size != 1<<tableBits ||
		le.Uint64(raw[8:]) != size-1 || le.Uint64(raw[16:]) != 1<<lineBits-1 || le.Uint64(raw[24:]) != 1<<inBits-1 {
		return dtrace.Terms{}, errors.New("it is not where it is in other VMs of this release")
	}
	return dtrace.Terms{Form: dtrace.TermsByPlace, TableBits: uint8(tableBits), InBits: uint8(inBits)}, nil
}

// checkProcesses checks that the pids of processes lead to their places in the table. address is
// that of the pointer to the table.
func checkProcesses(memory io.ReaderAt, address uint64, terms dtrace.Terms) error {
	const most = 512
	var pointer [8]byte
	if _, err := memory.ReadAt(pointer[:], int64(address)); err != nil {
		return err
	}
	table := make([]byte, 8*min(most, 1<<terms.TableBits))
	if _, err := memory.ReadAt(table, int64(binary.LittleEndian.Uint64(pointer[:]))); err != nil {
		return err
	}
	right, wrong := 0, 0
	for place := range len(table) / 8 {
		process := binary.LittleEndian.Uint64(table[8*place:])
		var id [8]byte
		if process == 0 {
			continue
		}
		if _, err := memory.ReadAt(id[:], int64(process)); err != nil {
			continue // the process has just ended
		}
		term := binary.LittleEndian.Uint64(id[:])
		if _, _, ok := terms.PID(term); ok && terms.Place(term) == uint32(place) {
			right++
		} else {
			wrong++
		}
	}
	switch {
	case right > wrong: // processes that start or end count as neither
		return nil
	case right+wrong == 0:
		return ErrStarting
	}
	return errors.New("pids do not lead to their places in it")
}
