package vmsource

import (
	"errors"
	"io"
	"time"

	"github.com/beamscope/beamscope/bpf"
)

// meterPeriod is the interval between measurements of the programs' time. Each measurement lasts
// one window.
const meterPeriod = time.Minute

// A meter estimates the cost of a hit for the VM. It consists of the way into the kernel and
// back, measured on a probe of our own, and of the program's time, measured by the kernel.
type meter struct {
	collector *bpf.Collector
	traps     bpf.Traps
	program   time.Duration // mean time of a program; 0 until known
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

// move switches to the programs of another collector.
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
