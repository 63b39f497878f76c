package bpf

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// The rules of the verifier of kernels before Linux 6.13, which have no private stacks
// (check_max_stack_depth in kernel/bpf/verifier.c): the frames of a chain of calls share
// one stack. Up to Linux 6.8 and without the JIT compiler each frame is rounded up to
// stackUnit bytes, later ones to half of that. A callback counts as a call.
const (
	stackMost  = 512
	stackUnit  = 32
	framesMost = 8
)

// stackSpare is the number of bytes that every chain of calls leaves free. The test fails if a
// chain uses them, so that a growing program is noticed before the kernel refuses it.
const stackSpare = 32

// TestStackDepth computes the stack of each chain of calls from the instructions of all objects, for both
// architectures. It needs no kernel: a new kernel hides what an older one refuses.
func TestStackDepth(t *testing.T) {
	objects, err := filepath.Glob("*_gen.o")
	if err != nil || len(objects) != 6 {
		t.Fatalf("objects %q: %v", objects, err)
	}
	for _, object := range objects {
		t.Run(strings.TrimSuffix(object, "_gen.o"), func(t *testing.T) {
			spec, err := ebpf.LoadCollectionSpec(object)
			if err != nil {
				t.Fatal(err)
			}
			for name, p := range spec.Programs {
				c := deepest(functions(t, p.Instructions), name)
				t.Logf("%3d bytes, %d frames: %s", c.bytes, c.frames, c.path)
				if c.bytes > stackMost-stackSpare {
					t.Errorf("%s: a chain of calls uses %d bytes of stack, more than %d - %d: %s",
						name, c.bytes, stackMost, stackSpare, c.path)
				}
				if c.frames > framesMost {
					t.Errorf("%s: %d frames, more than %d: %s", name, c.frames, framesMost, c.path)
				}
			}
		})
	}
}

// TestNoPrivateStack checks, in the objects for both architectures, that each program at a uprobe
// has a tail call in its first function. Without it Linux 6.13 and later give the program a stack
// that other threads overwrite if the kernel is preemptible, and the kernel crashes.
func TestNoPrivateStack(t *testing.T) {
	objects, err := filepath.Glob("kernel_*_gen.o")
	if err != nil || len(objects) != 2 {
		t.Fatalf("objects %q: %v", objects, err)
	}
	for _, object := range objects {
		spec, err := ebpf.LoadCollectionSpec(object)
		if err != nil {
			t.Fatal(err)
		}
		probes := 0
		for name, p := range spec.Programs {
			if p.Type != ebpf.Kprobe {
				continue
			}
			probes++
			if !hasTailCall(name, p.Instructions) {
				t.Errorf("%s: %s has no tail call: begin it with use_thread_stack()", object, name)
			}
		}
		if probes == 0 {
			t.Errorf("%s has no programs at uprobes", object)
		}
	}
}

// hasTailCall reports whether the first function of a program has a tail call.
func hasTailCall(name string, program asm.Instructions) bool {
	for _, ins := range program {
		if symbol := ins.Symbol(); symbol != "" && symbol != name {
			return false
		}
		if ins.IsBuiltinCall() && ins.Constant == int64(asm.FnTailCall) {
			return true
		}
	}
	return false
}

// A function contains the properties of a function that determine the stack depth.
type function struct {
	bytes int // of its frame, not rounded
	calls []string
}

// A chain is a chain of calls.
type chain struct {
	bytes, frames int
	path          string
}

// deepest returns the chain of calls from a function that uses the most stack.
func deepest(all map[string]function, name string) chain {
	f := all[name]
	var below chain
	for _, called := range f.calls {
		c := deepest(all, called)
		below.frames = max(below.frames, c.frames)
		if c.bytes > below.bytes {
			below.bytes, below.path = c.bytes, c.path
		}
	}
	frame := (max(f.bytes, 1) + stackUnit - 1) / stackUnit * stackUnit
	return chain{
		bytes:  frame + below.bytes,
		frames: 1 + below.frames,
		path:   strings.TrimSpace(fmt.Sprintf("%s(%d) %s", name, f.bytes, below.path)),
	}
}

