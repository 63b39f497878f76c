package recording

import (
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// The least sizes of counts and instances in a payload, in bytes.
const (
	minCounts   = 5
	minGroup    = 9
	minInstance = 8
)

// batch is the inverse of Encoder.AppendBatch.
func (d *decoder) batch() *outcome.Batch {
	var b outcome.Batch
	b.Window.From = d.int()
	b.Window.To = b.Window.From + d.int()
	b.Time = d.time()
	if n := d.count("counts", MaxCounts, minCounts); n > 0 {
		b.Counts = make([]outcome.Counts, n)
	}
	bins, groups := MaxTotalBins, MaxGroups
	for i := range b.Counts {
		d.counts(&b.Counts[i], bins, groups)
		bins -= len(b.Counts[i].Bins)
		groups -= len(b.Counts[i].Groups)
	}
	if n := d.count("instances", MaxInstances, minInstance); n > 0 {
		b.Instances = make([]outcome.Instance, n)
	}
	last, spans := &outcome.Instance{End: b.Window.From}, MaxSpans
	for i := range b.Instances {
		d.instance(&b.Instances[i], last)
		if t := b.Instances[i].Trace; t != nil {
			spans -= len(t.Spans)
		}
		if spans < 0 {
			d.fail("more than %d spans in traces", MaxSpans)
		}
		last = &b.Instances[i]
	}
	b.Rejected = outcome.Rejected{Count: d.uint(), Last: d.name()}
	b.Cost = outcome.Cost{Events: d.uint(), PerEvent: time.Duration(d.int()), Collector: time.Duration(d.int())}
	return &b
}

// counts decodes counts, with at most this many bins and groups.
func (d *decoder) counts(c *outcome.Counts, bins, groups int) {
	c.Outcome = d.name()
	c.VM = d.vm()
	mask := d.uint()
	if mask >= unobserved<<1 {
		d.fail("figures that are not known, in %#x", mask)
	}
	c.Unobserved = mask&unobserved != 0
	for i, f := range figures(c) {
		if mask&(1<<i) != 0 {
			*f = d.uint()
		}
	}
	c.Bins = decodeBins[uint64](d, min(bins, MaxBins))
	if n := d.count("groups", groups, minGroup); n > 0 {
		c.Groups = make([]outcome.Group, n)
	}
	for i := range c.Groups {
		d.group(&c.Groups[i])
	}
}

func (d *decoder) group(g *outcome.Group) {
	g.Key = d.name()
	g.Process = outcome.PID(d.uint())
	g.Name = d.name()
	g.Successes, g.Failures, g.Timeouts = d.uint(), d.uint(), d.uint()
	g.Total = time.Duration(d.int())
	g.Amount = d.uint()
	g.Delays = decodeBins[uint32](d, outcome.DelayBuckets)
	if n := len(g.Delays); n != 0 && n != outcome.DelayBuckets {
		d.fail("delays in %d buckets: want none or %d", n, outcome.DelayBuckets)
	}
}

// decodeBins is the inverse of appendBins. Zero bins need no bytes, so the number is limited
// separately.
func decodeBins[T uint32 | uint64](d *decoder, limit int) []T {
	n := d.uint()
	if n > uint64(limit) {
		d.fail("%d bins: at most %d here", n, limit)
		return nil
	}
	if n == 0 || d.err != nil {
		return nil
	}
	bins := make([]T, n)
	for rest := bins; len(rest) > 0 && d.err == nil; {
		rest = rest[d.run(len(rest)):]
		if len(rest) == 0 {
			break
		}
		values := d.run(len(rest))
		if values == 0 {
			d.fail("a run of no bins")
		}
		for i := range values {
			v := d.uint()
			if rest[i] = T(v); uint64(rest[i]) != v {
				d.fail("%d in a bin: at most %d", v, ^T(0))
			}
		}
		rest = rest[values:]
	}
	return bins
}

// run returns the length of a run of bins.
func (d *decoder) run(limit int) int {
	n := d.uint()
	if n > uint64(limit) {
		d.fail("a run of %d bins, where %d are left", n, limit)
		return 0
	}
	return int(n)
}

func (d *decoder) instance(i, last *outcome.Instance) {
	flags := d.byte()
	if flags >= 1<<(traceBit+1) || flags&(1<<parentBit-1) > byte(outcome.Timeout) {
		d.fail("an instance of status %d", flags)
	}
	i.Status = outcome.Status(flags & (1<<parentBit - 1))
	i.Outcome = d.name()
	i.VM = d.vm()
	i.End = last.End + d.int()
	i.Start = i.End - d.int()
	i.ID = last.ID + uint64(d.int())
	if flags&(1<<parentBit) != 0 {
		i.Parent = i.ID - uint64(d.int())
	}
	i.Process = last.Process + outcome.PID(d.int())
	i.Class = d.name()
	if flags&(1<<traceBit) != 0 && d.err == nil {
		i.Trace = d.trace(i)
	}
}

func (d *decoder) name() string {
	switch n := d.uint(); {
	case n == noName:
		return ""
	case n == newName:
		return d.newName()
	case n-firstName < uint64(len(d.plan)):
		return d.plan[n-firstName]
	case n-firstName-uint64(len(d.plan)) < uint64(len(d.names)):
		return d.names[n-firstName-uint64(len(d.plan))]
	default:
		d.fail("name %d, which is not defined", n)
		return ""
	}
}

func (d *decoder) newName() string {
	if len(d.names) == MaxNames {
		d.fail("more than %d names", MaxNames)
	}
	name := d.text()
	d.names = append(d.names, name)
	return name
}

func (d *decoder) vm() outcome.VM {
	n := d.uint()
	if n == newVM {
		vm := outcome.VM{PID: int(d.int()), Node: d.name()}
		d.vms = append(d.vms, vm)
		return vm
	}
	if n-firstVM >= uint64(len(d.vms)) {
		d.fail("VM %d, which is not defined", n)
		return outcome.VM{}
	}
	return d.vms[n-firstVM]
}
