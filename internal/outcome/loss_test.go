package outcome

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/bpf"
)

// Every loss that the kernel counts is in the loss of a window, once: what was
// lost in the window itself, and what came when its window had no room.
func TestLossOfKernelCounts(t *testing.T) {
	got := fromKernel(bpf.Counts{
		PID:      7,
		Counters: bpf.Counters{Starts: 1, Ends: 2, Successes: 3, Failures: 4, Timeouts: 5, Orphans: 6, Lates: 7, ReadErrors: 8, MapFull: 9, RingFull: 10, Cut: 11, ExitsLost: 12},
		Stray:    bpf.Counters{Starts: 100, Ends: 200, Successes: 300, Failures: 400, Timeouts: 500, Orphans: 600, Lates: 700, ReadErrors: 800, MapFull: 900, RingFull: 1000, Cut: 1100, ExitsLost: 1200},
	})
	want := Counts{
		Starts: 1, Ends: 2, Successes: 3, Failures: 4, Timeouts: 5, Orphans: 6, Lates: 7, Unstreamed: 1010,
		Loss: Loss{Unreadable: 808, NoRoom: 909, Missed: 1200, Cut: 1111, Exits: 1212},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
