package sampled

import "time"

// The processor time for reading the code of all VMs of one user: budgetBurst at once, and
// budgetShare of a processor for long. A VM with 900 modules needs about 0.3 % of a processor.
const (
	budgetShare = 0.1
	budgetBurst = time.Second
)

// maxFunctions limits the memory for the code of all VMs of one user.
const maxFunctions = 1 << 19

// A budget limits the processor time that one user's VMs can make beamscope use: any user can start
// a process whose list of code is long and changes all the time. The zero value is a full budget.
type budget struct {
	spent time.Duration // more than was earned by then
	at    int64         // when that was so, in nanoseconds of CLOCK_MONOTONIC
}

// allows reports whether any of the budget is left.
func (b *budget) allows(now int64) bool {
	earned := time.Duration(budgetShare * float64(now-b.at))
	b.spent, b.at = max(0, b.spent-earned), now
	return b.spent < budgetBurst
}

// spend subtracts processor time from the budget.
func (b *budget) spend(used time.Duration) { b.spent += used }

// largest returns the index of the largest size, or -1 if all of them together do not exceed a limit.
func largest(sizes []int, limit int) int {
	at, sum := -1, 0
	for i, n := range sizes {
		if sum += n; at < 0 || n > sizes[at] {
			at = i
		}
	}
	if sum <= limit {
		return -1
	}
	return at
}
