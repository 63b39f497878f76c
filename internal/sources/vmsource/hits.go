package vmsource

import (
	"maps"
	"math"

	"github.com/beamscope/beamscope/internal/engine/outcome"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/engine/spent"
)

// hits are the hits in the VMs since the observation began. The kernel counts hits between two
// readings. A window is read when the next one is over, so the cost of a window lies between two
// earlier readings.
type hits struct {
	all, returns, stepped, traced spent.Total
	vms                           map[int]*spent.Total // by pid
	users                         map[int]*spent.Total
	last                          int64 // time of the last reading
}

// begin records that there were no hits before a time.
func (h *hits) begin(at int64) {
	h.last, h.vms, h.users = at, make(map[int]*spent.Total), make(map[int]*spent.Total)
	for _, t := range []*spent.Total{&h.all, &h.returns, &h.stepped, &h.traced} {
		t.Read(at, 0)
	}
}

// read adds the hits of a reading: all of them, and those of each VM and each user.
func (h *hits) read(at int64, n bpf.Hits, vms, users map[int]uint64) {
	h.all.Grow(at, float64(n.All))
	h.returns.Grow(at, float64(n.Returns))
	h.stepped.Grow(at, float64(n.Stepped))
	h.traced.Grow(at, float64(n.Traced))
	h.grow(h.vms, at, vms)
	h.grow(h.users, at, users)
	h.last = at
}

// grow adds a reading to the totals of the parts.
func (h *hits) grow(parts map[int]*spent.Total, at int64, read map[int]uint64) {
	for id := range read {
		if parts[id] == nil {
			parts[id] = new(spent.Total)
			parts[id].Read(h.last, 0)
		}
	}
	for id, t := range parts {
		t.Grow(at, float64(read[id]))
	}
}

// within returns the hits in a window.
func (h *hits) within(w outcome.Window) bpf.Hits {
	return bpf.Hits{All: in(&h.all, w), Returns: in(&h.returns, w), Stepped: in(&h.stepped, w), Traced: in(&h.traced, w)}
}

// of returns the hits in a VM in a window.
func (h *hits) of(pid int, w outcome.Window) uint64 {
	if t := h.vms[pid]; t != nil {
		return in(t, w)
	}
	return 0
}

// ofUsers returns the hits of each user in a window.
func (h *hits) ofUsers(w outcome.Window) []outcome.UserLoad {
	var all []outcome.UserLoad
	for user, t := range h.users {
		all = append(all, outcome.UserLoad{User: user, Events: in(t, w)})
	}
	return all
}

func in(t *spent.Total, w outcome.Window) uint64 { return uint64(math.Round(t.Within(w.From, w.To))) }

// forget drops hits before a time, and VMs and users without hits since then.
func (h *hits) forget(before int64) {
	for _, t := range []*spent.Total{&h.all, &h.returns, &h.stepped, &h.traced} {
		t.Forget(before)
	}
	for _, parts := range []map[int]*spent.Total{h.vms, h.users} {
		maps.DeleteFunc(parts, func(_ int, t *spent.Total) bool {
			t.Forget(before)
			return t.Within(before, math.MaxInt64) == 0
		})
	}
}
