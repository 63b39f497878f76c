package sampled

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/engine/outcome"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pidTerm is the term of <0.n.0> up to OTP 25.
func pidTerm(n uint64) uint64 { return n<<4 | 3 }

// Outside of compiled code, a process is named only after the scheduler's data has proven right. If
// it has ever proven wrong, no process is named.
func TestSchedulersDataMustBeProven(t *testing.T) {
	a := attribution{terms: dtrace.Terms{Form: dtrace.TermsByNumber}}
	inC := bpf.Sample{Thread: bpf.Scheduler, Current: bpf.CurrentOther, ByScheduler: pidTerm(7)}
	idle := bpf.Sample{Thread: bpf.Scheduler, Current: bpf.CurrentNone}
	dirty := bpf.Sample{Thread: bpf.DirtyCPUScheduler, Current: bpf.CurrentOther, ByScheduler: pidTerm(8)}
	for _, test := range []struct {
		agreed, disagreed uint64
		want              [3]Who
	}{
		{0, 0, [3]Who{{Kind: Unknown}, {Kind: Unknown}, {Kind: Unknown}}},
		{proof - 1, 0, [3]Who{{Kind: Unknown}, {Kind: Unknown}, {Kind: Unknown}}},
		{proof, 0, [3]Who{{Number: 7}, {Kind: Nobody}, {Number: 8}}},
		{1000 * proof, 1, [3]Who{{Kind: Unknown}, {Kind: Unknown}, {Kind: Unknown}}},
	} {
		a.agreed, a.disagreed = test.agreed, test.disagreed
		for i, s := range []bpf.Sample{inC, idle, dirty} {
			if who, where := a.attribute(s); who != test.want[i] || where != InC {
				t.Errorf("%d agree, %d do not: %+v: %v %s, want %v", test.agreed, test.disagreed, s, who, where, test.want[i])
			}
		}
	}
	a.agreed, a.disagreed = proof, 0
	unknown := bpf.Sample{Thread: bpf.Scheduler, ByScheduler: pidTerm(7)}
	other := bpf.Sample{Thread: bpf.OtherThread, Current: bpf.CurrentSame, InRegister: pidTerm(7)}
	if who, _ := a.attribute(unknown); who.Kind != Unknown {
		t.Error(who)
	}
	if who, _ := a.attribute(other); who.Kind != Elsewhere {
		t.Error(who)
	}
}

// A term that is not a pid names no process. If the pid of a term cannot be decoded, the cell
// contains the term.
func TestProcessOfTerm(t *testing.T) {
	byNumber, byPlace := dtrace.Terms{Form: dtrace.TermsByNumber}, dtrace.Terms{Form: dtrace.TermsByPlace, TableBits: 18, InBits: 3}
	for _, test := range []struct {
		terms dtrace.Terms
		term  uint64
		want  Who
	}{
		{byNumber, pidTerm(83), Who{Number: 83}},
		{byNumber, pidTerm(83) + 1, Who{Kind: Unknown}},
		{byNumber, 0, Who{Kind: Unknown}},
		{byPlace, pidTerm(664), Who{Number: 83}},
		{dtrace.Terms{}, pidTerm(664), Who{Kind: Term, Term: pidTerm(664)}},
		{dtrace.Terms{}, 0, Who{Kind: Unknown}},
	} {
		a := attribution{terms: test.terms}
		if who := a.process(test.term); who != test.want {
			t.Errorf("%+v %#x: %+v, want %+v", test.terms, test.term, who, test.want)
		}
	}
}

// The cells contain each sample exactly once.
func TestCellsAddUp(t *testing.T) {
	var a attribution
	var samples []bpf.Sample
	var sum uint64
	for i := range uint64(50) {
		samples = append(samples, bpf.Sample{Thread: bpf.Thread(i % 4), Current: bpf.Current(i % 3), Address: i, Count: i})
		sum += i
	}
	var n uint64
	for _, c := range a.cells(outcome.VM{PID: 1}, samples, 9) {
		n += c.N
	}
	if n != sum+9 {
		t.Errorf("%d, want %d", n, sum+9)
	}
}

func TestMissing(t *testing.T) {
	for _, test := range []struct{ taken, want uint64 }{{198, 0}, {199, 0}, {196, 0}, {195, 3}, {0, 198}} {
		if n := missing(test.taken, 99, 2, 1e9); n != test.want {
			t.Errorf("%d: %d, want %d", test.taken, n, test.want)
		}
	}
}
