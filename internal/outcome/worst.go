package outcome

import "cmp"

// CompareWorst is less than 0 where an instance is worse than another one: timeouts
// before failures before successes, and among each the slowest.
func (i *Instance) CompareWorst(j *Instance) int {
	return cmp.Or(-cmp.Compare(i.Status, j.Status), -cmp.Compare(i.Elapsed(), j.Elapsed()), cmp.Compare(i.End, j.End), cmp.Compare(i.ID, j.ID))
}

// A ranking ranks instances among those of their outcome and VM.
type ranking map[rankingKey]int

type rankingKey struct {
	outcome string
	vm      VM
}

// next returns the rank of the next instance, from 0: the worst are to come first.
func (r ranking) next(i *Instance) int {
	key := rankingKey{i.Outcome, i.VM}
	rank := r[key]
	r[key]++
	return rank
}
