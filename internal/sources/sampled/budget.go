package sampled

import "time"

// The processor time for reading the code of all VMs of one user: budgetBurst at once, and
// budgetShare of a processor for long. A VM with 900 modules needs about 0.3 % of a processor.
// Any user can start a process whose list of code is long and changes all the time.
const (
	budgetShare = 0.1
	budgetBurst = time.Second
)

// maxFunctions limits the memory for the code of all VMs of one user.
const maxFunctions = 1 << 19

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
