package samecode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/usdt"
)

// small returns a small executable, and a code that it has: all of its exported functions, and a
// function to which a distance leads.
func small(t testing.TB) (data []byte, code Code) {
	t.Helper()
	data, err := os.ReadFile("testdata/small")
	if err != nil {
		t.Fatal(err)
	}
	f, err := usdt.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	x, err := newExecutable(f)
	if err != nil {
		t.Fatal(err)
	}
	code = Code{ID: Codes()[0].ID, Machine: f.Machine()}
	outer := x.byName["outer"]
	size := func(address uint64) int {
		i, _ := slices.BinarySearch(x.starts, address)
		return int(x.starts[i+1] - address)
	}
	text, ok := x.bytes(outer, size(outer))
	if !ok {
		t.Fatal("no function outer")
	}
	call := uint32(bytes.IndexByte(text, 0xe8) + 1)
	inner := outer + uint64(call) + 4 + distance(text[call:])
	code.Functions = []Function{
		{Name: "outer", Symbol: "outer", Address: outer, Size: len(text), Fields: []uint32{call << 3}},
		{Name: "inner", From: 0, Field: 0, Address: inner, Size: size(inner)},
	}
	code.Variables = []Variable{{"inner", 0, 0}}
	if err := code.Measure(f, map[int]bool{0: true, 1: true}); err != nil {
		t.Fatal(err)
	}
	return data, code
}

// The small executable has its own code. With a change in one of the functions it has not.
func TestSmall(t *testing.T) {
	data, code := small(t)
	compare := func(data []byte) (Match, error) {
		f, err := usdt.NewFile(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		x, err := newExecutable(f)
		if err != nil {
			t.Fatal(err)
		}
		at, _, err := code.find(x)
		if err != nil {
			return Match{}, err
		}
		return Match{variables: code.variables(at)}, nil
	}
	match, err := compare(data)
	if err != nil {
		t.Fatal(err)
	}
	if address, ok := match.Variable("inner"); !ok || address != code.Functions[1].Address {
		t.Errorf("variable at %#x, want %#x", address, code.Functions[1].Address)
	}
	for _, f := range code.Functions {
		changed := bytes.Clone(data)
		file, err := usdt.NewFile(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		offset, err := file.Offset(f.Address)
		if err != nil {
			t.Fatal(err)
		}
		changed[offset]++
		different := (*DifferentError)(nil)
		if _, err := compare(changed); !errors.As(err, &different) || different.Function != f.Name || !strings.Contains(err.Error(), "has other code") {
			t.Errorf("%s: error %v", f.Name, err)
		}
	}
}

// Whatever a file contains, it is recognised or refused.
func FuzzRecognise(f *testing.F) {
	raw, code := small(f)
	f.Add(uint16(0), uint64(0))
	f.Add(uint16(24), uint64(1<<40))
	f.Fuzz(func(t *testing.T, position uint16, number uint64) {
		data := bytes.Clone(raw)
		if int(position)+8 <= len(data) {
			binary.LittleEndian.PutUint64(data[position:], number)
		}
		file, err := usdt.NewFile(bytes.NewReader(data))
		if err != nil {
			return
		}
		x, err := newExecutable(file)
		if err != nil {
			if !errors.Is(err, usdt.ErrFormat) {
				t.Errorf("error of no kind: %v", err)
			}
			return
		}
		if _, equal, err := code.find(x); err != nil && !errors.Is(err, ErrNone) || equal > len(code.Functions) {
			t.Errorf("%d equal functions, error %v", equal, err)
		}
	})
}