// functions splits a program, including the code that it calls, into functions.
func functions(t *testing.T, all asm.Instructions) map[string]function {
	t.Helper()
	found := make(map[string]function)
	for len(all) > 0 {
		end := 1 + slices.IndexFunc(all[1:], func(ins asm.Instruction) bool { return ins.Symbol() != "" })
		if end == 0 {
			end = len(all)
		}
		body := all[:end]
		f := function{bytes: frameOf(t, body)}
		for _, ins := range body {
			if ins.IsFunctionReference() && !slices.Contains(f.calls, ins.Reference()) {
				f.calls = append(f.calls, ins.Reference())
			}
		}
		found[body[0].Symbol()] = f
		all = all[end:]
	}
	return found
}

// none is the offset of a register that does not point into the frame.
const none = 1

// offsets are the least offsets from the frame pointer that registers may have.
type offsets [11]int

// frameOf returns the number of bytes below its frame pointer that a function uses. It follows the
// copies of the frame pointer along all paths through the function. A pointer counts where it is
// made, so it need not be followed through memory.
func frameOf(t *testing.T, body asm.Instructions) int {
	t.Helper()
	raw := make(map[int]int) // instruction by its place in units of 8 bytes, in which jumps are counted
	place := make([]int, len(body))
	for i, at := 0, 0; i < len(body); i++ {
		raw[at], place[i] = i, at
		at += int(body[i].Size() / asm.InstructionSize)
	}
	states := make([]*offsets, len(body))
	entry := offsets{none, none, none, none, none, none, none, none, none, none, 0}
	least := 0
	type visit struct {
		at    int
		state offsets
	}
	for todo := []visit{{0, entry}}; len(todo) > 0; {
		v := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if v.at >= len(body) {
			t.Fatalf("%s runs on behind its end", body[0].Symbol())
		}
		if !merge(&states[v.at], v.state) {
			continue
		}
		ins, state := body[v.at], *states[v.at]
		least = min(least, step(ins, &state))
		jump := ins.OpCode.JumpOp()
		isJump := ins.OpCode.Class().IsJump() && jump != asm.Call && jump != asm.Exit
		if isJump {
			distance := int(ins.Offset)
			if jump == asm.Ja && ins.OpCode.Class() == asm.Jump32Class {
				distance = int(ins.Constant)
			}
			target, ok := raw[place[v.at]+1+distance]
			if !ok {
				t.Fatalf("%s: %v leads nowhere", body[0].Symbol(), ins)
			}
			todo = append(todo, visit{target, state})
		}
		if jump != asm.Exit && !(isJump && jump == asm.Ja) {
			todo = append(todo, visit{v.at + 1, state})
		}
	}
	return -least
}

// merge joins a state into the known state at a place. It returns false if that adds nothing.
func merge(known **offsets, state offsets) bool {
	if *known == nil {
		*known = &state
		return true
	}
	news := false
	for r, o := range state {
		if o < (*known)[r] {
			(*known)[r], news = o, true
		}
	}
	return news
}

// step applies an instruction to the state, and returns the least offset that it uses.
func step(ins asm.Instruction, state *offsets) int {
	op := ins.OpCode
	switch class := op.Class(); {
	case class.IsLoad():
		least := 0
		if op.Mode() == asm.MemMode || op.Mode() == asm.MemSXMode {
			least = reach(ins.Src, ins.Offset, state)
		}
		state[ins.Dst] = none
		return least
	case class.IsStore():
		return reach(ins.Dst, ins.Offset, state)
	case class.IsALU():
		return compute(ins, state)
	case op.JumpOp() == asm.Call:
		for r := asm.R0; r <= asm.R5; r++ {
			state[r] = none
		}
	}
	return 0
}

// reach returns the offset of memory at a register, or 0 if it is not in the frame.
func reach(r asm.Register, offset int16, state *offsets) int {
	if state[r] == none {
		return 0
	}
	return state[r] + int(offset)
}

// compute applies an arithmetic instruction to the state.
func compute(ins asm.Instruction, state *offsets) int {
	op := ins.OpCode
	switch {
	case op.Class() == asm.ALU64Class && op.ALUOp() == asm.Mov && op.Source() == asm.RegSource:
		state[ins.Dst] = state[ins.Src]
	case state[ins.Dst] == none:
		// Sums of a number and a pointer come in either order.
		if op.Class() == asm.ALU64Class && op.ALUOp() == asm.Add && op.Source() == asm.RegSource {
			state[ins.Dst] = state[ins.Src]
		}
	case op.Class() == asm.ALU64Class && op.ALUOp() == asm.Add:
		if op.Source() == asm.ImmSource {
			state[ins.Dst] += int(ins.Constant)
		}
		return state[ins.Dst]
	default:
		state[ins.Dst] = none
	}
	return 0
}
