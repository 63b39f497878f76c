package bpf

import (
	"github.com/cilium/ebpf"

	"github.com/beamscope/beamscope/usdt"
)

// blockBytes is the maximum number of bytes that are read at once for several arguments:
// BLOCK_WORDS of args.bpf.h.
const blockBytes = 12 * 8

// arguments are the constants of args.bpf.h that specialise a program for one
// layout of a site's arguments.
type arguments struct {
	args       [usdt.MaxArgs]kernelArg
	blockBase  int8
	blockDisp  int64
	blockBytes uint32
}

// newArguments converts argument locations to the form that the programs read. A missing argument
// is unknown, and reading it is an error at the hit.
func newArguments(args []usdt.Arg) arguments {
	a := arguments{blockBase: int8(usdt.NoRegister)}
	for i := range a.args {
		a.args[i].Kind = uint8(kernelArgKindARG_UNKNOWN)
		if i < len(args) {
			a.args[i] = newKernelArg(args[i])
		}
	}
	return a
}

// newBlockArguments is newArguments for programs that read adjacent arguments at once.
func newBlockArguments(args []usdt.Arg) arguments {
	a := newArguments(args)
	a.findBlock(args)
	return a
}

// findBlock selects arguments that are adjacent in memory, to be read together. It takes the first
// run of words at one base register, from the lowest word up. Words too far from that are read
// separately.
func (a *arguments) findBlock(args []usdt.Arg) {
	first := -1
	for i, arg := range args {
		if inWords(arg) && (first < 0 || arg.Base == args[first].Base && arg.Disp < args[first].Disp) {
			first = i
		}
	}
	if first < 0 {
		return
	}
	base, low := args[first].Base, args[first].Disp
	var members []int
	for i, arg := range args {
		at := arg.Disp - low
		if inWords(arg) && arg.Base == base && at%8 == 0 && at+8 <= blockBytes {
			members = append(members, i)
			a.blockBytes = max(a.blockBytes, uint32(at)+8)
		}
	}
	if len(members) < 2 {
		a.blockBytes = 0
		return
	}
	a.blockBase, a.blockDisp = int8(base), low
	for _, i := range members {
		a.args[i].Kind = uint8(kernelArgKindARG_BLOCK)
		a.args[i].Disp = (args[i].Disp - low) / 8
	}
}

// inWords reports whether the argument is a whole word at a base register. Blocks consist of such
// words.
func inWords(arg usdt.Arg) bool {
	return arg.Kind == usdt.ArgMemory && arg.Size == 8 && arg.Base != usdt.NoRegister && arg.Index == usdt.NoRegister
}

func newKernelArg(a usdt.Arg) kernelArg {
	k := kernelArg{
		Kind:  uint8(kernelArgKindARG_UNKNOWN),
		Size:  uint8(a.Size),
		Shift: a.Shift,
		Base:  int8(a.Base),
		Index: int8(a.Index),
		Scale: a.Scale,
		Disp:  a.Disp,
	}
	if a.Signed {
		k.IsSigned = 1
	}
	switch a.Kind {
	case usdt.ArgConst:
		k.Kind = uint8(kernelArgKindARG_CONST)
	case usdt.ArgRegister:
		k.Kind = uint8(kernelArgKindARG_REGISTER)
	case usdt.ArgMemory:
		k.Kind = uint8(kernelArgKindARG_MEMORY)
	case usdt.ArgAddress:
		k.Kind = uint8(kernelArgKindARG_ADDRESS)
	}
	return k
}

func (a arguments) set(spec *ebpf.CollectionSpec) error {
	return setVariables(spec, map[string]any{
		kernelVarArgs:       a.args,
		kernelVarBlockBase:  a.blockBase,
		kernelVarBlockDisp:  a.blockDisp,
		kernelVarBlockBytes: a.blockBytes,
	})
}
