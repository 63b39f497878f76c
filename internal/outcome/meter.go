package outcome

import (
	"errors"
	"io"
	"time"

	"github.com/beamscope/beamscope/bpf"
)

// meterPeriod is how often the programs' time is measured anew, for one window.
const meterPeriod = time.Minute

// A meter knows what a hit costs the VM: the way into the kernel and back, which
// is measured on a probe of our own, and the program, which the kernel measures.
type meter struct {
	collector *bpf.Collector
	traps     bpf.Traps
	program   time.Duration // that a program takes, as a mean; 0 until it is known
	perHit    time.Duration // as last told
	measuring io.Closer     // nil while the programs are not measured
	began     int64         // when they last were
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

// read returns what one of these hits costs, as a mean, by what was last measured; 0 where
// it is not known yet. It is called once a window, with the hits in it, and measures for one
// window at a time, and only where there is something to measure.
func (m *meter) read(now int64, hits bpf.Hits) (time.Duration, error) {
	var err error
	switch due := m.program == 0 || now-m.began >= int64(meterPeriod); {
	case m.measuring != nil:
		var runs uint64
		var total time.Duration
		runs, total, err = m.collector.ProgramTime()
		if err == nil && runs > m.runs {
			m.program = (total - m.total) / time.Duration(runs-m.runs)
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

// move measures the programs of another collector from now on.
func (m *meter) move(c *bpf.Collector) error {
	m.collector, m.began = c, 0
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
