package bpf

import (
	"errors"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
)

// MultiLinks returns nil if the kernel has links of a program to many places at once (uprobe_multi,
// Linux 6.6). Without them a [Collector] makes a link for each place. Then it does not attach to the
// probes of all labels for [Options.Discover], and a return of a function in one process is also seen
// by programs that are attached to another process which runs the same file.
func MultiLinks() error { return features.HaveBPFLinkUprobeMulti() }

// adapt changes a program for a kernel without uprobe_multi. Such a kernel also restricts the maps of
// programs that may sleep, so the programs that user space runs do not sleep there.
func (c *Collector) adapt(p *ebpf.ProgramSpec) {
	switch {
	case c.multi:
	case p.AttachType == ebpf.AttachTraceUprobeMulti:
		p.AttachType = ebpf.AttachNone
	case p.Type == ebpf.Syscall:
		p.Type, p.Flags = ebpf.RawTracepoint, 0
	}
}

// linkAll attaches a program to places. pid is a process, or 0 for all.
func linkAll(exe *link.Executable, program *ebpf.Program, s *sites, pid int, multi bool) (link.Link, error) {
	if !multi {
		return linkEach(exe, program, s, pid)
	}
	opts := &link.UprobeMultiOptions{Addresses: s.offsets, Cookies: s.cookies, PID: uint32(pid)}
	if s.variant.returns {
		return exe.UretprobeMulti(nil, program, opts)
	}
	opts.RefCtrOffsets = s.semaphores
	return exe.UprobeMulti(nil, program, opts)
}

// linkEach attaches a program to one place after the other.
func linkEach(exe *link.Executable, program *ebpf.Program, s *sites, pid int) (link.Link, error) {
	all := new(links)
	for i, offset := range s.offsets {
		opts := &link.UprobeOptions{Address: offset, PID: pid}
		if s.cookies != nil {
			opts.Cookie = s.cookies[i]
		}
		attach := exe.Uretprobe
		if !s.variant.returns {
			attach = exe.Uprobe
			if s.semaphores != nil {
				opts.RefCtrOffset = s.semaphores[i]
			}
		}
		l, err := attach("", program, opts)
		if err != nil {
			return nil, errors.Join(err, all.Close())
		}
		all.each = append(all.each, l)
	}
	return all, nil
}

// links are links that are used as one.
type links struct {
	link.Link
	each []link.Link
}

// Close closes the links in parallel, because each waits until no program can run at it.
func (l *links) Close() error {
	errs := make([]error, len(l.each))
	var closing sync.WaitGroup
	for i, one := range l.each {
		closing.Go(func() { errs[i] = one.Close() })
	}
	closing.Wait()
	return errors.Join(errs...)
}
