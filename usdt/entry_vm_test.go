package usdt_test

import (
	"bufio"
	"bytes"
	"debug/elf"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
	"github.com/beamscope/beamscope/usdt"
)

// A piece is the code that one record of .eh_frame describes.
type piece struct{ start, size uint64 }

// A reading is what readelf says about frames.
type reading struct {
	entries map[piece]bool  // true if the code begins with the frame of a called function
	common  map[string]bool // likewise, of common records by position
	columns []string        // of the current table
	row     func(bool)      // takes the first row of the current table, nil behind it
}

// readFrames has readelf read the frames of an executable.
func readFrames(t *testing.T, path string) map[piece]bool {
	t.Helper()
	vmtest.NeedProgram(t, "readelf")
	out, err := exec.Command("readelf", "--debug-dump=frames-interp", "--wide", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	r := reading{entries: make(map[piece]bool), common: make(map[string]bool)}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		if err := r.line(strings.Fields(lines.Text())); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
	}
	return r.entries
}

// line reads a line. A record is a line with its position, and a table of its rules. readelf omits the table
// if it is the same as that of the common record.
func (r *reading) line(words []string) error {
	switch {
	case len(words) > 3 && words[3] == "CIE":
		r.row = func(entry bool) { r.common[words[0]] = entry }
	case len(words) > 5 && words[3] == "FDE":
		from, to, _ := strings.Cut(strings.TrimPrefix(words[5], "pc="), "..")
		start, err := strconv.ParseUint(from, 16, 64)
		if err != nil {
			return err
		}
		end, err := strconv.ParseUint(to, 16, 64)
		if err != nil {
			return err
		}
		p := piece{start, end - start}
		r.row = func(entry bool) { r.entries[p] = entry }
		r.entries[p] = r.common[strings.TrimPrefix(words[4], "cie=")]
	case len(words) > 1 && words[0] == "LOC":
		r.columns = words[1:]
	case len(words) > 1 && r.row != nil:
		r.row(called(r.columns, words[1:]))
		r.row = nil
	}
	return nil
}

// called reports whether the rules of a row are those of a function that was just called.
func called(columns, rules []string) bool {
	rule := make(map[string]string)
	for i, column := range columns {
		rule[column] = rules[i]
	}
	ok := rule["CFA"] == "rsp+8" && rule["ra"] == "c-8" ||
		rule["CFA"] == "sp+0" && (rule["ra"] == "" || rule["ra"] == "u")
	for column, r := range rule {
		ok = ok && (column == "CFA" || column == "ra" || r == "u")
	}
	return ok
}

// functionsOf returns the functions of an executable's full symbol table.
func functionsOf(t *testing.T, path string) (found []elf.Symbol) {
	t.Helper()
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	all, err := file.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF {
			found = append(found, s)
		}
	}
	return found
}

// In real VMs, the functions that are accepted are those that readelf says are entered where they begin,
// among them all that stand in for probes. Of the parts that the compiler has moved, a few begin without a
// frame, so that their return address is in its place too. All others are refused.
func TestEntriesOfVMs(t *testing.T) {
	for _, release := range dtrace.Releases() {
		t.Run(fmt.Sprintf("OTP %d", release), func(t *testing.T) {
			path := vmtest.Release(t, release).Emulator()
			f, err := usdt.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := f.Fits(f); err != nil {
				t.Errorf("its own symbols do not fit: %v", err)
			}
			entries, accepted := readFrames(t, path), make(map[string]bool)
			parts, entered := 0, 0 // of functions
			for _, s := range functionsOf(t, path) {
				err := f.CheckEntry(s.Value, s.Size)
				accepted[s.Name] = err == nil
				if want := entries[piece{s.Value, s.Size}] && f.SectionAt(s.Value) == ".text"; want != (err == nil) {
					t.Errorf("%s at %#x: %v; entered there, according to readelf: %t", s.Name, s.Value, err, want)
				}
				if !strings.Contains(s.Name, ".cold") {
					continue
				}
				if parts++; err == nil {
					entered++
				}
			}
			for _, p := range dtrace.Catalogue() {
				if p.Function == nil {
					continue
				}
				name := p.Function.SymbolOn(release)
				if ok, found := accepted[name]; found && !ok || p.Function.Anywhere && !ok {
					t.Errorf("%s, which stands in for %s, is not accepted", name, p.Name)
				}
			}
			if parts == 0 || entered > parts/4 {
				t.Errorf("%d of %d moved parts are accepted", entered, parts)
			}
			t.Logf("%d functions; %d are parts of others, and %d of the parts begin without a frame", len(accepted), parts, entered)
		})
	}
}

// Of a stripped executable of a distribution, each piece of code is accepted if readelf says that it is
// entered where it begins.
func TestEntriesWithoutSymbols(t *testing.T) {
	for _, release := range vmtest.StockReleases() {
		t.Run(fmt.Sprintf("OTP %d", release), func(t *testing.T) {
			path := vmtest.StockEmulator(t, release)
			f, err := usdt.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			accepted := 0
			for p, called := range readFrames(t, path) {
				err := f.CheckEntry(p.start, p.size)
				if want := called && f.SectionAt(p.start) == ".text"; want != (err == nil) {
					t.Errorf("%#x: %v; entered there, according to readelf: %t", p.start, err, want)
				}
				if err == nil {
					accepted++
				}
			}
			if accepted == 0 {
				t.Error("nothing is accepted")
			}
		})
	}
}
