package dtrace

// A TermForm is the encoding of a VM's own pids in its terms: see erts/emulator/beam/erl_term.h and
// erl_ptab.h.
type TermForm uint8

// The forms of pids in terms.
const (
	TermsUnknown  TermForm = iota // none can be read
	TermsByNumber                 // up to OTP 25: 15 bits of the number, above them 13 of the serial
	TermsByPlace                  // since OTP 26: a place in the VM's process table, from which the number follows
)

// TermsOn returns the form that terms have on a release of Erlang/OTP that the catalogue
// knows, otherwise TermsUnknown.
func TermsOn(release int) TermForm {
	const byPlace = 26
	switch {
	case !KnownRelease(release):
		return TermsUnknown
	case release < byPlace:
		return TermsByNumber
	}
	return TermsByPlace
}

// Terms describes how to read the pids in the terms of one VM. The zero value can read none.
type Terms struct {
	Form TermForm

	// For TermsByPlace, TableBits is the binary logarithm of the number of places in the process
	// table, at most 27, and InBits that of the number of places in a cache line of the table, at
	// most TableBits.
	TableBits, InBits uint8
}

// The lowest bits of a term are its tag. Above them, a local pid has its data: the number, then the
// serial.
const (
	termTagBits = 4
	termTagPID  = 3
)

// numberBits returns the number of bits for the number in a pid's data, and for the serial above
// it.
func (t Terms) numberBits() (number, serial int) {
	if t.Form == TermsByPlace {
		return 28, 32
	}
	return 15, 13
}

// PID returns the number and the serial of the pid <0.number.serial> in a term. ok is false if the
// term is no pid of this node, or cannot be read.
func (t Terms) PID(term uint64) (number, serial uint32, ok bool) {
	data := term >> termTagBits
	numberBits, serialBits := t.numberBits()
	switch {
	case term&(1<<termTagBits-1) != termTagPID, t.Form == TermsUnknown:
		return 0, 0, false
	case t.Form == TermsByPlace: // erts_ptab_pixdata2data
		place := data & (1<<t.TableBits - 1)
		in := place & (1<<t.InBits - 1)
		data = data>>t.TableBits<<t.TableBits | place>>t.InBits | in<<(t.TableBits-t.InBits)
	}
	return uint32(data & (1<<numberBits - 1)), uint32(data >> numberBits & (1<<serialBits - 1)), true
}

// Place returns the place in the process table of the process that a term is the pid of, of
// TermsByPlace.
func (t Terms) Place(term uint64) uint32 {
	return uint32(term >> termTagBits & (1<<t.TableBits - 1))
}
