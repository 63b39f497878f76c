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
