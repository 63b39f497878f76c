package usdt

import (
	"debug/elf"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// ParseArgs parses the argument specifications of a note, such as
// "8@%r12 -4@-572(%rbp)", for elf.EM_X86_64 or elf.EM_AARCH64.
//
// It returns one Arg for each specification, also where the error is not nil: an
// argument that cannot be used is then ArgUnknown, and the error wraps one
// *ArgError for each of these. A symbol needs a file, so here its argument is
// ArgUnknown; File.Probes resolves it. There are no arguments and the error is
// ErrMachine for another machine, ErrFormat for more than MaxArgs arguments or a
// text of more than 4096 bytes.
//
// A specification without its size ("%rax", as the oldest notes have them) is ArgUnknown: the used
// part of the register is unknown. libbpf refuses it too (src/usdt.c).
func ParseArgs(machine elf.Machine, spec string) ([]Arg, error) {
	operands, err := parseOperands(machine, spec)
	if err != nil {
		return nil, err
	}
	var (
		args     []Arg
		problems []error
	)
	for i, o := range operands {
		arg, err := o.arg, o.err
		if o.symbol != "" {
			arg = unknown(arg.Spec)
			err = fmt.Errorf("%w: %q", ErrNoSymbol, o.symbol)
		}
		if err != nil {
			problems = append(problems, &ArgError{Index: i, Spec: arg.Spec, Err: err})
		}
		args = append(args, arg)
	}
	return args, errors.Join(problems...)
}

// An ArgError is the reason why an argument is ArgUnknown.
type ArgError struct {
	Index int    // of the argument, from 0
	Spec  string // its specification
	Err   error  // wraps ErrArgument or ErrNoSymbol
}

// Error implements error.
func (e *ArgError) Error() string {
	return fmt.Sprintf("argument %d (%s): %v", e.Index, printable(e.Spec), e.Err)
}

// Unwrap returns e.Err.
func (e *ArgError) Unwrap() error { return e.Err }

// String returns the argument for people to read: type and place, the latter in
// the assembler's notation, as in "u64 %r12", "s32 -572(%rbp)" or "u8 [sp, 96]".
// An ArgUnknown is its specification with a question mark in front.
func (a Arg) String() string {
	if a.Kind == ArgUnknown {
		return "? " + printable(a.Spec)
	}
	letter := "u"
	if a.Signed {
		letter = "s"
	}
	return letter + strconv.Itoa(8*a.Size) + " " + a.place()
}

// place returns the location of the argument: as in Spec, or by the field names of pt_regs if Spec
// has none.
func (a Arg) place() string {
	if _, place, found := strings.Cut(a.Spec, "@"); found {
		return printable(place)
	}
	switch a.Kind {
	case ArgConst:
		return strconv.FormatInt(a.Disp, 10)
	case ArgRegister:
		return fmt.Sprintf("regs[%d]>>%d", a.Base, a.Shift)
	}
	return fmt.Sprintf("*(regs[%d] + regs[%d]*%d + %d)", a.Base, a.Index, a.Scale, a.Disp)
}

// printable returns s, quoted if it contains characters that a terminal would interpret: it comes
// from a file.
func printable(s string) string {
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}

// An operand is a parsed specification whose symbol may not be resolved yet.
type operand struct {
	arg    Arg
	symbol string // "" for none; else its address is to be added to arg.Disp
	err    error  // why arg is ArgUnknown
}

// parseOperands parses the specifications of one note.
func parseOperands(machine elf.Machine, spec string) ([]operand, error) {
	var parse func(string) (operand, error)
	switch machine {
	case elf.EM_X86_64:
		parse = parseX86
	case elf.EM_AARCH64:
		parse = parseAArch64
	default:
		return nil, fmt.Errorf("%w: %v", ErrMachine, machine)
	}
	if len(spec) > maxArgsLength {
		return nil, fmt.Errorf("%w: arguments of %d bytes, at most %d are read", ErrFormat, len(spec), maxArgsLength)
	}
	specs := splitArgs(spec)
	if len(specs) > MaxArgs {
		return nil, fmt.Errorf("%w: %d arguments, at most %d are possible", ErrFormat, len(specs), MaxArgs)
	}
	operands := make([]operand, len(specs))
	for i, s := range specs {
		operands[i] = parseOperand(s, parse)
	}
	return operands, nil
}

// splitArgs splits specifications at spaces outside of brackets. It does not split after an
// unbalanced bracket, so that nothing is misread.
func splitArgs(spec string) []string {
	var (
		specs []string
		depth int
		start int
	)
	for i := 0; i <= len(spec); i++ {
		if i < len(spec) {
			switch spec[i] {
			case '(', '[':
				depth++
			case ')', ']':
				depth--
			}
			if depth != 0 || spec[i] != ' ' {
				continue
			}
		}
		if i > start {
			specs = append(specs, spec[start:i])
		}
		start = i + 1
	}
	return specs
}

// parseOperand parses one specification, "N@place". parse parses the place.
func parseOperand(spec string, parse func(string) (operand, error)) operand {
	fail := func(err error) operand { return operand{arg: unknown(spec), err: err} }
	prefix, place, found := strings.Cut(spec, "@")
	if !found {
		return fail(fmt.Errorf("%w: no size in front", ErrArgument))
	}
	size, signed, err := parseSize(prefix)
	if err != nil {
		return fail(err)
	}
	o, err := parse(place)
	if err != nil {
		return fail(err)
	}
	if o.arg.Shift != 0 && size != 1 {
		return fail(fmt.Errorf("%w: %d bytes in a register of one", ErrArgument, size))
	}
	o.arg.Size, o.arg.Signed, o.arg.Spec = size, signed, spec
	o.arg.cut()
	return o
}

// resolve adds the address of the operand's symbol. A displacement from the instruction pointer
// (the site's address when the probe fires) is right wherever the file is loaded. All other uses of
// a symbol, as a constant or with an index, are right only in a file at a fixed address.
func (o operand) resolve(symbol, site uint64, movable bool) Arg {
	arg := o.arg
	switch {
	case arg.Kind == ArgMemory && arg.Base == x86IP:
		arg.Disp += int64(symbol - site)
	case movable:
		return unknown(arg.Spec)
	default:
		arg.Disp += int64(symbol)
		arg.cut()
	}
	return arg
}

// unknown returns the argument for a specification that cannot be used.
func unknown(spec string) Arg {
	return Arg{Kind: ArgUnknown, Base: NoRegister, Index: NoRegister, Spec: spec}
}

// parseSize parses the part before the @: the size in bytes, negative for signed integers, with a
// letter for types other than integers.
func parseSize(prefix string) (size int, signed bool, err error) {
	switch prefix {
	case "1", "2", "4", "8":
		return int(prefix[0] - '0'), false, nil
	case "-1", "-2", "-4", "-8":
		return int(prefix[1] - '0'), true, nil
	}
	if strings.HasSuffix(prefix, "f") {
		return 0, false, fmt.Errorf("%w: floating-point values are not supported", ErrArgument)
	}
	return 0, false, fmt.Errorf("%w: size %q is none of 1, 2, 4, 8 and their negatives", ErrArgument, prefix)
}

// cut truncates a constant to the size of its integer type, as if it were read from a register.
func (a *Arg) cut() {
	if a.Kind != ArgConst {
		return
	}
	shift := 64 - 8*a.Size
	if a.Signed {
		a.Disp = a.Disp << shift >> shift
	} else {
		a.Disp = int64(uint64(a.Disp) << shift >> shift)
	}
}

// parseInteger parses an assembler's integer: decimal, 0x hexadecimal or 0 octal,
// of at most 64 bits, signed or unsigned.
func parseInteger(s string) (int64, error) {
	digits, negative := strings.CutPrefix(s, "-")
	base := 10
	if hex, ok := strings.CutPrefix(strings.ToLower(digits), "0x"); ok {
		digits, base = hex, 16
	} else if len(digits) > 1 && digits[0] == '0' {
		base = 8
	}
	v, err := strconv.ParseUint(digits, base, 64)
	if err != nil || negative && v > -math.MinInt64 {
		return 0, fmt.Errorf("%w: %q is not an integer of at most 64 bits", ErrArgument, s)
	}
	if negative {
		v = -v
	}
	return int64(v), nil
}

// memory returns an operand in memory, without displacement.
func memory(base, index Register, scale uint8) operand {
	return operand{arg: Arg{Kind: ArgMemory, Base: base, Index: index, Scale: scale}}
}

// register returns an operand in a register.
func register(r Register, shift uint8) operand {
	return operand{arg: Arg{Kind: ArgRegister, Base: r, Index: NoRegister, Shift: shift}}
}

// constant returns an operand that is a number.
func constant(v int64) operand {
	return operand{arg: Arg{Kind: ArgConst, Base: NoRegister, Index: NoRegister, Disp: v}}
}
