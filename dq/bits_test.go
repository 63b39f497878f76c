package dq

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden bits")

const goldenBits = "testdata/bits.golden"

// separator is between the name of a line and its bits. No name contains it.
const separator = " = "

// TestBits compares the bits of results with those in testdata/bits.golden. It detects
// unintended changes, and differences between processors: see TestSameBitsOnAllProcessors. It
// does not show that the bits are right. The tests against exact references do that.
//
// A line contains the name of a function, its operands and the whole result, or a hash if the
// result is long. Results include errors and internal state. An intended change of bits needs
//
//	go test ./dq -run TestBits -update
//
// and a look at the lines that have changed.
func TestBits(t *testing.T) {
	parts := []struct {
		name string
		run  func(*corpus)
	}{
		{"orders", bitsOfOrders},
		{"delays", bitsOfDelays},
		{"rounding", bitsOfRounding},
		{"grids", bitsOfGrids},
		{"student", bitsOfStudent},
		{"deltaq", bitsOfDeltaQ},
		{"observed", bitsOfObserved},
		{"comparisons", bitsOfComparisons},
		{"transforms", bitsOfTransforms},
		{"moments", bitsOfMoments},
		{"models", bitsOfModels},
		{"operators", bitsOfOperators},
		{"retries", bitsOfRetries},
		{"widths", bitsOfWidths},
		{"requirements", bitsOfRequirements},
		{"deconvolution", bitsOfDeconvolution},
		{"windows", bitsOfWindows},
		{"convolutions", bitsOfConvolutions},
		{"pairs", bitsOfPairs},
		{"continuous", bitsOfContinuous},
	}
	golden := readGoldenBits(t)
	var all []string
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) {
			c := &corpus{part: part.name, names: map[string]bool{}}
			part.run(c)
			for name := range c.twice {
				t.Errorf("%s: two lines of this name", name)
			}
			all = append(all, c.lines...)
			if !*update {
				compareBits(t, c.lines, golden[part.name])
			}
		})
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(goldenBits, []byte(strings.Join(all, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// readGoldenBits returns the golden lines of each part.
func readGoldenBits(t *testing.T) map[string][]string {
	t.Helper()
	data, err := os.ReadFile(goldenBits)
	if err != nil && !*update {
		t.Fatal(err)
	}
	parts := map[string][]string{}
	for line := range strings.Lines(string(data)) {
		part, _, _ := strings.Cut(line, " ")
		parts[part] = append(parts[part], strings.TrimSuffix(line, "\n"))
	}
	return parts
}

// compareBits reports the lines that differ, by their names.
func compareBits(t *testing.T, got, want []string) {
	t.Helper()
	const most = 10
	left := map[string]string{}
	for _, line := range want {
		name, bits, _ := strings.Cut(line, separator)
		left[name] = bits
	}
	wrong := 0
	for _, line := range got {
		name, bits, _ := strings.Cut(line, separator)
		expected, ok := left[name]
		delete(left, name)
		if ok && bits == expected {
			continue
		}
		if wrong++; wrong <= most {
			t.Errorf("%s\n got %s\nwant %s", name, bits, expected)
		}
	}
	if wrong > most {
		t.Errorf("and %d lines more", wrong-most)
	}
	for name := range left {
		t.Errorf("%s: no such line any more", name)
	}
}

// A corpus collects the lines of a part.
type corpus struct {
	part  string
	lines []string
	names map[string]bool
	twice map[string]bool
	text  []byte
}

// of returns a function that adds a line with the given name and the values passed to it.
func (c *corpus) of(format string, args ...any) func(values ...any) {
	name := c.part + " " + fmt.Sprintf(format, args...)
	return func(values ...any) { c.line(name, values) }
}

// longest is the length up to which a line contains the values themselves and not a hash.
const longest = 60

func (c *corpus) line(name string, values []any) {
	if c.names[name] {
		if c.twice == nil {
			c.twice = map[string]bool{}
		}
		c.twice[name] = true
	}
	c.names[name] = true
	c.text = c.text[:0]
	for i, v := range values {
		if i > 0 {
			c.text = append(c.text, ' ')
		}
		c.text = appendBits(c.text, v)
	}
	text := c.text
	if len(text) > longest || bytes.ContainsAny(text, "\n\r") {
		sum := sha256.Sum256(text)
		text = fmt.Appendf(nil, "#%x", sum[:6])
	}
	c.lines = append(c.lines, name+separator+string(text))
}

// appendBits appends all bits of a value as a text.
func appendBits(out []byte, v any) []byte {
	if err, ok := v.(error); ok && err != nil {
		return appendError(out, err)
	}
	return appendValue(out, reflect.ValueOf(v))
}

// appendError appends the text of an error, its kind and its fields.
func appendError(out []byte, err error) []byte {
	out = strconv.AppendQuote(out, err.Error())
	for i, kind := range []error{ErrGrid, ErrDelay, ErrShape, ErrCounts, ErrProbability, ErrOperands, ErrNoData} {
		if errors.Is(err, kind) {
			out = strconv.AppendInt(append(out, '!'), int64(i), 10)
		}
	}
	var none *NoResidualError
	var undecided *UndecidedError
	if errors.As(err, &none) {
		out = appendValue(out, reflect.ValueOf(*none))
	}
	if errors.As(err, &undecided) {
		out = appendValue(out, reflect.ValueOf(*undecided))
	}
	return out
}

func appendValue(out []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Float64:
		return appendFloat(out, v.Float())
	case reflect.Complex128:
		x := v.Complex()
		return append(appendFloat(append(appendFloat(append(out, '('), real(x)), ','), imag(x)), ')')
	case reflect.Int, reflect.Int64:
		return strconv.AppendInt(out, v.Int(), 10)
	case reflect.Uint16, reflect.Uint64:
		return strconv.AppendUint(out, v.Uint(), 10)
	case reflect.Bool:
		return strconv.AppendBool(out, v.Bool())
	case reflect.String:
		return strconv.AppendQuote(out, v.String())
	case reflect.Slice, reflect.Array:
		out = append(out, '[')
		for i := range v.Len() {
			if i > 0 {
				out = append(out, ' ')
			}
			out = appendValue(out, v.Index(i))
		}
		return append(out, ']')
	case reflect.Struct:
		out = append(out, '{')
		for i := range v.NumField() {
			if i > 0 {
				out = append(out, ' ')
			}
			out = appendValue(out, v.Field(i))
		}
		return append(out, '}')
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return append(out, "nil"...)
		}
		return appendValue(append(out, '&'), v.Elem())
	case reflect.Invalid:
		return append(out, "nil"...)
	}
	panic(fmt.Sprintf("no bits of %v", v.Type()))
}

// appendFloat appends x so that each float64 has a text of its own, except that processors
// may differ in the bits of what is not a number.
func appendFloat(out []byte, x float64) []byte { return strconv.AppendFloat(out, x, 'x', -1, 64) }

// Values that differ in any bit have different texts.
func TestBitsDistinguishValues(t *testing.T) {
	values := []any{
		0.0, math.Copysign(0, -1), 1.0, math.Nextafter(1, 2), math.NaN(), math.Inf(1), math.SmallestNonzeroFloat64,
		0, 1, uint64(1) << 63, true, "a", time.Second, []float64{1}, []float64{1, 1}, []float64(nil), Bounds{1, 2}, Bounds{2, 1},
		error(ErrGrid), error(ErrDelay), fmt.Errorf("%w: x", ErrGrid), errors.New("invalid grid: x"),
		&NoResidualError{At: 1}, &NoResidualError{At: 1, Needs: 1e-9}, (*Margin)(nil), &Margin{}, complex(1, 2), complex(2, 1),
		&DeltaQ{width: 1}, &DeltaQ{width: 1, lo: []float64{0}, hi: []float64{0}}, &DeltaQ{excess: excess{1, 0}}, &DeltaQ{excess: excess{0, 1}},
	}
	seen := map[string]any{}
	for _, v := range values {
		text := string(appendBits(nil, v))
		if other, ok := seen[text]; ok && !(reflect.DeepEqual(v, 0) || reflect.DeepEqual(v, 1)) {
			t.Errorf("%v and %v are both %s", v, other, text)
		}
		seen[text] = v
	}
}

// The same corpus always has the same bits, and a changed bit is detected.
func TestBitsDetectAChange(t *testing.T) {
	lines := func(x float64) string {
		c := &corpus{part: "p", names: map[string]bool{}}
		c.of("long")(make([]float64, 100), x)
		c.of("short")(x)
		return strings.Join(c.lines, "\n")
	}
	if first, second := lines(1), lines(1); first != second || first == lines(math.Nextafter(1, 2)) || strings.Count(lines(1), "#") != 1 {
		t.Errorf("%s\n%s", lines(1), lines(math.Nextafter(1, 2)))
	}
}
