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
