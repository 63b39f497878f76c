package usdt

import (
	"bytes"
	"debug/elf"
)

// Landing returns the length of the instruction that the beginning of a function has only
// because of how it may be called: endbr64, which says that it may be called indirectly.
// 0: there is none.
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

// Emulated reports whether the kernel emulates the instruction that code begins with when a
// uprobe is set there, in all versions of Linux since 6.6. Others it single-steps, but for
// some that later versions emulate too. At least 3 bytes of code are needed.
//
// On x86-64 these are nops, pushes of a register, calls and jumps (arch/x86/kernel/uprobes.c);
// on arm64, of what functions begin with, only nops.
func Emulated(machine elf.Machine, code []byte) bool {
	if IsNop(machine, code) {
		return true
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

func isPush(op byte) bool { return op >= 0x50 && op <= 0x57 }
