package dtrace

import (
	"testing"

	"pgregory.net/rapid"
)

var byNumber = Terms{Form: TermsByNumber}

// drawTerms draws the form of pids in terms.
func drawTerms(t *rapid.T) Terms {
	if rapid.Bool().Draw(t, "by number") {
		return byNumber
	}
	bits := rapid.Uint8Range(0, 27).Draw(t, "table bits")
	return Terms{Form: TermsByPlace, TableBits: bits, InBits: rapid.Uint8Range(0, bits).Draw(t, "in bits")}
}

// pidTerm returns the term of <0.number.serial> as the VM makes it: by erts_ptab_make_id and, for
// places, by erts_ptab_data2pix. Identifiers are those of the VM.
func pidTerm(terms Terms, number, serial uint64) uint64 {
	if terms.Form == TermsByNumber {
		const place = 4711 // in the upper half, and independent of the number
		return place<<32 | serial<<(15+4) | number<<4 | 3
	}
	n := serial<<28 | number
	pixCliShift := terms.TableBits - terms.InBits
	pixClMask, pixCliMask := uint64(1)<<pixCliShift-1, uint64(1)<<terms.InBits-1
	pixMask := uint64(1)<<terms.TableBits - 1
	pix := (n & pixClMask) << terms.InBits
	pix += n >> pixCliShift & pixCliMask
	return (n&^pixMask|pix)<<4 | 3
}

// Terms that are made as in the VM are decoded to the same number and serial.
func TestTerms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		terms := drawTerms(t)
		numberBits, serialBits := terms.numberBits()
		number := rapid.Uint64Max(1<<numberBits-1).Draw(t, "number")
		serial := rapid.Uint64Max(1<<serialBits-1).Draw(t, "serial")
		term := pidTerm(terms, number, serial)
		n, s, ok := terms.PID(term)
		if !ok || uint64(n) != number || uint64(s) != serial {
			t.Fatalf("%#x is <0.%d.%d>, %v, want <0.%d.%d>", term, n, s, ok, number, serial)
		}
		if _, _, ok := terms.PID(term&^0xf | 0x7); ok {
			t.Fatal("a port is a pid")
		}
		if _, _, ok := (Terms{}).PID(term); ok {
			t.Fatal("read without knowing how")
		}
	})
}

// Terms that were observed in VMs with process tables of these sizes.
func TestObservedTerms(t *testing.T) {
	for _, test := range []struct {
		bits           uint8
		number, serial uint32
		data           uint64
	}{
		{20, 83, 0, 664},
		{20, 100001, 0, 800008},
		{23, 2000001, 0, 7611401},
	} {
		terms := Terms{Form: TermsByPlace, TableBits: test.bits, InBits: 3}
		n, s, ok := terms.PID(test.data<<4 | 3)
		if !ok || n != test.number || s != test.serial {
			t.Errorf("%d of %d bits: <0.%d.%d>, want <0.%d.%d>", test.data, test.bits, n, s, test.number, test.serial)
		}
	}
}
