package usdt

import (
	"fmt"
	"strconv"
	"strings"
)

// Registers of arm64, by their index in struct user_pt_regs (Linux
// arch/arm64/include/uapi/asm/ptrace.h); x0 to x30 are 0 to 30.
const (
	armFP Register = 29
	armLR Register = 30
	armSP Register = 31
)

// parseAArch64 parses a place in the notation of the arm64 assembler: a register,
// a number, or an address in brackets.
func parseAArch64(place string) (operand, error) {
	if strings.HasPrefix(place, "[") {
		return parseArmMemory(place)
	}
	switch place {
	case "xzr", "wzr": // the register that is always zero
		return constant(0), nil
	case "wsp":
		return register(armSP, 0), nil
	}
	number := strings.TrimPrefix(place, "#")
	if digits := strings.TrimPrefix(number, "-"); digits != "" && '0' <= digits[0] && digits[0] <= '9' {
		v, err := parseInteger(number)
		return constant(v), err
	}
	name := place
	if digits, ok := strings.CutPrefix(place, "w"); ok {
		name = "x" + digits // the low half
	}
	r, err := armRegister(name)
	return register(r, 0), err
}

// parseArmMemory parses "[base]", "[base, displacement]", "[base, index]" and
// "[base, index, lsl n]". An index of 32 bits, which is extended first, and
// addresses with write-back are not supported.
func parseArmMemory(place string) (operand, error) {
	inner, ok := strings.CutSuffix(place[1:], "]")
	if !ok {
		return operand{}, fmt.Errorf("%w: %q does not end in a bracket", ErrArgument, place)
	}
	parts := strings.Split(inner, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	base, err := armRegister(parts[0])
	if err != nil {
		return operand{}, err
	}
	o := memory(base, NoRegister, 0)
	switch {
	case len(parts) == 1:
		return o, nil
	case strings.HasPrefix(parts[1], "x"):
		o.arg.Index, o.arg.Scale, err = armIndex(parts[1:])
		return o, err
	case len(parts) == 2:
		o.arg.Disp, err = parseInteger(strings.TrimPrefix(parts[1], "#"))
		return o, err
	}
	return operand{}, fmt.Errorf("%w: address %q is not supported", ErrArgument, place)
}

// armIndex parses an index register and the shift that may follow it.
func armIndex(parts []string) (index Register, scale uint8, err error) {
	if index, err = armRegister(parts[0]); err != nil {
		return NoRegister, 0, err
	}
	switch {
	case len(parts) == 1:
		return index, 1, nil
	case len(parts) == 2:
		fields := strings.Fields(parts[1])
		if len(fields) != 2 || fields[0] != "lsl" {
			break
		}
		n, err := parseInteger(strings.TrimPrefix(fields[1], "#"))
		if err == nil && 0 <= n && n <= 3 {
			return index, 1 << n, nil
		}
	}
	return NoRegister, 0, fmt.Errorf("%w: index %q is not supported", ErrArgument, strings.Join(parts, ", "))
}

// armRegister returns a 64-bit register by name.
func armRegister(name string) (Register, error) {
	switch name {
	case "sp":
		return armSP, nil
	case "fp":
		return armFP, nil
	case "lr":
		return armLR, nil
	}
	if digits, ok := strings.CutPrefix(name, "x"); ok {
		n, err := strconv.ParseUint(digits, 10, 8)
		if err == nil && n <= 30 && strconv.FormatUint(n, 10) == digits {
			return Register(n), nil
		}
	}
	return NoRegister, fmt.Errorf("%w: register %q is not supported", ErrArgument, name)
}
