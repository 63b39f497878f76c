package sampled

import (
	"testing"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/dtrace"
)

// A VM whose code takes long to read gets a limited share of a processor in the long run. One whose
// code is read quickly is read in each window.
func TestBudget(t *testing.T) {
	for _, test := range []struct {
		each        time.Duration
		least, most int // of 1000 windows of a second
	}{
		{5 * time.Millisecond, 1000, 1000},
		{100 * time.Millisecond, 1000, 1000},
		{200 * time.Millisecond, 500, 506},
		{time.Second, 100, 102},
	} {
		var b budget
		read, now := 0, int64(time.Hour)
		for range 1000 {
			if b.allows(now) {
				read++
				b.spend(test.each)
			}
			now += int64(time.Second)
		}
		if read < test.least || read > test.most {
			t.Errorf("%v: read in %d of 1000 windows, want %d to %d", test.each, read, test.least, test.most)
		}
	}
}

func TestLargest(t *testing.T) {
	for _, test := range []struct {
		sizes       []int
		limit, want int
	}{{nil, 0, -1}, {[]int{1, 2}, 3, -1}, {[]int{1, 2}, 2, 1}, {[]int{5, 2, 4}, 10, 0}} {
		if at := largest(test.sizes, test.limit); at != test.want {
			t.Errorf("%v: %d", test, at)
		}
	}
}

// If the code was not read in a window, no function is named, because other code may have replaced
// it. The process is known from the scheduler's data.
func TestCodeNotRead(t *testing.T) {
	a := attribution{terms: dtrace.Terms{Form: dtrace.TermsByNumber}, agreed: proof, unread: true}
	s := bpf.Sample{Thread: bpf.Scheduler, Current: bpf.CurrentSame, ByScheduler: pidTerm(7), InRegister: pidTerm(7)}
	if who, where := a.attribute(s); who != (Who{Number: 7}) || where != NoCode {
		t.Errorf("%v %q", who, where)
	}
	a.agreed = 0
	if who, where := a.attribute(s); who.Kind != Unknown || where != NoCode {
		t.Errorf("%v %q", who, where)
	}
	s.Thread = bpf.OtherThread
	if who, where := a.attribute(s); who.Kind != Elsewhere || where != InC {
		t.Errorf("%v %q", who, where)
	}
}
