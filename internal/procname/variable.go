package procname

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"

	"github.com/beamscope/beamscope/internal/debuginfo"
	"github.com/beamscope/beamscope/usdt"
)

// A Message says where an event has the address of its message.
type Message struct {
	Arg      usdt.Arg
	Indirect bool // Arg is the address of a word, which has that of the message
}

// messageVariables are, by probe, the variables of the VM's functions that point to the
// message of an event: struct erl_mesg of erl_message.h, in OTP 25 to 29. The VM unlinks a
// message only behind message__receive, so no two that wait at a time have one address.
func messageVariables() map[string]string {
	return map[string]string{"message__queued": "msg", receiveProbe: "msgp"}
}

// receiveProbe is fired before the VM unlinks a message that a process has taken. Until
// then sig_qs.save of the process points to the word that points to this message, also
// where the compiler no longer keeps it in a register.
const (
	receiveProbe  = "message__receive"
	processStruct = "process"
	processVar    = "c_p"
	savePath      = "sig_qs.save"
)

// findMessages returns where the address of the message is at the sites of probes, by their
// addresses. The debugging information of the executable may be in another file. All sites
// have one, or there is an error.
func findMessages(ctx context.Context, f, debug *usdt.File) (at map[uint64]Message, err error) {
	probes, err := f.Probes("erlang")
	if err != nil {
		return nil, err
	}
	data, err := debuginfo.Read(ctx, debug)
	if err != nil {
		return nil, err
	}
	wanted := messageVariables()
	at = make(map[uint64]Message)
	for _, p := range probes {
		name, ok := wanted[p.Name]
		if !ok {
			continue
		}
		for _, site := range p.Sites {
			m, err := messageAt(data, f.Machine(), site.Address, name)
			if errors.Is(err, debuginfo.ErrVariable) && p.Name == receiveProbe {
				m, err = savedMessageAt(data, f.Machine(), site.Address)
			}
			if err != nil {
				return nil, fmt.Errorf("%s at %#x: %w", name, site.Address, err)
			}
			at[site.Address] = m
		}
	}
	return at, nil
}

// messageAt returns the register that a variable is in at an address, as the argument of a
// probe.
func messageAt(data *debuginfo.Data, machine elf.Machine, pc uint64, name string) (Message, error) {
	register, err := variableAt(data, machine, pc, name)
	if err != nil {
		return Message{}, err
	}
	args, err := usdt.ParseArgs(machine, "8@"+register)
	if err != nil {
		return Message{}, err
	}
	return Message{Arg: args[0]}, nil
}

// savedMessageAt returns where the process at an address says which message it takes.
func savedMessageAt(data *debuginfo.Data, machine elf.Machine, pc uint64) (Message, error) {
	register, err := variableAt(data, machine, pc, processVar)
	if err != nil {
		return Message{}, err
	}
	structs, err := data.Structs(processStruct)
	if err != nil {
		return Message{}, err
	}
	offset, size, err := structs[processStruct].Member(savePath, maxStruct)
	if err == nil && size != 8 {
		err = fmt.Errorf("%w: %s has %d bytes", debuginfo.ErrMember, savePath, size)
	}
	if err != nil {
		return Message{}, err
	}
	form := "8@%[1]d(%[2]s)"
	if machine == elf.EM_AARCH64 {
		form = "8@[%[2]s, %[1]d]"
	}
	args, err := usdt.ParseArgs(machine, fmt.Sprintf(form, offset, register))
	if err != nil {
		return Message{}, err
	}
	return Message{Arg: args[0], Indirect: true}, nil
}

// variableAt returns the name of the register that a variable is in at an address.
func variableAt(data *debuginfo.Data, machine elf.Machine, pc uint64, name string) (string, error) {
	n, err := data.Register(pc, name)
	if err != nil {
		return "", err
	}
	register, ok := registerName(machine, n)
	if !ok {
		return "", fmt.Errorf("%w: register %d", debuginfo.ErrVariable, n)
	}
	return register, nil
}

// registerName returns the name of a register by the number that DWARF gives it: System V
// ABI for AMD64, figure 3.36; DWARF for the Arm 64-bit Architecture.
func registerName(machine elf.Machine, n uint8) (string, bool) {
	amd64 := []string{
		"%rax", "%rdx", "%rcx", "%rbx", "%rsi", "%rdi", "%rbp", "%rsp",
		"%r8", "%r9", "%r10", "%r11", "%r12", "%r13", "%r14", "%r15",
	}
	switch {
	case machine == elf.EM_X86_64 && int(n) < len(amd64):
		return amd64[n], true
	case machine == elf.EM_AARCH64 && n <= 30:
		return fmt.Sprintf("x%d", n), true
	}
	return "", false
}
