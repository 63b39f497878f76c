package outcome

import (
	"maps"
	"math"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/spent"
)

// hits are those in the VMs since they are observed. The kernel counts them from one reading to
// the next, and a window is read when the next one is over: what it cost is between two earlier
// readings.
type hits struct {
	all, returns, stepped, traced spent.Total
	vms                           map[int]*spent.Total // by pid
	last                          int64                // reading
}

// begin says that there was none before a time.
func (h *hits) begin(at int64) {
	h.last, h.vms = at, make(map[int]*spent.Total)
	for _, t := range []*spent.Total{&h.all, &h.returns, &h.stepped, &h.traced} {
		t.Read(at, 0)
	}
}

// read adds those that were read at a time, and what of them each VM has.
func (h *hits) read(at int64, n bpf.Hits, vms map[int]uint64) {
	h.all.Grow(at, float64(n.All))
	h.returns.Grow(at, float64(n.Returns))
	h.stepped.Grow(at, float64(n.Stepped))
	h.traced.Grow(at, float64(n.Traced))
	for pid := range vms {
		if h.vms[pid] == nil {
			h.vms[pid] = new(spent.Total)
			h.vms[pid].Read(h.last, 0)
		}
	}
	for pid, t := range h.vms {
		t.Grow(at, float64(vms[pid]))
	}
	h.last = at
}

// within returns those in a window.
func (h *hits) within(w Window) bpf.Hits {
	return bpf.Hits{All: in(&h.all, w), Returns: in(&h.returns, w), Stepped: in(&h.stepped, w), Traced: in(&h.traced, w)}
}

// of returns those in a VM in a window.
func (h *hits) of(pid int, w Window) uint64 {
	if t := h.vms[pid]; t != nil {
		return in(t, w)
	}
	return 0
}

func in(t *spent.Total, w Window) uint64 { return uint64(math.Round(t.Within(w.From, w.To))) }

// forget forgets what was before a time, and VMs that have had none since.
func (h *hits) forget(before int64) {
	for _, t := range []*spent.Total{&h.all, &h.returns, &h.stepped, &h.traced} {
		t.Forget(before)
	}
	maps.DeleteFunc(h.vms, func(_ int, t *spent.Total) bool {
		t.Forget(before)
		return t.Within(before, math.MaxInt64) == 0
	})
}
