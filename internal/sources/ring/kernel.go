package ring

import "github.com/beamscope/beamscope/internal/beam/vm"

// A Kernel reports since when programs in the kernel count the explained spans of a VM, in nanoseconds
// of CLOCK_MONOTONIC, or 0 if they count none. That is the beginning of their attaching, during which
// they miss some spans. calls means that they see spans that call a function, instead of spans that
// fire a probe. Any goroutine may call it.
type Kernel func(vm.VM) (since int64, calls bool)

// of returns since when programs in the kernel count the explained spans of one VM. According to its
// header, the application fires a probe for such a span, calls a function, or neither.
func (k Kernel) of(v vm.VM, h header) (since int64) {
	if k == nil {
		return 0
	}
	if since, calls := k(v); h.probes && !calls || h.calls && calls {
		return since
	}
	return 0
}

// A kernel tracks since when programs in the kernel count the explained spans of a VM. Those are not
// counted here.
type kernel struct {
	sight   func() int64    // returns the time, or 0
	changed func(seen bool) // called if the programs begin or end to count spans that the plan has explained
	since   int64           // what sight returned last
	newest  int64           // time of the latest start of an explained span that was counted here
	turned  bool            // the programs have begun to count at this poll
}

// counts reports whether programs in the kernel count an explained span that starts at a time.
func (k *kernel) counts(start int64) bool { return k.since != 0 && start >= k.since }

// look determines again which explained spans programs in the kernel count.
func (o *observed) look(now int64) {
	k := &o.kernel
	k.turned = false
	since := k.sight()
	if since == k.since {
		return
	}
	if k.since != 0 { // the counts of the windows that were not collected are lost, and so are open spans
		o.gap(min(o.book.Next(), now), now+o.longest())
	}
	if since != 0 && k.newest >= since { // counted twice
		o.gap(since, now+o.longest())
	}
	k.since, k.turned = since, since != 0
	if o.control.explain != 0 {
		k.changed(k.turned)
	}
	o.explaining = 0
	o.renewed = now - renewal // write the control word at this poll
}

// leaves reports whether a record is left to programs in the kernel. It is of a start, or of an end
// before whose start it was read.
func (o *observed) leaves(r *record, before int64) bool {
	k := &o.kernel
	if k.turned && r.time >= min(before, k.since) { // programs may have counted the span or not
		o.gap(min(before, k.since), o.polled+o.longest())
	}
	if r.time < o.unsure && k.counts(r.time) { // shown for another collector, perhaps while programs were being attached
		o.gap(r.time, o.unsure+o.longest())
	}
	if !k.counts(r.time) {
		if r.kind == start {
			k.newest = max(k.newest, r.time)
		}
		return false
	}
	return r.kind == start || o.reader.fate(r.span) == toCome
}

// requested returns the requests to the program. It does not request spans to be shown to programs in
// the kernel that do not see them.
func (o *observed) requested() control {
	c := o.control
	if o.kernel.since == 0 {
		c.explain = 0
	}
	return c
}
