package top

import (
	"math"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// Figures are the figures of one kind in some windows, for one row or for several rows together.
type Figures struct {
	// Known is false if the kind was not observed, or if its instances may be among those that
	// found no room among the rows. Then all other fields are 0.
	Known bool

	Instances uint64
	Timeouts  uint64  // number of instances that took longer than the scale, or whose process ended
	PerSecond float64 // instances a second
	Share     float64 // of the time, in instances that succeeded: 1 is a core, or a message that always waits
	Amount    float64 // per second; for garbage collections the reclaimed words
	Processor float64 // share of the time, on a processor, in instances that succeeded; NaN if unknown
	Dirty     float64 // share of the time, on dirty schedulers; NaN if unknown
	Inferred  bool    // some instances in the VM were paired by order
	AtLeast   bool    // ends without a known start came in the VM, and may be of these rows
	P50, P99  Quantile
}

// A Row is a process or a function of a VM.
type Row struct {
	ID
	Process outcome.PID // 0 if the row is a function
	Name    string      // name of the process from the VM, "" if unknown
	Cells
}

// Cells contain everything that is known about a row, or about several rows together.
type Cells struct {
	Kinds [kinds]Figures
	Seen  Seen
}

// A sum adds up tallies, and records in which windows the kind was observed.
type sum struct {
	successes, failures, timeouts uint64
	total                         time.Duration
	amount                        uint64
	processor, dirty              time.Duration
	delays                        [outcome.DelayBuckets]uint32

	observed time.Duration // total length of the windows with the kind
	inferred bool
	crowded  bool // some instances had no room among the rows
	orphaned bool // some ends had no known start
	plain    bool // some groups have no processor and dirty time
}

func (s *sum) add(t *tally) {
	s.successes += t.successes
	s.failures += t.failures
	s.timeouts += t.timeouts
	s.total += t.total
	s.amount += t.amount
	s.processor += t.processor
	s.dirty += t.dirty
	for _, b := range t.delays {
		s.delays[b.index] += b.count
	}
}

func (s *sum) instances() uint64 { return s.successes + s.failures + s.timeouts }

// quantile returns the quantile p, from 0 to 1, of all instances with a recorded delay and those
// that did not succeed.
func (s *sum) quantile(p float64) Quantile {
	_, hi, ok := outcome.Delays(s.delays[:]).Quantile(p, s.failures+s.timeouts)
	if ok {
		return Quantile{Some: true, AtMost: hi}
	}
	some := s.failures+s.timeouts > 0
	return Quantile{Some: some, Beyond: some}
}

func (s *sum) figures() Figures {
	if s.observed == 0 || s.crowded && s.instances() == 0 {
		return Figures{}
	}
	seconds := s.observed.Seconds()
	f := Figures{
		Known:     true,
		Instances: s.instances(),
		Timeouts:  s.timeouts,
		PerSecond: float64(s.instances()) / seconds,
		Share:     s.total.Seconds() / seconds,
		Amount:    float64(s.amount) / seconds,
		Processor: s.processor.Seconds() / seconds,
		Dirty:     s.dirty.Seconds() / seconds,
		Inferred:  s.inferred && s.instances() > 0,
		AtLeast:   s.orphaned,
		P50:       s.quantile(0.5),
		P99:       s.quantile(0.99),
	}
	if s.plain {
		f.Processor, f.Dirty = math.NaN(), math.NaN()
	}
	return f
}

// figuresOf returns the figures of a row in some windows.
func figuresOf(id ID, k Kind, windows []*window) Figures {
	var s sum
	for _, w := range windows {
		vm := w.vms[id.VM]
		if vm == nil || !vm[k].observed {
			continue
		}
		s.observed += w.Duration()
		s.inferred = s.inferred || vm[k].inferred
		s.orphaned = s.orphaned || vm[k].orphaned
		s.plain = s.plain || !vm[k].accounts
		s.crowded = s.crowded || vm[k].rest.instances() > 0
		if t := w.rows[id]; t != nil {
			s.add(&t[k])
		}
	}
	return s.figures()
}

// othersOf returns the figures of the instances without room among the rows, for all VMs.
func othersOf(k Kind, windows []*window) Figures {
	s := across(k, windows)
	return s.figures()
}

// totalOf returns the figures of all instances in some windows, for all VMs.
func totalOf(k Kind, windows []*window) Figures {
	s := across(k, windows)
	for _, w := range windows {
		for _, t := range w.rows {
			s.add(&t[k])
		}
	}
	return s.figures()
}

// across returns the sum over all VMs of the instances without room.
func across(k Kind, windows []*window) sum {
	var s sum
	for _, w := range windows {
		observed := false
		for _, vm := range w.vms {
			if vm[k].observed {
				observed = true
				s.inferred = s.inferred || vm[k].inferred
				s.orphaned = s.orphaned || vm[k].orphaned
				s.plain = s.plain || !vm[k].accounts
				s.add(&vm[k].rest)
			}
		}
		if observed {
			s.observed += w.Duration()
		}
	}
	return s
}
