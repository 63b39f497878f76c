package procname

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/dtrace"
)

// tableByPlace draws a process table of OTP 26 or later.
func tableByPlace(t *rapid.T) table {
	lines := rapid.Uint32Range(0, 24).Draw(t, "bits of lines")
	in := rapid.Uint32Range(0, 3).Draw(t, "bits within a line")
	return table{
		max:      1 << (lines + in),
		lineMask: 1<<lines - 1, lineShift: in,
		inMask: 1<<in - 1, inShift: lines,
		terms: dtrace.Terms{Form: dtrace.TermsByPlace, TableBits: uint8(lines + in), InBits: uint8(in)},
	}
}

// A process has one identifier, which maps back to it, and processes with successive numbers have
// different places.
func TestIdentifiers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := tableByPlace(t)
		if rapid.Bool().Draw(t, "old") {
			table.terms = dtrace.Terms{Form: dtrace.TermsByNumber}
		} else if !table.regular() {
			t.Fatal("not regular")
		}
		number, serial := rapid.Uint32Range(0, 1<<30).Draw(t, "number"), rapid.Uint32().Draw(t, "serial")
		id, place, ok := table.identifier(number, serial)
		numberMost, serialMost := uint32(1<<numberBits), uint32(1<<(pidBits-numberBits))
		if table.terms.Form == dtrace.TermsByPlace {
			numberMost, serialMost = 1<<longNumberBits, 1<<32-1
		}
		if want := number < numberMost && (serial < serialMost || table.terms.Form == dtrace.TermsByPlace); ok != want {
			t.Fatalf("<0.%d.%d>: %v", number, serial, ok)
		}
		if !ok {
			return
		}
		if n, s, ok := table.pid(term(id)); !ok || n != number || s != serial {
			t.Errorf("<0.%d.%d> is %#x, which is <0.%d.%d>", number, serial, id, n, s)
		}
		if table.terms.Form == dtrace.TermsByPlace && table.terms.Place(id) != place {
			t.Errorf("%#x is in place %d, not %d", id, table.terms.Place(id), place)
		}
		if _, next, ok := table.identifier(number+1, serial); ok && table.max > 1 && next == place {
			t.Errorf("%d and the next have place %d", number, place)
		}
	})
}

// A table of another order is refused.
func TestIrregularTables(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := tableByPlace(t)
		for _, word := range []*uint32{&table.max, &table.lineMask, &table.lineShift, &table.inMask, &table.inShift} {
			was := *word
			if *word = rapid.Uint32().Draw(t, "word"); *word != was && table.regular() {
				t.Errorf("believed: %+v", table)
			}
			*word = was
		}
	})
}
