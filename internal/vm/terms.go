package vm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"os"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/usdt"
)

var (
	// ErrTerms says that it is not known how a VM's terms hold the pids of its processes.
	ErrTerms = errors.New("how the terms of this VM hold pids is not known")

	// ErrStarting says that a VM has not started far enough.
	ErrStarting = errors.New("the VM is starting")
)

// TermTables says how the terms of VMs that run one executable hold pids, and where each of
// these VMs has what else has to be known.
type TermTables struct {
	Form dtrace.TermForm

	// Of dtrace.TermsByPlace, the addresses, as linked, of what the VM knows of its tables of
	// processes and ports: the member max of ErtsPTabReadOnlyData, and those that follow, see
	// erts/emulator/beam/erl_ptab.h.
	Processes, Ports uint64
}

// Of struct ErtsPTab since OTP 26: where the members tab and max are. The VMs of the
// releases that the catalogue knows have them there; what is read is checked.
const (
	tableTab = 0xc0
	tableMax = 0xd0
)

// termTables reads how terms hold pids from an executable. The error wraps [ErrTerms].
func termTables(f *usdt.File, release int) (TermTables, error) {
	t := TermTables{Form: dtrace.TermsOn(release)}
	switch t.Form {
	case dtrace.TermsUnknown:
		return t, fmt.Errorf("%w: it is %s", ErrTerms, dtrace.ReleaseName(release))
	case dtrace.TermsByNumber:
		return t, nil
	}
	for name, address := range map[string]*uint64{"erts_proc": &t.Processes, "erts_port": &t.Ports} {
		table, err := f.Variable(name)
		if err != nil {
			return TermTables{}, fmt.Errorf("%w: %w", ErrTerms, err)
		}
		*address = table + tableMax
	}
	return t, nil
}

// Terms returns how to read the pids in the VM's terms, as its executable tells or, since
// OTP 26, its memory. The error wraps [ErrTerms], and [ErrStarting] where it may be known
// later.
func (v VM) Terms() (dtrace.Terms, error) {
	f, err := v.Exe.Open()
	if err != nil {
		return dtrace.Terms{}, fmt.Errorf("pid %d: %w: %w", v.PID(), ErrTerms, err)
	}
	defer f.Close()
	return v.termsIn(f)
}

// termsIn is Terms of the executable that is open.
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
	memory, err := v.Process.Memory()
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

// readTable reads what a VM knows of a table, and checks that all of it fits together.
// bpf/pid.bpf.h does the same.
func readTable(memory *os.File, address uint64) (dtrace.Terms, error) {
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

// checkProcesses checks that the pids of processes lead to their places in the table. The
// address is that of the pointer to the table.
func checkProcesses(memory *os.File, address uint64, terms dtrace.Terms) error {
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
			continue // it has just gone
		}
		term := binary.LittleEndian.Uint64(id[:])
		if _, _, ok := terms.PID(term); ok && terms.Place(term) == uint32(place) {
			right++
		} else {
			wrong++
		}
	}
	switch {
	case right > wrong: // those that come or go are neither
		return nil
	case right+wrong == 0:
		return ErrStarting
	}
	return errors.New("pids do not lead to their places in it")
}
