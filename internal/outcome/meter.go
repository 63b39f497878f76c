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
	trap      time.Duration
	perHit    time.Duration // 0 until it is known
	measuring io.Closer     // nil while the programs are not measured
	began     int64         // when they last were
	runs      uint64
	total     time.Duration
}

func newMeter(c *bpf.Collector, now int64) (*meter, error) {
	trap, err := bpf.MeasureTrap()
	if err != nil {
		return nil, err
	}
	m := &meter{collector: c, trap: trap}
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

// read returns what a hit costs, as last measured; 0 where it is not known yet.
// It is called once a window, with the hits in it, and measures for one window at
// a time, and only where there is something to measure.
func (m *meter) read(now int64, hits uint64) (time.Duration, error) {
	if m.measuring == nil {
		due := m.perHit == 0 || now-m.began >= int64(meterPeriod)
		if hits == 0 || !due {
			return m.perHit, nil
		}
		return m.perHit, m.begin(now)
	}
	runs, total, err := m.collector.ProgramTime()
	if err == nil && runs > m.runs {
		m.perHit = m.trap + (total-m.total)/time.Duration(runs-m.runs)
	}
	return m.perHit, errors.Join(err, m.close())
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
