//go:build !linux

package vmtest

import "testing"

// Stalls records nothing: only Linux runs the tests that observe VMs.
type Stalls struct{}

// WatchStalls records nothing.
func WatchStalls(testing.TB) *Stalls { return new(Stalls) }

// Within returns 0.
func (*Stalls) Within(int64, int64) int64 { return 0 }
