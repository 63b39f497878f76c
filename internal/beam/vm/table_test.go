package vm

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/usdt"
)

// A fakeTable contains a VM's data about a table, see readTable.
type fakeTable struct {
	Max, Unused            uint32
	Mask, LineMask, InMask uint64
	InBits, LineBits       uint32
}

func tableOf(bits, in uint8) fakeTable {
	return fakeTable{
		Max: 1 << bits, Mask: 1<<bits - 1, LineMask: 1<<(bits-in) - 1, InMask: 1<<in - 1,
		InBits: uint32(in), LineBits: uint32(bits - in),
	}
}

// memoryOf returns a file that replaces a VM's memory.
func memoryOf(t interface{ Fatal(...any) }, dir string, parts ...any) *os.File {
	f, err := os.Create(filepath.Join(dir, "memory"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		if err := binary.Write(f, binary.LittleEndian, p); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// A table is accepted if and only if all data about it is consistent.
func TestReadTable(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.Uint8Range(0, maxTableBits).Draw(t, "bits")
		in := rapid.Uint8Range(0, bits).Draw(t, "in")
		table := tableOf(bits, in)
		spoilt := rapid.Bool().Draw(t, "spoilt")
		if spoilt {
			bit := uint(rapid.IntRange(0, 31).Draw(t, "bit"))
			switch rapid.IntRange(0, 5).Draw(t, "member") {
			case 0:
				table.Max ^= 1 << bit
			case 1:
				table.Mask ^= 1 << bit
			case 2:
				table.LineMask ^= 1 << bit
			case 3:
				table.InMask ^= 1 << bit
			case 4:
				table.InBits ^= 1 << bit
			case 5:
				table.LineBits ^= 1 << bit
			}
		}
		f := memoryOf(t, dir, table)
		defer f.Close()
		got, err := readTable(f, 0)
		if spoilt != (err != nil) {
			t.Fatalf("%+v: %v", table, err)
		}
		if want := (dtrace.Terms{Form: dtrace.TermsByPlace, TableBits: bits, InBits: in}); !spoilt && got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
	})
	f := memoryOf(t, dir, fakeTable{})
	defer f.Close()
	if _, err := readTable(f, 0); !errors.Is(err, ErrStarting) {
		t.Errorf("an empty table: %v", err)
	}
	if _, err := readTable(f, 1); err == nil {
		t.Error("read beyond the end of memory")
	}
}

// Pids must lead to the places of their processes. Some processes that start or end at the moment
// are exceptions.
func TestCheckProcesses(t *testing.T) {
	terms := dtrace.Terms{Form: dtrace.TermsByPlace, TableBits: 10, InBits: 3}
	const table, processes = 8, 8 + 8<<10 // addresses
	for name, test := range map[string]struct {
		ids  []uint64 // pids of the processes in the first places
		want bool
	}{
		"right":        {[]uint64{0<<4 | 3, 1<<4 | 3, 2<<4 | 3, (1<<10+3)<<4 | 3}, true},
		"one torn":     {[]uint64{0<<4 | 3, 1<<4 | 3, 0, 3<<4 | 3}, true},
		"other places": {[]uint64{8<<4 | 3, 9<<4 | 3, 10<<4 | 3}, false},
		"no pids":      {[]uint64{0<<4 | 7, 1<<4 | 7}, false},
		"no process":   {nil, false},
	} {
		slots := make([]uint64, 1<<terms.TableBits)
		for i := range test.ids {
			slots[i] = processes + 8*uint64(i)
		}
		f := memoryOf(t, t.TempDir(), uint64(table), slots, test.ids)
		err := checkProcesses(f, 0, terms)
		if (err == nil) != test.want || errors.Is(err, ErrStarting) != (test.ids == nil) {
			t.Errorf("%s: %v", name, err)
		}
		f.Close()
	}
}

// An executable that lacks several symbols always has the same reason.
func TestTermsOfOneReason(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := usdt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 20 {
		if _, err := termTables(f, 27); !errors.Is(err, ErrTerms) || !strings.Contains(err.Error(), `"erts_proc"`) {
			t.Fatalf("error %v, want one about erts_proc", err)
		}
	}
}
