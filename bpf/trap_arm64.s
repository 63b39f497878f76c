#include "textflag.h"

// func trap()
TEXT ·trap(SB), NOSPLIT|NOFRAME, $0-0
	WORD $0xd503201f // a nop, as at a USDT site: the kernel need not step over it
	RET

// func trapAddress() uintptr
TEXT ·trapAddress(SB), NOSPLIT, $0-8
	MOVD $·trap(SB), R0
	MOVD R0, ret+0(FP)
	RET

// func trapStepped()
TEXT ·trapStepped(SB), NOSPLIT|NOFRAME, $0-0
	WORD $0xaa0003e0 // MOVD R0, R0, which no kernel emulates
	RET

// func trapSteppedAddress() uintptr
TEXT ·trapSteppedAddress(SB), NOSPLIT, $0-8
	MOVD $·trapStepped(SB), R0
	MOVD R0, ret+0(FP)
	RET
