package wrapper

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/sources/intake"
	"github.com/beamscope/beamscope/internal/sources/ledger"
)

const ms = int64(time.Millisecond)

// spec returns an outcome with bins of 1 ms.
func spec(name string, bins int) outcome.Spec {
	return outcome.Spec{Name: name, Wrapper: name, BinWidth: time.Millisecond, Bins: bins}
}

// plan returns a plan with windows of 100 ms.
func plan(from int64, specs ...outcome.Spec) outcome.Plan {
	return outcome.Plan{From: from, Window: 100 * time.Millisecond, Specs: specs}
}

// A limited number of unwanted names counts as new, each once.
func TestUnwantedNames(t *testing.T) {
	b := newBook(outcome.VM{PID: 1}, 0, intake.NewBudget(intake.MaxKept))
	news := 0
	for n := range 10 * maxUnwanted {
		if b.refuse(fmt.Append(nil, n/2)) {
			news++
		}
	}
	if news != maxUnwanted || len(b.unwanted) != maxUnwanted {
		t.Errorf("%d news, %d names", news, len(b.unwanted))
	}
}

// A time slightly ahead counts as the present. The offset is read again once it is old.
func TestTimeline(t *testing.T) {
	now, offset := int64(1000*ms), int64(-7*ms)
	tl := newTimeline(clock{now: func() int64 { return now }, offset: func() int64 { return offset }})
	check := func(wall, at, ahead int64) {
		t.Helper()
		if gotAt, gotAhead := tl.convert(wall); gotAt != at || gotAhead != ahead {
			t.Errorf("%d is %d, %d ahead; want %d, %d", wall, gotAt, gotAhead, at, ahead)
		}
	}
	check(1000*ms, 993*ms, 0)
	check(1007*ms, 1000*ms, 0)
	check(1010*ms, 1000*ms, 3*ms)
	now, offset = now+refresh-1, 0
	tl.read()
	check(1000*ms, 993*ms, 0)
	now++
	tl.read()
	check(1000*ms, 1000*ms, 0)
}

// The clocks of this machine agree with each other.
func TestSystemClock(t *testing.T) {
	c := systemClock()
	before := time.Now().UnixNano()
	wall := c.now() - c.offset()
	if after := time.Now().UnixNano(); wall < before-ms || wall > after+ms {
		t.Errorf("wall time %d is not between %d and %d", wall, before, after)
	}
}

// BenchmarkLine measures parsing and counting a line, without allocation.
func BenchmarkLine(b *testing.B) {
	p := &inbound{book: newBook(outcome.VM{PID: 1}, 0, intake.NewBudget(intake.MaxKept)), notices: intake.NewNotices(monotonic.Now)}
	s, err := ledger.Schedule(nil).With(plan(0, spec("worker_1", 50), spec("worker_2", 50)), 0, 0, nameOf)
	if err != nil {
		b.Fatal(err)
	}
	p.timeline = timeline{now: 1 << 62}
	var texts [][]byte
	for n := range int64(1000) {
		texts = append(texts, format(line{name: fmt.Appendf(nil, "worker_%d", 1+n%2), begin: 1, end: 1 + n*ms/20, status: outcome.Success}))
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		l, err := parse(texts[n%len(texts)])
		if err != nil {
			b.Fatal(err)
		}
		p.enter(s, l)
	}
}

// A name that would be another command is rejected.
func TestNameOf(t *testing.T) {
	for _, name := range []string{"", "a\nstop_stub"} {
		if _, err := ledger.Schedule(nil).With(plan(0, spec(name, 3)), 0, 0, nameOf); !errors.Is(err, ErrPlan) {
			t.Errorf("%q: error %v, want %v", name, err, ErrPlan)
		}
	}
}
