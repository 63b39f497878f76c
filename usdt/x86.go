package usdt

import (
	"fmt"
	"strings"
)

// The x86-64 registers, by their index in struct pt_regs (Linux arch/x86/include/asm/ptrace.h).
const (
	x86R15 Register = 0
	x86R14 Register = 1
	x86R13 Register = 2
	x86R12 Register = 3
	x86BP  Register = 4
	x86BX  Register = 5
	x86R11 Register = 6
	x86R10 Register = 7
	x86R9  Register = 8
	x86R8  Register = 9
	x86AX  Register = 10
	x86CX  Register = 11
	x86DX  Register = 12
	x86SI  Register = 13
	x86DI  Register = 14
	x86IP  Register = 16
	x86SP  Register = 19
)

// parseX86 parses a place in AT&T notation: "$constant", "%register" or
// "displacement(%base,%index,scale)".
func parseX86(place string) (operand, error) {
	if number, ok := strings.CutPrefix(place, "$"); ok {
		o := constant(0)
		if number == "" {
			return o, fmt.Errorf("%w: no constant after $", ErrArgument)
		}
		var err error
		o.arg.Disp, o.symbol, err = parseX86Displacement(number)
		return o, err
	}
	if name, ok := strings.CutPrefix(place, "%"); ok && !strings.ContainsAny(name, "(:") {
		r, shift, _ := x86Register(name)
		if r == NoRegister {
			return operand{}, fmt.Errorf("%w: register %q is not supported", ErrArgument, place)
		}
		return register(r, shift), nil
	}
	return parseX86Memory(place)
}

// parseX86Memory parses "displacement(%base,%index,scale)".
func parseX86Memory(place string) (operand, error) {
	before, parens, _ := strings.Cut(place, "(")
	inner, ok := strings.CutSuffix(parens, ")")
	if !ok {
		return operand{}, fmt.Errorf("%w: %q is neither constant, register nor memory at a register", ErrArgument, place)
	}
	o, err := parseX86Address(strings.Split(inner, ","))
	if err != nil {
		return operand{}, err
	}
	o.arg.Disp, o.symbol, err = parseX86Displacement(before)
	return o, err
}

// parseX86Address parses base, index and scale: the part between the parentheses.
func parseX86Address(parts []string) (operand, error) {
	var (
		base, index = NoRegister, NoRegister
		scale       uint8
		err         error
	)
	if parts[0] != "" || len(parts) == 1 {
		if base, err = x86AddressRegister(parts[0]); err != nil {
			return operand{}, err
		}
	}
	if len(parts) > 1 {
		if index, err = x86AddressRegister(parts[1]); err != nil {
			return operand{}, err
		}
		if index == x86SP || index == x86IP || base == x86IP {
			return operand{}, fmt.Errorf("%w: no machine instruction has the index %s", ErrArgument, parts[1])
		}
		scale = 1
	}
	if len(parts) > 2 {
		switch parts[2] {
		case "1", "2", "4", "8":
			scale = parts[2][0] - '0'
		default:
			return operand{}, fmt.Errorf("%w: scale %q is none of 1, 2, 4, 8", ErrArgument, parts[2])
		}
	}
	if len(parts) > 3 {
		return operand{}, fmt.Errorf("%w: %d parts in an address", ErrArgument, len(parts))
	}
	return memory(base, index, scale), nil
}

// x86AddressRegister parses a register in an address. It accepts only whole registers: the rest of
// a partial register would have to be masked.
func x86AddressRegister(s string) (Register, error) {
	name, ok := strings.CutPrefix(s, "%")
	r, _, whole := x86Register(name)
	if !ok || !whole {
		return NoRegister, fmt.Errorf("%w: %q is not a 64-bit register", ErrArgument, s)
	}
	return r, nil
}

// parseX86Displacement parses a sum of integers and at most one symbol, such as
// "-320", "symbol+8" or "16+symbol".
func parseX86Displacement(s string) (disp int64, symbol string, err error) {
	for rest := s; rest != ""; {
		sign, term := "", rest
		if rest[0] == '-' || rest[0] == '+' {
			sign, term = rest[:1], rest[1:]
		}
		end := strings.IndexAny(term, "+-")
		if end < 0 {
			end = len(term)
		}
		term, rest = term[:end], term[end:]
		switch {
		case isSymbol(term) && symbol == "" && sign != "-":
			symbol = term
		case term != "" && '0' <= term[0] && term[0] <= '9':
			v, err := parseInteger(term)
			if err != nil {
				return 0, "", err
			}
			if sign == "-" {
				v = -v
			}
			disp += v
		default:
			return 0, "", fmt.Errorf("%w: displacement %q", ErrArgument, s)
		}
	}
	return disp, symbol, nil
}

// isSymbol reports whether s has the form of a symbol that needs no quotes in assembler text. It
// excludes references such as "symbol@GOTPCREL".
func isSymbol(s string) bool {
	if s == "" || '0' <= s[0] && s[0] <= '9' || len(s) > maxNameLength {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !(c == '_' || c == '.' || c == '$' || 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9') {
			return false
		}
	}
	return true
}

// x86Register returns the register with a name (without the percent sign), the position of the
// value in it, and whether the name means all 64 bits. It returns NoRegister for unknown names.
func x86Register(name string) (r Register, shift uint8, whole bool) {
	switch name {
	case "ah":
		return x86AX, 8, false
	case "bh":
		return x86BX, 8, false
	case "ch":
		return x86CX, 8, false
	case "dh":
		return x86DX, 8, false
	case "rax", "eax", "ax", "al":
		r = x86AX
	case "rbx", "ebx", "bx", "bl":
		r = x86BX
	case "rcx", "ecx", "cx", "cl":
		r = x86CX
	case "rdx", "edx", "dx", "dl":
		r = x86DX
	case "rsi", "esi", "si", "sil":
		r = x86SI
	case "rdi", "edi", "di", "dil":
		r = x86DI
	case "rbp", "ebp", "bp", "bpl":
		r = x86BP
	case "rsp", "esp", "sp", "spl":
		r = x86SP
	case "rip", "eip", "ip":
		r = x86IP
	default:
		return x86NumberedRegister(name)
	}
	return r, 0, name[0] == 'r'
}

// x86NumberedRegister is x86Register for r8 to r15.
func x86NumberedRegister(name string) (r Register, shift uint8, whole bool) {
	number := strings.TrimRight(name, "dwb")
	switch number {
	case "r8":
		r = x86R8
	case "r9":
		r = x86R9
	case "r10":
		r = x86R10
	case "r11":
		r = x86R11
	case "r12":
		r = x86R12
	case "r13":
		r = x86R13
	case "r14":
		r = x86R14
	case "r15":
		r = x86R15
	default:
		return NoRegister, 0, false
	}
	if len(name) > len(number)+1 {
		return NoRegister, 0, false
	}
	return r, 0, name == number
}
