package ring

import (
	"os"
	"testing"
	"time"
	"unsafe"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/sources/intake"
	"github.com/beamscope/beamscope/internal/sources/ledger"
)

// BenchmarkRecords measures the collector's cost of a record of a counted span: reading it from the
// process's memory, pairing and counting.
func BenchmarkRecords(b *testing.B) {
	const pairs = 10_000
	ring := newFakeRing(1, 15)
	ring.text(1, "a")
	memory, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer memory.Close()
	r, err := open(memory, uint64(uintptr(unsafe.Pointer(&ring.words[0]))), 0, 0)
	if err != nil {
		b.Fatal(err)
	}
	s, err := ledger.Schedule(nil).With(outcome.Plan{Window: time.Hour, Specs: []outcome.Spec{spec("a", 20*time.Millisecond)}}, 0, 0, nameOf)
	if err != nil {
		b.Fatal(err)
	}
	o := newObserved(outcome.VM{PID: 7}, 0, r, closer{})
	o.open(ledger.NewBook(o.id, 0, intake.NewBudget(intake.MaxKept)))
	o.plan(s, control{sample: 0xffff})
	now := int64(0)
	for b.Loop() {
		b.StopTimer()
		for range pairs {
			span := ring.start(0, 1, now)
			ring.end(0, span, 1, now+300)
			now += 1000
		}
		b.StartTimer()
		o.poll(now)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(o.records), "ns/record")
	if want := uint64(2 * pairs * b.N); o.records != want || o.overrun.records > 0 {
		b.Fatalf("%d records of %d, %d lost", o.records, want, o.overrun.records)
	}
}
