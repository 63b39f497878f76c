package scope

import (
	"cmp"
	"slices"
	"time"

	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/trace"
)

// A Tally sums the time of explained instances of a VM, cause by cause. The zero Tally is
// empty.
type Tally struct {
	Instances int           // that have a trace
	Total     time.Duration // of them all

	times []causeTime
	index map[Cause]int // of times
	names names

	others time.Duration // of causes that were the smallest when there were too many
	causes int           // that others is of
}

// MaxCauses is how many causes a [Tally] tells apart.
const MaxCauses = 4096

// A causeTime is the time that went to a cause.
type causeTime struct {
	cause Cause
	time  time.Duration
	mark  trace.Mark // that of the least certain part

	longest time.Duration // of the parts
	reason  string        // that of the longest
	mixed   bool          // another part has another
}

// add adds what went to the same cause.
func (t *causeTime) add(more causeTime) {
	t.time += more.time
	t.mark = max(t.mark, more.mark)
	t.mixed = t.mixed || more.mixed || t.reason != more.reason
	if more.longest > t.longest {
		t.longest, t.reason = more.longest, more.reason
	}
}

// doubt returns what is not certain of it.
func (t *causeTime) doubt() Doubt {
	d := Doubt{Mark: t.mark, Reason: t.reason}
	if t.mixed && t.reason != "" {
		d.Reason += ", at least in part"
	}
	return d
}

// Add adds the instances that have a trace.
func (t *Tally) Add(instances []outcome.Instance) { t.add(instances) }

// add adds the instances that have a trace, and reports whether names of processes came
// with them that were not known.
func (t *Tally) add(instances []outcome.Instance) bool {
	if t.index == nil {
		t.index, t.names = make(map[Cause]int), make(names)
	}
	var learnt []trace.PID
	for i := range instances {
		if instances[i].Trace != nil {
			learnt = t.names.learn(instances[i].Trace, learnt)
		}
	}
	if slices.ContainsFunc(learnt, t.nameless) {
		t.times = t.names.rename(t.times)
		t.reindex()
	}
	for i := range instances {
		if instances[i].Trace == nil {
			continue
		}
		t.Instances++
		for _, s := range instances[i].Trace.Shares() {
			c := t.names.named(causeOf(&s))
			took := time.Duration(s.Duration)
			part := causeTime{cause: c, time: took, mark: s.Mark, longest: took, reason: s.Reason}
			if at, ok := t.index[c]; ok {
				t.times[at].add(part)
			} else {
				t.index[c] = len(t.times)
				t.times = append(t.times, part)
			}
			t.Total += took
		}
		if len(t.times) > MaxCauses {
			t.shrink()
		}
	}
	return len(learnt) > 0
}

// nameless reports whether time went to a process that is there without its name.
func (t *Tally) nameless(p trace.PID) bool {
	for kind := range trace.Kinds {
		if _, ok := t.index[Cause{Kind: kind, Process: p}]; ok {
			return true
		}
	}
	return false
}

// reindex has the index agree with the times again.
func (t *Tally) reindex() {
	clear(t.index)
	for i := range t.times {
		t.index[t.times[i].cause] = i
	}
}

// shrink gives up the smaller half of the causes: what these come to is that of others,
// and one of them that occurs again begins anew.
func (t *Tally) shrink() {
	sortTimes(t.times)
	for _, c := range t.times[MaxCauses/2:] {
		t.others += c.time
		t.causes++
	}
	t.times = t.times[:MaxCauses/2]
	t.reindex()
}

// reset empties it but for the names.
func (t *Tally) reset() {
	t.Instances, t.Total, t.times, t.others, t.causes = 0, 0, t.times[:0], 0, 0
	clear(t.index)
}

// Causes returns how many things the time went to; where that is more than [MaxCauses],
// some may be counted more than once.
func (t *Tally) Causes() int { return len(t.times) + t.causes }

// Shares returns the largest shares, the largest first, and what the further causes come
// to. What is usual is not known of them.
func (t *Tally) Shares() (shares []Share, others time.Duration) {
	sorted := *t
	sorted.times = slices.Clone(t.times)
	sortTimes(sorted.times)
	shares, others, _ = sorted.appendShares(nil)
	return shares, others
}

// sortTimes puts the longest first.
func sortTimes(times []causeTime) {
	slices.SortFunc(times, func(a, b causeTime) int {
		return cmp.Or(cmp.Compare(b.time, a.time), a.cause.compare(b.cause))
	})
}

// appendShares appends the first of the times, which are sorted, as shares, and returns
// what the others come to, of which there are so many.
func (t *Tally) appendShares(shares []Share) (all []Share, others time.Duration, causes int) {
	others, causes = t.others, t.causes
	for i, c := range t.times {
		if i >= MaxShares {
			others += c.time
			causes++
			continue
		}
		shares = append(shares, Share{Cause: c.cause, Doubt: c.doubt(), Time: c.time, Of: float64(c.time) / float64(t.Total)})
	}
	return shares, others, causes
}

// compare orders causes, so that those with the same time have an order.
func (c Cause) compare(d Cause) int {
	own := func(c Cause) int {
		if c.Own {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(c.Kind, d.Kind), cmp.Compare(own(c), own(d)), cmp.Compare(c.Name, d.Name), cmp.Compare(c.Process, d.Process))
}
