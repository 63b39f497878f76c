package outcome

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrNoSource says that none of the joined sources observes an outcome.
var ErrNoSource = errors.New("no source observes this outcome")

// A Part is a source and the outcomes that it observes among those of a plan. An outcome may
// be that of several parts: then their counts are added, and none may have instances of
// another one. Every part but the last has to replace a plan that has not begun by one with
// the same From: that is how it gets the old one back where a part after it refuses its own.
type Part struct {
	Source Source
	Wants  func(Spec) bool
}

// Only returns the plan with those of its specs that are wanted, in their order.
// It is what a source was made for that is the part of others.
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

// A Joint is several sources as one.
type Joint struct {
	parts  []part
	plans  []jointPlan // the one in force, and those to come
	why    error       // the last one that ended did so
	counts []Counts
	ends   []Instance
}

// A part is one of the sources, with what it delivered last.
type part struct {
	Part
	ended bool
	batch Batch
	taken int // of the counts in it
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

// divide finds out which part observes what.
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

// of returns the plan of a part.
func (p jointPlan) of(part int) Plan {
	i := -1
	return p.Only(func(Spec) bool { i++; return slices.Contains(p.owners[i], part) })
}

// Plan implements [Source]. Where a part fails, those before it get back the plan
// that they had; if that fails as well, the error says so.
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

// restore has the first parts go on as they were planned, from a time on.
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

// Collect implements [Source]. What it returns of a part that has ended before
// others are counts without a VM.
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

// collect collects what the part has, nothing once it has ended.
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

// merge makes one batch of those of the parts.
func (j *Joint) merge(w Window) Batch {
	merged := Batch{Window: w}
	j.counts = j.counts[:0]
	blind := make(map[rankingKey]bool)
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
		merged.Strangers = merged.Strangers || p.batch.Strangers
		merged.Renew = merged.Renew || p.batch.Renew
	}
	if len(blind) > 0 {
		j.ends = slices.DeleteFunc(j.ends, func(i Instance) bool { return blind[rankingKey{i.Outcome, i.VM}] })
	}
	slices.SortStableFunc(j.ends, func(a, b Instance) int { return cmp.Compare(a.End, b.End) })
	merged.Counts, merged.Instances = j.counts, j.ends
	return merged
}

// take appends the part's counts of an outcome, in the order of which it has them,
// or empty ones where it has none as it has ended.
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

// combine adds the counts that several parts have of an outcome, VM by VM. It keeps counts
// without a VM only where no part has a VM. If one part has not observed a VM for all of the
// window, the counts of the others are a part of what happened there: they become loss, and
// blind notes the VM.
func combine(counts []Counts, blind map[rankingKey]bool) []Counts {
	var all []Counts
	var sums []int // of those, the ones that several parts have counted
	for _, c := range counts {
		i := slices.IndexFunc(all, func(d Counts) bool { return d.VM == c.VM })
		if i < 0 {
			all = append(all, c)
			continue
		}
		sums = append(sums, i)
		sum := all[i].Add(c)
		sum.Bins = slices.Clone(all[i].Bins)
		for bin, n := range c.Bins {
			sum.Bins[bin] += n
		}
		sum.Groups = slices.Concat(all[i].Groups, c.Groups)
		all[i] = sum
	}
	for _, i := range sums {
		if c := &all[i]; c.Unobserved && c.Instances() > 0 {
			c.Loss.Missed += c.Instances()
			c.Successes, c.Failures, c.Timeouts, c.Inferred, c.Amount, c.Groups = 0, 0, 0, 0, 0, nil
			clear(c.Bins)
			blind[rankingKey{c.Outcome, c.VM}] = true
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
