package vm

import (
	"debug/elf"
	"fmt"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/usdt"
)

// functionSite returns where a probe is that a function stands in for: at its first
// instruction, behind the one that many functions have only for indirect calls, which the
// kernel would single-step.
func functionSite(f *usdt.File, p dtrace.Probe, release int) (site usdt.Site, landing int, err error) {
	address, offset, err := f.Symbol(p.Function.SymbolOn(release))
	if err != nil {
		return usdt.Site{}, 0, err
	}
	const longest = 16 // bytes of an instruction, and of what is before it
	code, err := f.Code(address, longest)
	if err != nil {
		return usdt.Site{}, 0, err
	}
	skip := usdt.Landing(f.Machine(), code)
	site = usdt.Site{
		Address: address + uint64(skip), Offset: offset + uint64(skip),
		Stepped: !usdt.Emulated(f.Machine(), code[skip:]),
	}
	for i, param := range p.Function.Params {
		args, err := usdt.ParseArgs(f.Machine(), paramSpec(f.Machine(), param, p.Args[i].Type))
		if err != nil {
			return usdt.Site{}, 0, fmt.Errorf("argument %s: %w", p.Args[i].Name, err)
		}
		site.Args = append(site.Args, args...)
	}
	return site, skip, nil
}

// paramSpec returns where a parameter is by the calling conventions, System V for x86-64
// and AAPCS64, as a note would say it. Integers are ints there, everything else words.
func paramSpec(machine elf.Machine, p dtrace.Param, t dtrace.Type) string {
	size := "8"
	if t == dtrace.Int {
		size = "-4"
	}
	if machine == elf.EM_AARCH64 {
		register := fmt.Sprintf("x%d", max(p.Number-1, 0))
		if p.Deref {
			return size + "@[" + register + "]"
		}
		return size + "@" + register
	}
	registers := [...]string{"rax", "rdi", "rsi", "rdx", "rcx", "r8", "r9"}
	if size == "-4" {
		registers = [...]string{"eax", "edi", "esi", "edx", "ecx", "r8d", "r9d"}
	}
	if p.Deref {
		return size + "@(%" + registers[p.Number] + ")"
	}
	return size + "@%" + registers[p.Number]
}

// StateBits reports whether the flags of the VM's processes mean what they do in OTP 25,
// see ERTS_PSFLG_BIT in erts/emulator/beam/erl_process.h. Other releases were not tried.
func (i Image) StateBits() bool { return i.Release == 25 }
