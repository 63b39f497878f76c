package procname

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/beam/debuginfo"
	"github.com/beamscope/beamscope/usdt"
)

// A Message is the place of the message's address at an event.
type Message struct {
	Arg      usdt.Arg
	Indirect bool // Arg is the address of a word that contains the address of the message
}

// messageVariables has, by probe, the variables of the VM's functions that point to the message of
// an event: struct erl_mesg of erl_message.h, in OTP 25 to 29. The VM unlinks a message only after
// message__receive, so two messages that wait at the same time have different addresses.
func messageVariables() map[string]string {
	return map[string]string{"message__queued": "msg", receiveProbe: "msgp"}
}

// receiveProbe fires before the VM unlinks a message that a process has taken. Until then,
// sig_qs.save of the process points to the word that points to this message, even if the compiler
// no longer keeps the pointer in a register.
const (
	receiveProbe  = "message__receive"
	processStruct = "process"
	processVar    = "c_p"
	savePath      = "sig_qs.save"
)

// findMessages returns the places of the message's address at the sites of probes, by the addresses
// of the sites. The debugging information of the executable may be in another file. If a site has
// no place, findMessages returns an error.
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
			m, err := messageAt(data, f, site.Address, name)
			if errors.Is(err, debuginfo.ErrVariable) && p.Name == receiveProbe {
				m, err = savedMessageAt(data, f, site.Address)
			}
			if err != nil {
				return nil, fmt.Errorf("variable %s of %s at %#x: %w", name, dtrace.Hyphened(p.Name), site.Address, err)
			}
			at[site.Address] = m
		}
	}
	return at, nil
}

// messageAt returns the place of a variable at an address, as the argument of a probe.
func messageAt(data *debuginfo.Data, f *usdt.File, pc uint64, name string) (Message, error) {
	place, err := data.Variable(f, pc, name)
	if err != nil {
		return Message{}, err
	}
	arg, err := placeArg(f.Machine(), place)
	return Message{Arg: arg}, err
}

// savedMessageAt returns the place where a process points to the message that it takes, at an
// address of the code.
func savedMessageAt(data *debuginfo.Data, f *usdt.File, pc uint64) (Message, error) {
	place, err := data.Variable(f, pc, processVar)
	if err == nil && place.Memory {
		err = fmt.Errorf("%w: it is in no register", debuginfo.ErrVariable)
	}
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
	place.Memory, place.Offset = true, int64(offset)
	arg, err := placeArg(f.Machine(), place)
	return Message{Arg: arg, Indirect: true}, err
}

// placeArg returns the place of a variable of eight bytes as the argument of a probe.
func placeArg(machine elf.Machine, p debuginfo.Place) (usdt.Arg, error) {
	spec, err := p.Spec(machine)
	if err != nil {
		return usdt.Arg{}, err
	}
	args, err := usdt.ParseArgs(machine, spec)
	if err != nil {
		return usdt.Arg{}, err
	}
	return args[0], nil
}
