package vm

import (
	"debug/elf"
	"fmt"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/usdt"
)

// functionSite returns where a probe is that a function stands in for.
func functionSite(f *usdt.File, p dtrace.Probe, release int) (usdt.Site, error) {
	address, offset, err := f.Symbol(p.Function.SymbolOn(release))
	if err != nil {
		return usdt.Site{}, err
	}
	site := usdt.Site{Address: address, Offset: offset}
	for i, param := range p.Function.Params {
		args, err := usdt.ParseArgs(f.Machine(), paramSpec(f.Machine(), param, p.Args[i].Type))
		if err != nil {
			return usdt.Site{}, fmt.Errorf("argument %s: %w", p.Args[i].Name, err)
		}
		site.Args = append(site.Args, args...)
	}
	return site, nil
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
