package outcome

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// ErrNoSource means that none of the joined sources observes an outcome.
var ErrNoSource = errors.New("no source observes this outcome")

// A Part is a source and the outcomes of a plan that it observes. Several parts may observe one
// outcome: their counts are added, and no two parts may have the same instance. Every part but the
// last must be able to replace a plan that has not begun by one with the same From: it needs that
// to return to the old plan if a later part refuses its own.
type Part struct {
	Source Source
	Wants  func(Spec) bool
}

// Only returns the plan with only those specs that wants accepts, in their order. The source of a
// part is created for such a plan.
func (p Plan) Only(wants func(Spec) bool) Plan {
	specs := make([]Spec, 0, len(p.Specs))
	for _, s := range p.Specs {
		if wants(s) {
			specs = append(specs, s)
		}
	}
	p.Specs = specs
	return p
}

// A Joint combines several sources into one.
type Joint struct {
	parts  []part
	plans  []jointPlan // the plan in force, and later ones
	why    error       // error with which the last source ended
	counts []Counts
	ends   []Instance
}

// A part is one of the sources, with its last batch.
type part struct {
	Part
	ended bool
	batch Batch
	taken int // number of its counts that were taken
}

// A jointPlan is a plan that says which parts observe each of its specs.
type jointPlan struct {
	Plan
	owners [][]int
}

// Join makes one source out of several. Each part's source was made for the specs of the plan
// that the part wants. The Joint ends when all parts have ended. The error wraps [ErrNoSource].
func Join(p Plan, parts ...Part) (*Joint, error) {
	j := &Joint{parts: make([]part, len(parts)), why: ErrEnded}
	for i, p := range parts {
		j.parts[i].Part = p
	}
	first, err := j.divide(p)
	if err != nil {
		return nil, err
	}
	j.plans = []jointPlan{first}
	return j, nil
}

// divide assigns the outcomes of a plan to the parts.
func (j *Joint) divide(p Plan) (jointPlan, error) {
	p.Specs = slices.Clone(p.Specs)
	divided := jointPlan{Plan: p}
	for _, spec := range p.Specs {
		var owners []int
		for i, p := range j.parts {
			if p.Wants(spec) {
				owners = append(owners, i)
			}
		}
		if len(owners) == 0 {
			return jointPlan{}, fmt.Errorf("%s: %w", spec.Name, ErrNoSource)
		}
		divided.owners = append(divided.owners, owners)
	}
	return divided, nil
}

// of returns the plan for a part.
func (p jointPlan) of(part int) Plan {
	i := -1
	return p.Only(func(Spec) bool { i++; return slices.Contains(p.owners[i], part) })
}

// Plan implements [Source]. If a part fails, the parts before it get their previous plan back. If
// that fails as well, the error reports it.
func (j *Joint) Plan(ctx context.Context, p Plan) error {
	next, err := j.divide(p)
	if err != nil {
		return err
	}
	last := j.plans[len(j.plans)-1]
	for i := range j.parts {
		if err := j.parts[i].plan(ctx, next.of(i)); err != nil {
			return errors.Join(err, j.restore(context.WithoutCancel(ctx), i, last, p.From))
		}
	}
	j.plans = slices.DeleteFunc(j.plans, func(old jointPlan) bool { return old.From == p.From })
	j.plans = append(j.plans, next)
	return nil
}

// restore makes the first parts return to their previous plan from a time on.
func (j *Joint) restore(ctx context.Context, parts int, old jointPlan, from int64) error {
	old.From = from
	var errs []error
	for i := range j.parts[:parts] {
		if err := j.parts[i].plan(ctx, old.of(i)); err != nil {
			errs = append(errs, fmt.Errorf("go on as before: %w", err))
		}
	}
	return errors.Join(errs...)
}

// plan plans the part, unless it has ended.
func (p *part) plan(ctx context.Context, plan Plan) error {
	if p.ended {
		return nil
	}
	return p.Source.Plan(ctx, plan)
}

// Collect implements [Source]. If a part has ended before others, its counts have no VM.
func (j *Joint) Collect(ctx context.Context, w Window) (Batch, error) {
	for len(j.plans) > 1 && j.plans[1].From <= w.From {
		j.plans = j.plans[1:]
	}
	running := false
	for i := range j.parts {
		if err := j.parts[i].collect(ctx, w); errors.Is(err, ErrEnded) {
			j.why = err
		} else if err != nil {
			return Batch{}, err
		}
		running = running || !j.parts[i].ended
	}
	if running {
		return j.merge(w), nil
	}
	if !slices.ContainsFunc(j.parts, func(p part) bool { return len(p.batch.Counts) > 0 }) {
		return Batch{}, j.why
	}
	return j.merge(w), j.why
}

// collect collects from the part, unless it has ended.
func (p *part) collect(ctx context.Context, w Window) error {
	p.batch, p.taken = Batch{}, 0
	if p.ended {
		return nil
	}
	var err error
	p.batch, err = p.Source.Collect(ctx, w)
	p.ended = errors.Is(err, ErrEnded)
	return err
}

