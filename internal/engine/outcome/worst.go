package outcome

import "cmp"

// CompareWorst returns a negative number if i is worse than j: timeouts before failures before
// successes, and the slowest first within each.
func (i *Instance) CompareWorst(j *Instance) int {
	return cmp.Or(-cmp.Compare(i.Status, j.Status), i.compareSlowest(j))
}

// CompareFitted is like [Instance.CompareWorst]. fittedI and fittedJ are true if beamscope chose the dMax of
// the instance's outcome. An instance that took longer than such a dMax is only slow: it may have succeeded.
// So it comes after failures, among successes.
func (i *Instance) CompareFitted(j *Instance, fittedI, fittedJ bool) int {
	return cmp.Or(-cmp.Compare(i.known(fittedI), j.known(fittedJ)), i.compareSlowest(j))
}

// known returns the status. A timeout because of a dMax that beamscope chose counts as a success.
func (i *Instance) known(fitted bool) Status {
	if fitted && i.Status == Timeout {
		return Success
	}
	return i.Status
}

func (i *Instance) compareSlowest(j *Instance) int {
	return cmp.Or(-cmp.Compare(i.Elapsed(), j.Elapsed()), cmp.Compare(i.End, j.End), cmp.Compare(i.ID, j.ID))
}
