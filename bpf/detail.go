package bpf

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/beamscope/beamscope/dtrace"
)

// A ProcessLayout says where the VM's struct process, and what it leads to, have members
// that tell more of what happens: offsets in bytes, 0 where they are not known. They are read as OTP 25 has them.
type ProcessLayout struct {
	State                            uint32 // what [Event.State] tells, but for timers; 32 bits
	Flags                            uint32 // what [Event.State] tells of timers; 32 bits
	Save                             uint32 // pointer to a pointer to the message that a receive looks at
	SeqTraceClock, SeqTraceLastCount uint32 // the token of a message to an alias; 64 bits each
	Suspensions                      uint32 // how many times it is suspended; 32 bits
	Timer                            uint32 // the timer of a receive, 1 where its time is over; 64 bits
	Message                          uint32 // where a message, not the process, has its term; 64 bits, and its token and origin follow
}

// A detail is a program that logs what a probe tells of processes that take part in open
// spans.
type detail struct {
	probe, program string
	kind           kernelLogged // 0 where the program logs one kind only
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

// As in detail.bpf.h: behind which arguments the address of a message is, and what a cookie
// says of it.
const (
	argMessageAddress = 6
	messageIndirect   = 1 << 8
)

// detailSites returns the places of a detail that can be had.
func (c *Collector) detailSites(d detail, t Target) (found siteList, err error) {
	probe, err := t.probe(d.probe)
	if err != nil {
		return nil, err
	}
	known, _ := dtrace.Lookup(d.probe)
	for _, site := range probe.Sites {
		args, cookie := site.Args, uint64(d.kind)
		if m, known := t.Messages[site.Address]; known && d.program == kernelProgDetailReceived && len(args) == argMessageAddress {
			args = append(slices.Clone(args), m.Arg)
			if m.Indirect {
				cookie |= messageIndirect
			}
		}
		v := variant{program: d.program, args: newBlockArguments(args), layout: t.Layout}
		if known.Function != nil || d.program == kernelProgDetailReceived {
			v.terms = t.Terms.behind(site)
		}
		found.add(v, known.Function != nil && known.Function.Return, site, cookie)
	}
	return found, nil
}

// hasDetails reports whether the details are attached to anywhere.
func (c *Collector) hasDetails() bool {
	return slices.ContainsFunc(c.targets, func(a *Attachment) bool {
		_, have := a.links[detailTap()]
		return have
	})
}

// forgetDetails forgets what the details' programs know of processes and threads from when
// they were attached before: what happened since then they have not seen.
func (c *Collector) forgetDetails() error {
	return errors.Join(clearMap(c.maps.Watches), clearMap(c.maps.Runners), clearMap(c.maps.OffCpus))
}

// clearMap deletes what is in a hash map that nobody writes to meanwhile.
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

// detailTrace is what the details' programs at the kernel's tracepoints are called among
// those of entries.
const detailTrace = -1

// openDetailTraces attaches to the tracepoints what tells of threads that do not run. Where
// nothing is attached yet that explains, it forgets what was known.
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

// detailVariants returns the details' programs at tracepoints, ends first.
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
