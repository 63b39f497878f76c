package procname

import (
	"context"
	"debug/elf"
	"fmt"

	"github.com/beamscope/beamscope/internal/debuginfo"
	"github.com/beamscope/beamscope/usdt"
)

// messageVariables are, by probe, the variables of the VM's functions that point to the
// message of an event: struct erl_mesg of erl_message.h, in OTP 25 to 29. The VM unlinks a
// message only behind message__receive, so no two that wait at a time have one address.
func messageVariables() map[string]string {
	return map[string]string{"message__queued": "msg", "message__receive": "msgp"}
}

// findMessages returns where the address of the message is at the sites of probes, by their
// addresses. The debugging information of the executable may be in another file. All sites
// have one, or there is an error.
func findMessages(ctx context.Context, f, debug *usdt.File) (at map[uint64]usdt.Arg, err error) {
	probes, err := f.Probes("erlang")
	if err != nil {
		return nil, err
	}
	data, err := debuginfo.Read(ctx, debug)
	if err != nil {
		return nil, err
	}
	wanted := messageVariables()
	at = make(map[uint64]usdt.Arg)
	for _, p := range probes {
		name, ok := wanted[p.Name]
		if !ok {
			continue
		}
		for _, site := range p.Sites {
			if at[site.Address], err = messageAt(data, f.Machine(), site.Address, name); err != nil {
				return nil, fmt.Errorf("%s at %#x: %w", name, site.Address, err)
			}
		}
	}
	return at, nil
}

// messageAt returns the register that a variable is in at an address, as the argument of a
// probe.
func messageAt(data *debuginfo.Data, machine elf.Machine, pc uint64, name string) (usdt.Arg, error) {
	n, err := data.Register(pc, name)
	if err != nil {
		return usdt.Arg{}, err
	}
	register, ok := registerName(machine, n)
	if !ok {
		return usdt.Arg{}, fmt.Errorf("%w: register %d", debuginfo.ErrVariable, n)
	}
	args, err := usdt.ParseArgs(machine, "8@"+register)
	if err != nil {
		return usdt.Arg{}, err
	}
	return args[0], nil
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
