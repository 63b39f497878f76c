package usdt

import (
	"debug/elf"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// reg, mem and num write expected arguments; Spec is added by the tests.
func reg(size int, signed bool, base Register) Arg {
	return Arg{Kind: ArgRegister, Size: size, Signed: signed, Base: base, Index: NoRegister}
}

func mem(size int, signed bool, base, index Register, scale uint8, disp int64) Arg {
	return Arg{Kind: ArgMemory, Size: size, Signed: signed, Base: base, Index: index, Scale: scale, Disp: disp}
}

func num(size int, signed bool, value int64) Arg {
	return Arg{Kind: ArgConst, Size: size, Signed: signed, Base: NoRegister, Index: NoRegister, Disp: value}
}

type argTest struct {
	spec string
	want Arg
}

func testArgs(t *testing.T, machine elf.Machine, tests []argTest) {
	t.Helper()
	var all []string
	for _, test := range tests {
		test.want.Spec = test.spec
		got, err := ParseArgs(machine, test.spec)
		if err != nil {
			t.Errorf("%s: %v", test.spec, err)
			continue
		}
		if diff := cmp.Diff([]Arg{test.want}, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", test.spec, diff)
		}
		all = append(all, test.spec)
	}
	// Each gives the same result among others.
	for len(all) > 0 {
		n := min(len(all), MaxArgs)
		got, err := ParseArgs(machine, strings.Join(all[:n], " ")+" ")
		if err != nil {
			t.Error(err)
		}
		for i, arg := range got {
			if arg.Spec != all[i] {
				t.Errorf("argument %d of %q is %q", i, all[:n], arg.Spec)
			}
		}
		if len(got) != n {
			t.Errorf("%d arguments of %q", len(got), all[:n])
		}
		all = all[n:]
	}
}

func TestParseArgsX86(t *testing.T) {
	const none = NoRegister
	ah := reg(1, false, x86AX)
	ah.Shift = 8
	dh := reg(1, true, x86DX)
	dh.Shift = 8
	testArgs(t, elf.EM_X86_64, []argTest{
		// Forms of the Erlang VM.
		{"8@%r12", reg(8, false, 3)},
		{"4@%eax", reg(4, false, 10)},
		{"-8@-320(%rbp)", mem(8, true, 4, none, 0, -320)},
		{"-4@-572(%rbp)", mem(4, true, 4, none, 0, -572)},
		{"-8@$0", num(8, true, 0)},
		{"8@472(%rdx)", mem(8, false, 12, none, 0, 472)},

		{"8@(%rax)", mem(8, false, 10, none, 0, 0)},
		{"8@16(%rip)", mem(8, false, 16, none, 0, 16)},
		{"8@(%rax,%rbx,4)", mem(8, false, 10, 5, 4, 0)},
		{"2@-8(%rax,%rbx,8)", mem(2, false, 10, 5, 8, -8)},
		{"1@(%rax,%rdx)", mem(1, false, 10, 12, 1, 0)},
		{"1@0x10(%r15,%r14)", mem(1, false, 0, 1, 1, 16)},
		{"8@(,%rax,8)", mem(8, false, none, 10, 8, 0)},
		{"8@64(,%rax,1)", mem(8, false, none, 10, 1, 64)},
		{"8@64(,%rax)", mem(8, false, none, 10, 1, 64)},
		{"8@8+16(%rsp)", mem(8, false, 19, none, 0, 24)},
		{"8@16-8(%rsp)", mem(8, false, 19, none, 0, 8)},

		{"8@$42", num(8, false, 42)},
		{"-4@$-1", num(4, true, -1)},
		{"4@$-1", num(4, false, 0xffffffff)},
		{"-1@$255", num(1, true, -1)},
		{"1@$0x1ff", num(1, false, 0xff)},
		{"8@$-1", num(8, false, -1)},
		{"8@$18446744073709551615", num(8, false, -1)},
		{"-8@$-9223372036854775808", num(8, true, -1<<63)},
		{"2@$010", num(2, false, 8)},

		{"1@%ah", ah},
		{"-1@%dh", dh},
		{"4@%al", reg(4, false, 10)}, // the size determines the width
		{"8@%rip", reg(8, false, 16)},
	})
}

func TestX86Registers(t *testing.T) {
	// In the order of struct pt_regs.
	names := [][]string{
		{"r15", "r15d", "r15w", "r15b"}, {"r14", "r14d", "r14w", "r14b"},
		{"r13", "r13d", "r13w", "r13b"}, {"r12", "r12d", "r12w", "r12b"},
		{"rbp", "ebp", "bp", "bpl"}, {"rbx", "ebx", "bx", "bl"},
		{"r11", "r11d", "r11w", "r11b"}, {"r10", "r10d", "r10w", "r10b"},
		{"r9", "r9d", "r9w", "r9b"}, {"r8", "r8d", "r8w", "r8b"},
		{"rax", "eax", "ax", "al"}, {"rcx", "ecx", "cx", "cl"},
		{"rdx", "edx", "dx", "dl"}, {"rsi", "esi", "si", "sil"},
		{"rdi", "edi", "di", "dil"}, nil, {"rip", "eip", "ip"}, nil, nil,
		{"rsp", "esp", "sp", "spl"},
	}
	for want, aliases := range names {
		for i, name := range aliases {
			r, shift, whole := x86Register(name)
			if r != Register(want) || shift != 0 || whole != (i == 0) {
				t.Errorf("%%%s is %d, shift %d, whole %v, want %d", name, r, shift, whole, want)
			}
		}
	}
	for name, want := range map[string]Register{"ah": 10, "bh": 5, "ch": 11, "dh": 12} {
		if r, shift, whole := x86Register(name); r != want || shift != 8 || whole {
			t.Errorf("%%%s is %d, shift %d, whole %v", name, r, shift, whole)
		}
	}
}

func TestParseArgsAArch64(t *testing.T) {
	const none = NoRegister
	testArgs(t, elf.EM_AARCH64, []argTest{
		{"8@x1", reg(8, false, 1)},
		{"-4@w0", reg(4, true, 0)},
		{"8@x30", reg(8, false, 30)},
		{"8@sp", reg(8, false, 31)},
		{"4@wsp", reg(4, false, 31)},
		{"8@fp", reg(8, false, 29)},
		{"8@lr", reg(8, false, 30)},
		{"8@xzr", num(8, false, 0)},
		{"-4@wzr", num(4, true, 0)},
		{"4@5", num(4, false, 5)},
		{"-4@-6", num(4, true, -6)},
		{"-4@#-6", num(4, true, -6)},
		{"8@0x10", num(8, false, 16)},
		{"8@[x1, 96]", mem(8, false, 1, none, 0, 96)},
		{"8@[x1,96]", mem(8, false, 1, none, 0, 96)},
		{"-1@[x29, #-3]", mem(1, true, 29, none, 0, -3)},
		{"8@[sp]", mem(8, false, 31, none, 0, 0)},
		{"8@[sp, -16]", mem(8, false, 31, none, 0, -16)},
		{"8@[x0, x1]", mem(8, false, 0, 1, 1, 0)},
		{"8@[x0, x1, lsl 3]", mem(8, false, 0, 1, 8, 0)},
		{"2@[sp, x17, lsl #1]", mem(2, false, 31, 17, 2, 0)},
	})
}

func TestParseArgsUnknown(t *testing.T) {
	tests := []struct {
		machine elf.Machine
		specs   []string
		want    error
	}{
		{elf.EM_X86_64, []string{
			"%rax", "@%rax", "8f@%xmm0", "-8f@%xmm0", "3@%rax", "16@%rax", "--8@%rax", "+8@%rax", "08@%rax", "8 @%rax",
			"8@", "8@rax", "8@%", "8@%foo", "8@%xmm0", "8@%r16", "8@%r8x", "8@%r8dw", "8@%r", "8@%fs:16", "8@%fs:(%rax)",
			"2@%ah", "8@$", "8@$-", "8@$1_0", "8@$0b1", "8@$0x", "8@$+", "8@$18446744073709551616", "8@$08", "8@$-99999999999999999999",
			"8@16", "8@symbol", "8@(", "8@)", "8@()", "8@(rax)", "8@(%eax)", "8@(%rax", "8@(%rax,)", "8@(,)", "8@(,,8)", "8@(%rax,%rbx,)",
			"8@(%rax,%rbx,3)", "8@(%rax,%rbx,16)", "8@(%rax,%rbx,8,1)", "8@(%rax,%rsp,8)", "8@(%rip,%rax,8)", "8@(%rax,%rip)",
			"8@(%rax)(%rbx)", "8@((%rax))", "8@(%ah)", "8@x(%rax)y", "8@1x(%rax)", "8@--8(%rax)", "8@8-(%rax)", "8@a+b(%rip)",
			"8@-a(%rip)", "8@8-a(%rip)", "8@a@GOTPCREL(%rip)", "8@\"a b\"(%rip)", "8@(%rax", "8@a\x80(%rip)",
		}, ErrArgument},
		{elf.EM_X86_64, []string{
			"8@symbol(%rip)", "8@symbol+8(%rip)", "8@16+symbol(%rip)", "1@symbol(%rax)", "8@symbol(,%rax,8)", "8@$symbol", "8@.LC0(%rip)", "8@a.1$b(%rip)",
		}, ErrNoSymbol},
		{elf.EM_AARCH64, []string{
			"x0", "8f@d0", "8@", "8@x", "8@x31", "8@x01", "8@w31", "8@x-1", "8@v0", "8@foo", "8@#", "8@-", "8@symbol", "8@%rax",
			"8@[", "8@[]", "8@[x1", "8@[w1]", "8@[xzr]", "8@[x1, ]", "8@[x1, w2]", "8@[x1, w2, sxtw]", "8@[x1, w2, sxtw 3]", "8@[x1, x2, sxtx]",
			"8@[x1, x2, lsl 4]", "8@[x1, x2, lsl -1]", "8@[x1, x2, lsl]", "8@[x1, x2, asr 1]", "8@[x1, x2, lsl 1, 2]", "8@[x1, xzr]",
			"8@[sp, 16]!", "8@[sp], 16", "8@[x1, 16, 8]", "8@[x1, #:lo12:symbol]", "8@5x",
		}, ErrArgument},
	}
	for _, test := range tests {
		for _, spec := range test.specs {
			// The other arguments remain usable, unless it is uncertain where they begin.
			good := map[elf.Machine]string{elf.EM_X86_64: "8@%rax", elf.EM_AARCH64: "8@x0"}[test.machine]
			got, err := ParseArgs(test.machine, good+" "+spec)
			if !errors.Is(err, test.want) {
				t.Errorf("%q: error %v, want %v", spec, err, test.want)
			}
			if len(got) < 2 || got[0].Kind != ArgRegister {
				t.Errorf("%q: %v", spec, got)
			}
			var argument *ArgError
			if !errors.As(err, &argument) || argument.Index == 0 {
				t.Errorf("%q: %#v", spec, err)
				continue
			}
			want := Arg{Kind: ArgUnknown, Base: NoRegister, Index: NoRegister, Spec: argument.Spec}
			if diff := cmp.Diff(want, got[argument.Index]); diff != "" {
				t.Errorf("%q: (-want +got)\n%s", spec, diff)
			}
		}
	}
}

func TestParseArgsWhole(t *testing.T) {
	good := strings.Repeat("8@%rax  ", MaxArgs)
	if got, err := ParseArgs(elf.EM_X86_64, good); err != nil || len(got) != MaxArgs {
		t.Errorf("%d arguments, error %v", len(got), err)
	}
	if got, err := ParseArgs(elf.EM_X86_64, ""); err != nil || got != nil {
		t.Errorf("no arguments: %v, error %v", got, err)
	}
	if got, err := ParseArgs(elf.EM_X86_64, good+"8@%rax"); !errors.Is(err, ErrFormat) || got != nil {
		t.Errorf("too many arguments: %v, error %v", got, err)
	}
	if got, err := ParseArgs(elf.EM_X86_64, strings.Repeat(" ", maxArgsLength+1)); !errors.Is(err, ErrFormat) || got != nil {
		t.Errorf("too long: %v, error %v", got, err)
	}
	if got, err := ParseArgs(elf.EM_386, "4@%eax"); !errors.Is(err, ErrMachine) || got != nil {
		t.Errorf("other machine: %v, error %v", got, err)
	}
	got, err := ParseArgs(elf.EM_AARCH64, "8@[x1, 96 8@x0")
	if len(got) != 1 || got[0].Kind != ArgUnknown || !errors.Is(err, ErrArgument) {
		t.Errorf("unbalanced: %v, error %v", got, err)
	}
	_, err = ParseArgs(elf.EM_X86_64, "8@%rax 8f@%xmm0 8@a(%rip)")
	const want = "argument 1 (8f@%xmm0): argument not usable: floating-point values are not supported\n" +
		`argument 2 (8@a(%rip)): symbol not defined: "a"`
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestArgString(t *testing.T) {
	for _, test := range []struct {
		arg  Arg
		want string
	}{
		{Arg{Kind: ArgRegister, Size: 8, Base: 3, Spec: "8@%r12"}, "u64 %r12"},
		{Arg{Kind: ArgMemory, Size: 4, Signed: true, Base: 4, Disp: -572, Spec: "-4@-572(%rbp)"}, "s32 -572(%rbp)"},
		{Arg{Kind: ArgMemory, Size: 1, Spec: "1@[sp, 96]"}, "u8 [sp, 96]"},
		{unknown("8f@%xmm0"), "? 8f@%xmm0"},
		{unknown("8@\x1b[2J"), `? "8@\x1b[2J"`},
		{Arg{Kind: ArgConst, Size: 2, Disp: 7}, "u16 7"},
		{Arg{Kind: ArgRegister, Size: 1, Base: 10, Shift: 8}, "u8 regs[10]>>8"},
		{Arg{Kind: ArgMemory, Size: 8, Base: 4, Index: 5, Scale: 8, Disp: -3}, "u64 *(regs[4] + regs[5]*8 + -3)"},
	} {
		if got := test.arg.String(); got != test.want {
			t.Errorf("%#v is %q, want %q", test.arg, got, test.want)
		}
	}
}
