package usdt

import (
	"debug/elf"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Random arguments, written as specifications, are read back the same.

func drawSize(t *rapid.T) (size int, signed bool, prefix string) {
	size = rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "size")
	signed = rapid.Bool().Draw(t, "signed")
	if signed {
		return size, signed, fmt.Sprintf("-%d@", size)
	}
	return size, signed, fmt.Sprintf("%d@", size)
}

func drawX86(t *rapid.T) Arg {
	names := map[Register]string{
		0: "r15", 1: "r14", 2: "r13", 3: "r12", 4: "rbp", 5: "rbx", 6: "r11", 7: "r10", 8: "r9", 9: "r8",
		10: "rax", 11: "rcx", 12: "rdx", 13: "rsi", 14: "rdi", 19: "rsp",
	}
	register := rapid.SampledFrom([]Register{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14})
	size, signed, prefix := drawSize(t)
	disp := rapid.Int64().Draw(t, "disp")
	var (
		arg   Arg
		place string
	)
	switch rapid.IntRange(0, 3).Draw(t, "form") {
	case 0:
		arg = num(size, signed, disp)
		arg.cut()
		place = fmt.Sprintf("$%d", arg.Disp)
	case 1:
		arg = reg(size, signed, register.Draw(t, "register"))
		place = "%" + names[arg.Base]
	case 2:
		arg = mem(size, signed, rapid.SampledFrom([]Register{10, 19, 4}).Draw(t, "base"), NoRegister, 0, disp)
		place = fmt.Sprintf("%d(%%%s)", disp, names[arg.Base])
	case 3:
		scale := rapid.SampledFrom([]uint8{1, 2, 4, 8}).Draw(t, "scale")
		arg = mem(size, signed, register.Draw(t, "base"), register.Draw(t, "index"), scale, disp)
		place = fmt.Sprintf("%#x(%%%s,%%%s,%d)", uint64(disp), names[arg.Base], names[arg.Index], scale)
	}
	arg.Spec = prefix + place
	return arg
}

func drawAArch64(t *rapid.T) Arg {
	register := rapid.Custom(func(t *rapid.T) Register { return Register(rapid.IntRange(0, 30).Draw(t, "x")) })
	size, signed, prefix := drawSize(t)
	disp := rapid.Int64().Draw(t, "disp")
	var (
		arg   Arg
		place string
	)
	switch rapid.IntRange(0, 3).Draw(t, "form") {
	case 0:
		arg = num(size, signed, disp)
		arg.cut()
		place = fmt.Sprint(arg.Disp)
	case 1:
		arg = reg(size, signed, register.Draw(t, "register"))
		place = fmt.Sprintf("%s%d", rapid.SampledFrom([]string{"x", "w"}).Draw(t, "half"), arg.Base)
	case 2:
		arg = mem(size, signed, register.Draw(t, "base"), NoRegister, 0, disp)
		place = fmt.Sprintf("[x%d, %d]", arg.Base, disp)
	case 3:
		arg = mem(size, signed, register.Draw(t, "base"), register.Draw(t, "index"), 1, 0)
		place = fmt.Sprintf("[x%d, x%d]", arg.Base, arg.Index)
	}
	arg.Spec = prefix + place
	return arg
}

func TestParseArgsRoundTrip(t *testing.T) {
	for machine, draw := range map[elf.Machine]func(*rapid.T) Arg{elf.EM_X86_64: drawX86, elf.EM_AARCH64: drawAArch64} {
		t.Run(machine.String(), rapid.MakeCheck(func(t *rapid.T) {
			want := rapid.SliceOfN(rapid.Custom(draw), 1, MaxArgs).Draw(t, "args")
			var specs []string
			for _, arg := range want {
				specs = append(specs, arg.Spec)
			}
			got, err := ParseArgs(machine, strings.Join(specs, " "))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("(-want +got)\n%s", diff)
			}
		}))
	}
}

// checkArgs checks properties of all arguments, whatever their source.
func checkArgs(t *testing.T, machine elf.Machine, args []Arg) {
	t.Helper()
	registers := Register(21)
	if machine == elf.EM_AARCH64 {
		registers = 34
	}
	valid := func(r Register) bool { return 0 <= r && r < registers }
	for _, a := range args {
		ok := a.Size == 1 || a.Size == 2 || a.Size == 4 || a.Size == 8
		ok = ok && (a.Shift == 0 || a.Shift == 8 && a.Kind == ArgRegister && a.Size == 1)
		switch a.Kind {
		case ArgConst:
			cut := a
			cut.cut()
			ok = ok && a.Base == NoRegister && a.Index == NoRegister && cut == a
		case ArgRegister:
			ok = ok && valid(a.Base) && a.Index == NoRegister && a.Scale == 0 && a.Disp == 0
		case ArgMemory:
			ok = ok && (valid(a.Base) || valid(a.Index)) && (a.Index == NoRegister) == (a.Scale == 0)
			ok = ok && (a.Scale == 0 || a.Scale == 1 || a.Scale == 2 || a.Scale == 4 || a.Scale == 8)
		case ArgUnknown:
			ok = a == unknown(a.Spec)
		default:
			ok = false
		}
		if !ok || a.Spec == "" || a.String() == "" {
			t.Errorf("impossible argument %#v", a)
		}
	}
}

func FuzzParseArgs(f *testing.F) {
	for _, spec := range []string{
		"8@%r12 -4@-572(%rbp) -8@$0 8@sym(%rip)", "1@%ah 8@16+sym-4(%rip) 8@(,%rax,8)", "8f@%xmm0 8@(%rax,%rbx",
		"8@[x1, 96] 4@w0 4@5", "8@[sp] 8@[x0, x1, lsl 3] 8@xzr", "",
	} {
		f.Add(true, spec)
		f.Add(false, spec)
	}
	f.Fuzz(func(t *testing.T, x86 bool, spec string) {
		machine := elf.EM_AARCH64
		if x86 {
			machine = elf.EM_X86_64
		}
		args, err := ParseArgs(machine, spec)
		if errors.Is(err, ErrFormat) {
			if args != nil {
				t.Errorf("arguments with %v", err)
			}
			return
		}
		checkArgs(t, machine, args)
		unknowns := 0
		for _, a := range args {
			if a.Kind == ArgUnknown {
				unknowns++
			}
		}
		if (unknowns > 0) != (err != nil) || len(args) > MaxArgs {
			t.Errorf("%d arguments, %d unknown, error %v", len(args), unknowns, err)
		}
	})
}
