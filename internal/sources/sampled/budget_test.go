package sampled

import (
	"testing"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/dtrace"
)

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
