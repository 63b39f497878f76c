package usdt

import (
	"debug/elf"
	"testing"
)

func TestInstructions(t *testing.T) {
	const x86, arm = elf.EM_X86_64, elf.EM_AARCH64
	for _, test := range []struct {
		name     string
		machine  elf.Machine
		code     []byte
		landing  int
		nop      bool
		emulated bool
	}{
		{"nop", x86, []byte{0x90, 0x55, 0x48}, 0, true, true},
		{"nop of 5", x86, []byte{0x0f, 0x1f, 0x44, 0x00, 0x00}, 0, true, true},
		{"push rbp", x86, []byte{0x55, 0x48, 0x89}, 0, false, true},
		{"push r15", x86, []byte{0x41, 0x57, 0x41}, 0, false, true},
		{"mov r8d, edx", x86, []byte{0x41, 0x89, 0xd0}, 0, false, false},
		{"mov rbp, rsp", x86, []byte{0x48, 0x89, 0xe5}, 0, false, false},
		{"sub rsp, 8", x86, []byte{0x48, 0x83, 0xec, 0x08}, 0, false, false},
		{"endbr64", x86, []byte{0xf3, 0x0f, 0x1e, 0xfa, 0x55}, 4, false, false},
		{"call", x86, []byte{0xe8, 1, 2, 3, 4}, 0, false, true},
		{"jmp", x86, []byte{0xeb, 1, 2}, 0, false, true},
		{"jne", x86, []byte{0x75, 1, 2}, 0, false, true},
		{"jne, 32 bits", x86, []byte{0x0f, 0x85, 0, 0, 0, 0}, 0, false, true},
		{"syscall", x86, []byte{0x0f, 0x05, 0x90}, 0, false, false},
		{"cut", x86, []byte{0x55}, 0, false, false},
		{"nothing", x86, nil, 0, false, false},
		{"nop", arm, []byte{0x1f, 0x20, 0x03, 0xd5}, 0, true, true},
		{"stp", arm, []byte{0xfd, 0x7b, 0xbf, 0xa9}, 0, false, false},
		{"bl", arm, []byte{0x41, 0x5b, 0x0d, 0x94}, 0, false, true},
		{"b", arm, []byte{0xb6, 0xfe, 0xff, 0x17}, 0, false, true},
		{"b.eq", arm, []byte{0xa0, 0x01, 0x00, 0x54}, 0, false, true},
		{"bc.eq, which has other bits", arm, []byte{0xb0, 0x01, 0x00, 0x54}, 0, false, false},
		{"cbnz w0", arm, []byte{0x40, 0x20, 0x00, 0x35}, 0, false, true},
		{"tbnz w0, #31", arm, []byte{0xc0, 0x00, 0xf8, 0x37}, 0, false, true},
		{"adrp x3", arm, []byte{0xe3, 0x19, 0x00, 0xf0}, 0, false, true},
		{"ret", arm, []byte{0xc0, 0x03, 0x5f, 0xd6}, 0, false, true},
		{"blr x1", arm, []byte{0x20, 0x00, 0x3f, 0xd6}, 0, false, false},
		{"ldr of a literal", arm, []byte{0x41, 0x00, 0x00, 0x58}, 0, false, false},
		{"ldr x0, [x1]", arm, []byte{0x20, 0x00, 0x40, 0xf9}, 0, false, false},
		{"add", arm, []byte{0x20, 0x00, 0x00, 0x91}, 0, false, false},
		{"cut, for arm64", arm, []byte{0xc0, 0x03, 0x5f}, 0, false, false},
		{"a push of the other machine", arm, []byte{0x55, 0x48, 0x89, 0xe5}, 0, false, false},
	} {
		if got := Landing(test.machine, test.code); got != test.landing {
			t.Errorf("%s, %v: %d bytes to land on, want %d", test.name, test.machine, got, test.landing)
		}
		if got := IsNop(test.machine, test.code); got != test.nop {
			t.Errorf("%s, %v: a nop: %v", test.name, test.machine, got)
		}
		if got := Emulated(test.machine, test.code); got != test.emulated {
			t.Errorf("%s, %v: emulated: %v", test.name, test.machine, got)
		}
	}
}