// merge merges the batches of the parts into one.
func (j *Joint) merge(w Window) Batch {
	merged := Batch{Window: w, Owners: j.owners()}
	j.counts = j.counts[:0]
	blind := make(map[countsKey]bool)
	for i, spec := range j.plans[0].Specs {
		first := len(j.counts)
		for _, owner := range j.plans[0].owners[i] {
			j.counts = j.parts[owner].take(j.counts, spec)
		}
		if len(j.plans[0].owners[i]) > 1 {
			j.counts = append(j.counts[:first], combine(j.counts[first:], blind)...)
		}
	}
	j.ends = j.ends[:0]
	for _, p := range j.parts {
		if merged.Time.IsZero() {
			merged.Time = p.batch.Time
		}
		j.ends = append(j.ends, p.batch.Instances...)
		merged.Rejected.Count += p.batch.Rejected.Count
		merged.Rejected.Last = cmp.Or(merged.Rejected.Last, p.batch.Rejected.Last)
		merged.Cost = merged.Cost.Add(p.batch.Cost)
		merged.Loads = append(merged.Loads, p.batch.Loads...)
		merged.Users = append(merged.Users, p.batch.Users...)
		merged.Strangers = merged.Strangers || p.batch.Strangers
		merged.Renew = merged.Renew || p.batch.Renew
	}
	if len(blind) > 0 {
		j.ends = slices.DeleteFunc(j.ends, func(i Instance) bool { return blind[countsKey{i.Outcome, i.VM}] })
	}
	slices.SortStableFunc(j.ends, func(a, b Instance) int { return cmp.Compare(a.End, b.End) })
	merged.Counts, merged.Instances = j.counts, j.ends
	return merged
}

// owners returns the owners of all VMs. If several parts know that of a VM, the first one decides.
func (j *Joint) owners() map[VM]string {
	var all map[VM]string
	for _, p := range slices.Backward(j.parts) {
		if all == nil && len(p.batch.Owners) > 0 {
			all = make(map[VM]string)
		}
		maps.Copy(all, p.batch.Owners)
	}
	return all
}

// take appends the part's counts of an outcome. The part has its counts in the order of the
// specs. If it has none because it has ended, take appends empty counts.
func (p *part) take(counts []Counts, spec Spec) []Counts {
	before := p.taken
	for p.taken < len(p.batch.Counts) && p.batch.Counts[p.taken].Outcome == spec.Name {
		p.taken++
	}
	if p.taken == before {
		return append(counts, Counts{Outcome: spec.Name, Bins: make([]uint64, spec.Bins)})
	}
	return append(counts, p.batch.Counts[before:p.taken]...)
}

// A countsKey identifies counts in a window.
type countsKey struct {
	outcome string
	vm      VM
}

// combine adds the counts of several parts for one outcome, VM by VM. It keeps counts without a
// VM only if no part has a VM. If a part did not observe a VM for the whole window, the other
// parts' counts are incomplete: they become loss, and blind records the VM.
func combine(counts []Counts, blind map[countsKey]bool) []Counts {
	var all []Counts
	var sums []int // indexes of entries that several parts have counted
	for _, c := range counts {
		i := slices.IndexFunc(all, func(d Counts) bool { return d.VM == c.VM })
		if i < 0 {
			all = append(all, c)
			continue
		}
		sums = append(sums, i)
		sum := all[i].Add(c)
		if sum.Bins = all[i].Bins; c.Successes > 0 {
			sum.Bins = slices.Clone(sum.Bins)
			for bin, n := range c.Bins {
				sum.Bins[bin] += n
			}
		}
		sum.Groups = slices.Concat(all[i].Groups, c.Groups)
		all[i] = sum
	}
	for _, i := range sums {
		if c := &all[i]; c.Unobserved && c.Instances() > 0 {
			c.Loss.Missed += c.Instances()
			c.Successes, c.Failures, c.Timeouts, c.Inferred, c.Amount, c.Groups = 0, 0, 0, 0, 0, nil
			c.Bins = make([]uint64, len(c.Bins))
			blind[countsKey{c.Outcome, c.VM}] = true
		}
	}
	if slices.ContainsFunc(all, func(c Counts) bool { return c.VM != VM{} }) {
		all = slices.DeleteFunc(all, func(c Counts) bool { return c.VM == VM{} && c.empty() })
	}
	slices.SortStableFunc(all, func(a, b Counts) int {
		return cmp.Or(cmp.Compare(a.VM.PID, b.VM.PID), cmp.Compare(a.VM.Node, b.VM.Node))
	})
	return all
}

// empty reports whether nothing was counted.
func (c Counts) empty() bool {
	return c.Starts+c.Ends+c.Instances()+c.Orphans+c.Lates+c.Unstreamed+c.Loss.Total() == 0 && !c.Unobserved
}

// Add returns the sum of two costs, with the mean price of an event.
func (c Cost) Add(d Cost) Cost {
	sum := Cost{Events: c.Events + d.Events, PerEvent: max(c.PerEvent, d.PerEvent), Collector: c.Collector + d.Collector}
	if sum.Events > 0 {
		paid := float64(c.Events)*float64(c.PerEvent) + float64(d.Events)*float64(d.PerEvent)
		sum.PerEvent = time.Duration(paid / float64(sum.Events))
	}
	return sum
}

// Watch implements [Source].
func (j *Joint) Watch(ctx context.Context) []Notice {
	var notices []Notice
	for _, p := range j.parts {
		notices = append(notices, p.Source.Watch(ctx)...)
	}
	return notices
}

// Close implements [Source].
func (j *Joint) Close() error {
	errs := make([]error, len(j.parts))
	for i, p := range j.parts {
		errs[i] = p.Source.Close()
	}
	return errors.Join(errs...)
}

var _ Discoverer = (*Joint)(nil)

// Discovered implements [Discoverer]: it returns the discoveries of all parts.
func (j *Joint) Discovered() []Discovery {
	var names []Discovery
	for _, p := range j.parts {
		if d, ok := p.Source.(Discoverer); ok && !p.ended {
			names = append(names, d.Discovered()...)
		}
	}
	return names
}
