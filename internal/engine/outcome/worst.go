package outcome

import "cmp"

// CompareWorst returns a negative number if i is worse than j: timeouts before failures before
// successes, and the slowest first within each.
func (i *Instance) CompareWorst(j *Instance) int {
	return cmp.Or(-cmp.Compare(i.Status, j.Status), -cmp.Compare(i.Elapsed(), j.Elapsed()), cmp.Compare(i.End, j.End), cmp.Compare(i.ID, j.ID))
}
