#include "textflag.h"

// func trap()
TEXT ·trap(SB), NOSPLIT, $0-0
	BYTE $0x90 // a nop, as at a USDT site: the kernel need not step over it
	RET

// func trapAddress() uintptr
TEXT ·trapAddress(SB), NOSPLIT, $0-8
	LEAQ ·trap(SB), AX
	MOVQ AX, ret+0(FP)
	RET

// func trapStepped()
TEXT ·trapStepped(SB), NOSPLIT, $0-0
	BYTE $0x48; BYTE $0x89; BYTE $0xc0 // MOVQ AX, AX, which no kernel emulates
	RET

// func trapSteppedAddress() uintptr
TEXT ·trapSteppedAddress(SB), NOSPLIT, $0-8
	LEAQ ·trapStepped(SB), AX
	MOVQ AX, ret+0(FP)
	RET
