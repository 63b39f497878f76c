// Package samecode recognises builds of the Erlang VM by their machine code. What is known of one
// build, such as which functions stand in for probes and where structures have their members, holds
// for another build if the functions that this rests on have the same code. Distributions rebuild
// packages, and most updates of Erlang change nothing in the VM, or one function of it: then the new
// build has another build ID, and other addresses, but the same functions.
//
// Two functions have the same code if all of their bytes are equal, except for the distances to other
// functions and to data. These distances must lead to the same functions, and to the same variables.
// What the compiler has moved out of a function belongs to it. If a compiler inlines a function, the
// function has fewer callers, and the function with the copy is larger: the callers of functions that
// stand in for probes are compared too, and the sizes of all functions in the same source file.
// Functions and variables without an exported name are known by their place among the others.
//
// The contents of tables in the data of the executable, such as those of a switch, are not compared.
//
// The executable may come from anyone. It is not disassembled: the table says which bytes are
// distances. Its size limits the time, see package usdt.
package samecode

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/usdt"
)

// A Code is what the knowledge of one build rests on. The file known_gen.go has those of all builds
// that are recognised by their code.
type Code struct {
	ID        string // GNU build ID of the known build, see [dtrace.LookupBuild]
	Machine   elf.Machine
	Functions []Function // a function that Function.From names comes before
	Variables []Variable
	Sources   []Source
}

// A Source is a source file of functions that stand in for probes. A compiler can inline a function
// only within its source file.
type Source struct {
	Name        string // for people
	First, Last string // the first and the last exported function
	Sizes       string // digest of the sizes of all functions of the file
}

// A Function is a function of a build, or a part of one that the compiler has moved elsewhere.
type Function struct {
	Name    string // for people
	Symbol  string // exported name, or "" if From, Field and Into say where the function is
	From    int    // number of a function with a distance to this one
	Field   int    // number of that distance in From
	Into    int    // bytes from the beginning of this function to where the distance leads
	Address uint64 // in the known build, as linked
	Size    int    // in bytes

	// Fields are the distances in the code, each of four bytes that are relative to the end of their
	// instruction: eight times the offset from the beginning of the function, plus the number of bytes
	// between the distance and the end of the instruction.
	Fields []uint32

	Digest  string // of the code, in hexadecimal
	Callers string // digest of the functions that refer to this one, or "" if they do not matter

	Shows []string // structures whose members the code uses
}

// A Variable is a variable without an exported name, to which a distance leads.
type Variable struct {
	Name            string
	Function, Field int
}

// Codes returns the codes of all builds that are recognised by their code.
func Codes() []Code { return codes() }

// ErrNone means that no known build has the same code.
var ErrNone = errors.New("no known build has the same code")

// A DifferentError says how the code of an executable differs from that of the known build that is
// most like it.
type DifferentError struct {
	Function string // the first function that differs, or the name of a source file whose functions do
	Package  string // of the known build
	How      string // what differs, such as "is missing"
}

func (e *DifferentError) Error() string {
	what := "function"
	if e.How == otherSizes {
		what = "source file"
	}
	return fmt.Sprintf("the %s %s %s, compared with %s", what, e.Function, e.How, e.Package)
}

const otherSizes = "has functions of other sizes"

func (e *DifferentError) Unwrap() error { return ErrNone }

// A Match is a known build with the same code as an executable.
type Match struct {
	Build     dtrace.Build // the known build, with its places where the executable has them
	variables map[string]uint64
}

// Variable returns the address, as linked, of a variable that the executable does not export.
func (m Match) Variable(name string) (address uint64, ok bool) {
	address, ok = m.variables[name]
	return address, ok
}

// Recognise returns the known build that has the same code as an executable: of a release of
// Erlang/OTP, or of any release if that is 0. The error wraps [ErrNone] if there is none, and is a
// [*DifferentError] if there are known builds of the release for the machine. It wraps
// [usdt.ErrFormat] if the executable is malformed.
func Recognise(f *usdt.File, release int) (Match, error) {
	return recognise(codes(), f, release)
}

