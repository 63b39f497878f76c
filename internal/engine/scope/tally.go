package scope

import (
	"cmp"
	"slices"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/explain/trace"
)

// A Tally sums the time of explained instances of a VM by cause. The zero Tally is empty.
type Tally struct {
	Instances int           // number of instances with a trace
	Total     time.Duration // time of all instances

	times []causeTime
	index map[Cause]int // indexes into times
	names names

	others time.Duration // time of causes that were the smallest when there were too many
	causes int           // number of causes in others
}

// MaxCauses is the number of causes that a [Tally] keeps separately.
const MaxCauses = 4096

// A causeTime is the time that went to a cause.
type causeTime struct {
	cause Cause
	time  time.Duration
	mark  trace.Mark // mark of the least certain part

	longest time.Duration // time of the longest part
	reason  string        // reason of the longest part
	mixed   bool          // another part has a different reason
}

// add adds more time of the same cause.
func (t *causeTime) add(more causeTime) {
	t.time += more.time
	t.mark = max(t.mark, more.mark)
	t.mixed = t.mixed || more.mixed || t.reason != more.reason
	if more.longest > t.longest {
		t.longest, t.reason = more.longest, more.reason
	}
}

// doubt returns the uncertainty of the time.
func (t *causeTime) doubt() Doubt {
	d := Doubt{Mark: t.mark, Reason: t.reason}
	if t.mixed && t.reason != "" {
		d.Reason += ", at least in part"
	}
	return d
}

// Add adds the instances with a trace.
func (t *Tally) Add(instances []outcome.Instance) { t.add(instances) }

// add adds the instances with a trace, and reports whether they contained new names of processes.
func (t *Tally) add(instances []outcome.Instance) bool {
	if t.index == nil {
		t.index, t.names = make(map[Cause]int), make(names)
	}
	learnt := false
	for i := range instances {
		if instances[i].Trace != nil && t.names.learn(instances[i].Trace) {
			learnt = true
		}
	}
	if learnt {
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
	return learnt
}

// reindex updates the index after times has changed.
func (t *Tally) reindex() {
	clear(t.index)
	for i := range t.times {
		t.index[t.times[i].cause] = i
	}
}

// shrink drops the smaller half of the causes. Their time becomes part of others, and a dropped
// cause that occurs again starts anew.
func (t *Tally) shrink() {
	sortTimes(t.times)
	for _, c := range t.times[MaxCauses/2:] {
		t.others += c.time
		t.causes++
	}
	t.times = t.times[:MaxCauses/2]
	t.reindex()
}

// reset empties the tally, except for the names.
func (t *Tally) reset() {
	t.Instances, t.Total, t.times, t.others, t.causes = 0, 0, t.times[:0], 0, 0
	clear(t.index)
}

// Causes returns the number of causes. If that is more than [MaxCauses], some may be counted more
// than once.
func (t *Tally) Causes() int { return len(t.times) + t.causes }

// Shares returns the largest shares, the largest first, and the sum of all further causes. It
// does not set their usual shares.
func (t *Tally) Shares() (shares []Share, others time.Duration) {
	sorted := *t
	sorted.times = slices.Clone(t.times)
	sortTimes(sorted.times)
	shares, others, _ = sorted.appendShares(nil)
	return shares, others
}

// sortTimes sorts by time, the longest first.
func sortTimes(times []causeTime) {
	slices.SortFunc(times, func(a, b causeTime) int {
		return cmp.Or(cmp.Compare(b.time, a.time), a.cause.compare(b.cause))
	})
}

// appendShares appends the first of the sorted times as shares. It returns the total time and the
// number of the others.
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
