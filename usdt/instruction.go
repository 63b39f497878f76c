package usdt

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
)

// Landing returns the length of the instruction endbr64 at the beginning of a function, or 0 if
// there is none. With this instruction, the function is a valid target of indirect calls.
func Landing(machine elf.Machine, code []byte) int {
	endbr64 := []byte{0xf3, 0x0f, 0x1e, 0xfa}
	if machine == elf.EM_X86_64 && bytes.HasPrefix(code, endbr64) {
		return len(endbr64)
	}
	return 0
}

// IsNop reports whether code begins with an instruction that is a nop at USDT sites.
func IsNop(machine elf.Machine, code []byte) bool {
	nops := [][]byte{
		{0x90},                         // of <sys/sdt.h>
		{0x0f, 0x1f, 0x44, 0x00, 0x00}, // one that kernels replace by a call
		{0x66, 0x2e, 0x0f, 0x1f, 0x84}, // the same, longer
	}
	if machine == elf.EM_AARCH64 {
		nops = [][]byte{{0x1f, 0x20, 0x03, 0xd5}}
	}
	for _, nop := range nops {
		if bytes.HasPrefix(code, nop) {
			return true
		}
	}
	return false
}

// Emulated reports whether every version of Linux since 6.6 emulates the instruction at the
// beginning of code for a uprobe. The kernel single-steps other instructions, except some that
// later versions emulate too. code must have at least 3 bytes.
//
// On x86-64 these are nops, pushes of a register, calls and jumps (arch/x86/kernel/uprobes.c). On
// arm64 these are nops, branches, and instructions that form an address relative to themselves
// (arch/arm64/kernel/probes/decode-insn.c). The first instruction of most functions for arm64 stores
// registers: the kernel single-steps it.
func Emulated(machine elf.Machine, code []byte) bool {
	if IsNop(machine, code) {
		return true
	}
	if machine == elf.EM_AARCH64 {
		return len(code) >= armInstruction && armEmulated(binary.LittleEndian.Uint32(code))
	}
	if machine != elf.EM_X86_64 || len(code) < 3 {
		return false
	}
	const rexB = 0x41 // r8 to r15
	if code[0] == rexB {
		return isPush(code[1])
	}
	switch op := code[0]; {
	case isPush(op),
		op == 0xe8, op == 0xe9, op == 0xeb, // call, jmp
		op >= 0x70 && op <= 0x7f,                         // jcc, 8 bits
		op == 0x0f && code[1] >= 0x80 && code[1] <= 0x8f: // jcc, 32 bits
		return true
	}
	return false
}

// armInstruction is the length of every instruction of arm64.
const armInstruction = 4

// armEmulated is [Emulated] for an instruction of arm64 that is no nop. It leaves out branches to
// registers: kernels differ in how they emulate these for guarded pages.
func armEmulated(instruction uint32) bool {
	for _, kind := range []struct{ mask, bits uint32 }{
		{0x7c00_0000, 0x1400_0000}, // b, bl
		{0xff00_0010, 0x5400_0000}, // b.cond
		{0x7e00_0000, 0x3400_0000}, // cbz, cbnz
		{0x7e00_0000, 0x3600_0000}, // tbz, tbnz
		{0x1f00_0000, 0x1000_0000}, // adr, adrp
		{0xffff_ffff, 0xd65f_03c0}, // ret
	} {
		if instruction&kind.mask == kind.bits {
			return true
		}
	}
	return false
}

func isPush(op byte) bool { return op >= 0x50 && op <= 0x57 }