func recognise(all []Code, f *usdt.File, release int) (Match, error) {
	all = slices.DeleteFunc(slices.Clone(all), func(c Code) bool {
		b, ok := dtrace.LookupBuild(c.ID)
		return !ok || release != 0 && b.Release != release || c.Machine != f.Machine()
	})
	if len(all) == 0 {
		return Match{}, fmt.Errorf("%w: none of %s for %v is in the table", ErrNone, dtrace.ReleaseName(release), f.Machine())
	}
	x, err := newExecutable(f)
	if err != nil {
		return Match{}, err
	}
	var reason error
	most := -1
	for _, c := range all {
		m, equal, err := c.compare(x)
		if err == nil {
			return m, nil
		}
		if equal > most {
			reason, most = err, equal
		}
	}
	return Match{}, reason
}

// compare returns the build as the executable has it. It also returns how many functions are equal.
func (c Code) compare(x *executable) (m Match, equal int, err error) {
	at, equal, err := c.find(x)
	if err != nil {
		return Match{}, equal, err
	}
	build, _ := dtrace.LookupBuild(c.ID)
	m.variables = c.variables(at)
	m.Build, err = c.move(build, at)
	return m, equal, err
}

// find finds the functions in an executable, and compares them. It returns how many are equal. The error
// is a [*DifferentError].
func (c Code) find(x *executable) (at *comparison, equal int, err error) {
	build, _ := dtrace.LookupBuild(c.ID)
	at = newComparison(x)
	for i, f := range c.Functions {
		if how := at.add(f); how != "" {
			if f.Symbol == "" { // the function that leads here has other code
				f.Name = c.Functions[f.From].Name
			}
			return nil, i, &DifferentError{f.Name, build.Package, how}
		}
	}
	for i, f := range c.Functions {
		if at.digest(i) != f.Digest {
			return nil, i, &DifferentError{f.Name, build.Package, "has other code"}
		}
	}
	callers := x.callers(at.wanted())
	for i, f := range c.Functions {
		if f.Callers != "" && callers[at.addresses[i]].digest() != f.Callers {
			return nil, len(c.Functions), &DifferentError{f.Name, build.Package, "has other callers"}
		}
	}
	for _, s := range c.Sources {
		if x.sizes(s) != s.Sizes {
			return nil, len(c.Functions), &DifferentError{s.Name, build.Package, otherSizes}
		}
	}
	return at, len(c.Functions), nil
}

// variables returns the addresses of the variables.
func (c Code) variables(at *comparison) map[string]uint64 {
	found := make(map[string]uint64)
	for _, v := range c.Variables {
		found[v.Name] = at.target(v.Function, v.Field)
	}
	return found
}

// move returns the build with its places where the executable has them.
func (c Code) move(build dtrace.Build, at *comparison) (dtrace.Build, error) {
	build.Places = slices.Clone(build.Places)
	for i := range build.Places {
		p := &build.Places[i]
		in := slices.IndexFunc(c.Functions, func(f Function) bool { return f.contains(p.Address) })
		if in < 0 {
			return dtrace.Build{}, fmt.Errorf("%w: %s is not among the functions that are compared", ErrNone, p.Function)
		}
		p.Address = at.addresses[in] + p.Address - c.Functions[in].Address
		code, ok := at.x.bytes(p.Address, len(p.Code)/2)
		if !ok {
			return dtrace.Build{}, fmt.Errorf("%w: %s ends early", usdt.ErrFormat, p.Function)
		}
		p.Code = hex.EncodeToString(code)
	}
	return build, nil
}

func (f Function) contains(address uint64) bool {
	return address >= f.Address && address-f.Address < uint64(f.Size)
}

// Measure sets the digests of a code and of the sizes from the executable of its build, and those of the
// callers for the functions with these numbers.
func (c *Code) Measure(file *usdt.File, called map[int]bool) error {
	x, err := newExecutable(file)
	if err != nil {
		return err
	}
	at := newComparison(x)
	for i, f := range c.Functions {
		if how := at.add(f); how != "" {
			return fmt.Errorf("the function %s %s", f.Name, how)
		}
		if at.addresses[i] != f.Address {
			return fmt.Errorf("the function %s is at %#x, not %#x", f.Name, at.addresses[i], f.Address)
		}
	}
	for i := range c.Functions {
		c.Functions[i].Digest = at.digest(i)
	}
	callers := x.callers(at.wanted())
	for i, f := range c.Functions {
		if called[i] {
			c.Functions[i].Callers = callers[f.Address].digest()
		}
	}
	for i, s := range c.Sources {
		c.Sources[i].Sizes = x.sizes(s)
	}
	return nil
}

// digestBytes is the length of a digest. Digests distinguish builds, and are no defence: whoever makes
// an executable can give it the build ID of a known one.
const digestBytes = 12

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:digestBytes])
}
