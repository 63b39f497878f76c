package bpf

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// A ProcessLayout contains the places of members in the VM's struct process and in structures that
// it points to: offsets in bytes, 0 if unknown. They have the form of OTP 25, 27 and 29.
type ProcessLayout struct {
	State                            uint32 // the bits of [Event.State] that are not about timers; 32 bits
	Flags                            uint32 // the bits of [Event.State] about timers; 32 bits
	Save                             uint32 // pointer to a pointer to the message that a receive examines
	SeqTraceClock, SeqTraceLastCount uint32 // the token of a message to an alias; 64 bits each
	Suspensions                      uint32 // number of suspensions; 32 bits
	Timer                            uint32 // the timer of a receive, or 1 if it has expired; 64 bits
	Message                          uint32 // offset in a message, not in the process, of its term; 64 bits, followed by its token and origin
}

// WithoutStates returns the layout without the members that show whether a process waits.
func (l ProcessLayout) WithoutStates() ProcessLayout {
	l.State, l.Flags, l.Suspensions, l.Timer = 0, 0, 0, 0
	return l
}

// A detail is a program that logs a probe's events of processes that take part in open spans.
type detail struct {
	probe, program string
	kind           kernelLogged // 0 if the program logs only one kind
}

// details returns all of them.
func details() []detail {
	return []detail{
		{"process__exit", kernelProgDetailExit, 0},
		{"process__in", kernelProgDetailIn, 0},
		{"process__out", kernelProgDetailOut, 0},
		{"process__ready", kernelProgDetailReady, 0},
		{"process__suspend", kernelProgDetailSuspend, 0},
		{"process__suspend__by", kernelProgDetailBy, kernelLoggedLOG_HOLD},
		{"process__resume", kernelProgDetailResume, 0},
		{"processes__resume", kernelProgDetailResumeList, 0},
		{"process__resume__by", kernelProgDetailBy, kernelLoggedLOG_RELEASE},
		{"process__monitor", kernelProgDetailMonitor, 0},
		{"gc_minor__end", kernelProgDetailPlain, kernelLoggedLOG_GC_END},
		{"gc_major__end", kernelProgDetailPlain, kernelLoggedLOG_GC_END},
		{"gc_minor__start", kernelProgDetailPlain, kernelLoggedLOG_GC_START},
		{"gc_major__start", kernelProgDetailPlain, kernelLoggedLOG_GC_START},
		{"nif__return", kernelProgDetailNif, kernelLoggedLOG_NIF_END},
		{"nif__entry", kernelProgDetailNif, kernelLoggedLOG_NIF_START},
		{"message__receive", kernelProgDetailReceived, kernelLoggedLOG_RECEIVE},
		{"message__queued", kernelProgDetailReceived, kernelLoggedLOG_QUEUED},
		{"message__send", kernelProgDetailSend, 0},
		{"message__send__alias", kernelProgDetailSendAlias, 0},
	}
}

// As in detail.bpf.h: the arguments after which the address of a message comes, and the meaning of
// a cookie.
const (
	argMessageAddress = 6
	messageIndirect   = 1 << 8
	messageUnfetched  = 1 << 9
)

// tellsMessages reports whether the programs at a detail's probe read the VM's way of reporting
// messages.
func (d detail) tellsMessages() bool {
	switch d.program {
	case kernelProgDetailSend, kernelProgDetailSendAlias, kernelProgDetailReceived:
		return true
	}
	return false
}

// detailSites returns the available places of a detail.
func (c *Collector) detailSites(d detail, t Target) (found siteList, err error) {
	if t.StandIns && d.kind == kernelLoggedLOG_QUEUED {
		return nil, nil // message__send reports the same
	}
	probe, err := t.probe(d.probe)
	if err != nil {
		return nil, err
	}
	for _, site := range probe.Sites {
		if t.Shared[site.Address] == d.probe {
			continue // also a site of the other probe
		}
		args, cookie := site.Args, uint64(d.kind)
		if t.StandIns && d.tellsMessages() {
			cookie |= messageUnfetched
		}
		if m, known := t.Messages[site.Address]; known && d.tellsMessages() && len(args) == argMessageAddress {
			args = append(slices.Clone(args), m.Arg)
			if m.Indirect {
				cookie |= messageIndirect
			}
		}
		v := variant{program: d.program, args: newBlockArguments(args), layout: t.Layout}
		if standsIn(site) || d.program == kernelProgDetailReceived {
			v.terms = t.Terms.behind(site)
		}
		found.add(v, site, cookie)
	}
	return found, nil
}

// hasDetails reports whether the details are attached anywhere.
func (c *Collector) hasDetails() bool {
	return slices.ContainsFunc(c.targets, func(a *Attachment) bool {
		_, have := a.links[detailTap()]
		return have
	})
}

// forgetDetails clears the details' programs' data about processes and threads from an earlier
// attachment: they have not seen later events.
func (c *Collector) forgetDetails() error {
	return errors.Join(clearMap(c.maps.Watches), clearMap(c.maps.Runners), clearMap(c.maps.OffCpus))
}

// clearMap deletes the entries of a hash map that has no writer meanwhile.
func clearMap(m *ebpf.Map) error {
	var keys [][]byte
	for key, err := m.NextKeyBytes(nil); key != nil || err != nil; key, err = m.NextKeyBytes(key) {
		if err != nil {
			return fmt.Errorf("clear %s: %w", m, err)
		}
		keys = append(keys, key)
	}
	for _, key := range keys {
		if err := m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("clear %s: %w", m, err)
		}
	}
	return nil
}

// detailTrace is the key of the details' programs at the kernel's tracepoints, among those of
// entries.
const detailTrace = -1

// openDetailTraces attaches the programs that report threads that do not run to the tracepoints. If
// no details are attached yet, it clears their earlier data.
func (c *Collector) openDetailTraces() error {
	if !c.explains() || c.traces[detailTrace] != nil {
		return nil
	}
	if !c.hasDetails() {
		if err := c.forgetDetails(); err != nil {
			return err
		}
	}
	var links []link.Link
	for _, v := range detailVariants() {
		l, err := c.openTrace(v)
		if err != nil {
			return errors.Join(fmt.Errorf("%w: %w", ErrNoTracepoints, err), closeAll(links))
		}
		links = append(links, l)
	}
	c.traces[detailTrace] = links
	return nil
}

// detailVariants returns the details' programs at tracepoints, those for ends first.
func detailVariants() []variant {
	return []variant{
		{program: kernelProgDetailSwitch, args: newArguments(nil)},
		{program: kernelProgDetailWakeup, args: newArguments(nil)},
	}
}

// openTrace attaches a program to its tracepoint.
func (c *Collector) openTrace(v variant) (link.Link, error) {
	p, err := c.program(v)
	if err != nil {
		return nil, err
	}
	return link.AttachTracing(link.TracingOptions{Program: p, AttachType: ebpf.AttachTraceRawTp})
}
