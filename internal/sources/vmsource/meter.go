package vmsource

import (
	"errors"
	"io"
	"slices"
	"time"

	"github.com/beamscope/beamscope/bpf"
)

const (
	// meterPeriod is the interval between measurements of the programs' time. Each measurement lasts
	// one window.
	meterPeriod = time.Minute

	// firstMeasurements is the number of measurements that follow one another at first. From then on
	// a single wrong one has no effect.
	firstMeasurements = 3

	// keptMeasurements is the number of measurements whose median is the price of a program.
	keptMeasurements = 5
)

// durations are the last results of measurements, the latest one last.
type durations []time.Duration

// add adds a result, and returns the median, or the smaller one of two medians. The kernel measures
// elapsed time: it counts a halt of the machine, or a thread that it ran in between, as time of the
// program. So one result may be far too high, but none is too low.
func (d *durations) add(result time.Duration) time.Duration {
	*d = append(*d, result)
	*d = (*d)[max(len(*d)-keptMeasurements, 0):]
	sorted := slices.Sorted(slices.Values(*d))
	return sorted[(len(sorted)-1)/2]
}

// A meter estimates the cost of a hit for the VM. It consists of the way into the kernel and
// back, measured on a probe of our own, and of the program's time, measured by the kernel.
type meter struct {
	collector *bpf.Collector
	traps     bpf.Traps
	programs  durations     // mean times of a program in the last measurements
	program   time.Duration // median of these; 0 until known
	perHit    time.Duration // the last result
	measuring io.Closer     // nil while the programs are not measured
	began     int64         // start of the last measurement
	runs      uint64
	total     time.Duration
}

func newMeter(c *bpf.Collector, now int64) (*meter, error) {
	traps, err := bpf.MeasureTraps()
	if err != nil {
		return nil, err
	}
	m := &meter{collector: c, traps: traps}
	return m, m.begin(now)
}

func (m *meter) begin(now int64) (err error) {
	if m.runs, m.total, err = m.collector.ProgramTime(); err != nil {
		return err
	}
	m.began = now
	m.measuring, err = m.collector.MeasurePrograms()
	return err
}

// read returns the mean cost of one of these hits according to the last measurement, or 0 if
// unknown. Call it once for each window, with the hits in it. It measures during one window at a
// time, and only if there are hits.
func (m *meter) read(now int64, hits bpf.Hits) (time.Duration, error) {
	var err error
	switch due := len(m.programs) < firstMeasurements || now-m.began >= int64(meterPeriod); {
	case m.measuring != nil:
		var runs uint64
		var total time.Duration
		runs, total, err = m.collector.ProgramTime()
		if err == nil && runs > m.runs {
			m.program = m.programs.add((total - m.total) / time.Duration(runs-m.runs))
		}
		err = errors.Join(err, m.close())
	case hits.All > 0 && due:
		err = m.begin(now)
	}
	if hits.All > 0 && m.program > 0 {
		m.perHit = m.program + m.traps.Cost(hits)/time.Duration(hits.All)
	}
	return m.perHit, err
}

// move switches to the programs of another collector.
func (m *meter) move(c *bpf.Collector) error {
	m.collector, m.programs = c, nil
	return m.close()
}

func (m *meter) close() error {
	if m == nil || m.measuring == nil {
		return nil
	}
	err := m.measuring.Close()
	m.measuring = nil
	return err
}
