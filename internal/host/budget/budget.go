// Package budget limits the time that one user's processes can make this one use.
package budget

import "time"

// A Budget is an amount of time that may be spent: a burst at once, and a share of the elapsed time
// for long.
type Budget struct {
	share float64
	burst time.Duration

	spent time.Duration // more than was earned by then
	at    int64         // when that was so, in nanoseconds of CLOCK_MONOTONIC
}

// New returns a full budget.
func New(share float64, burst time.Duration, now int64) *Budget {
	return &Budget{share: share, burst: burst, at: now}
}

// Allows reports whether any of the budget is left.
func (b *Budget) Allows(now int64) bool {
	b.earn(now)
	return b.spent < b.burst
}

// Full reports whether nothing has been spent that was not earned again.
func (b *Budget) Full(now int64) bool {
	b.earn(now)
	return b.spent == 0
}

// Wait returns the time until some of the budget is left, 0 if some is.
func (b *Budget) Wait(now int64) time.Duration {
	if b.Allows(now) {
		return 0
	}
	return time.Duration(float64(b.spent-b.burst)/b.share) + 1
}

func (b *Budget) earn(now int64) {
	earned := time.Duration(b.share * float64(now-b.at))
	b.spent, b.at = max(0, b.spent-earned), now
}

// Spend subtracts time from the budget.
func (b *Budget) Spend(used time.Duration) { b.spent += used }
