package scope

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// Limits of an engine's data, independent of the contents of a batch or a recording.
const (
	MaxVMs       = 256                             // VMs in a frame; several times the limit of a live run
	MaxRows      = 1 << 16                         // rows of a frame: outcomes times VMs
	MaxHistories = 3 << 26                         // bytes of all rows and their histories together
	MaxBins      = MaxHistories / (present * word) // bins of all rows of a frame
)

// A series needs this number of words for each edge of its bins, for the present window and the mean.
const present, word = 10, 8

// A claim is a row that needs room.
type claim struct {
	p        *OutcomeSystem
	vm       outcome.VM
	counts   int  // index in the batch, or -1 if the row has none
	lively   bool // the VM has had events of the outcome
	admitted bool
}

// claim returns the claims of a batch, in the order of the frame, and how many others belong to VMs without room.
func (e *Engine) claim(b *outcome.Batch) (claims []claim, without int) {
	claims = e.claims[:0]
	add := func(p *OutcomeSystem, vm outcome.VM, counts int) {
		if !e.known[vm] {
			without++
			return
		}
		s := e.series[seriesKey{p.Spec.Name, vm}]
		lively := s != nil && s.lively || counts >= 0 && isLively(&b.Counts[counts])
		claims = append(claims, claim{p: p, vm: vm, counts: counts, lively: lively})
	}
	for i := range e.system.Outcomes {
		p := &e.system.Outcomes[i]
		of := e.countsOf[p.Spec.Name]
		for _, j := range of {
			add(p, b.Counts[j].VM, j)
		}
		if len(of) > 0 {
			continue
		}
		for _, vm := range e.counted {
			add(p, vm, -1)
		}
	}
	e.claims = claims
	return claims, without
}

// isLively reports whether anything happened in a window.
func isLively(c *outcome.Counts) bool { return c.Starts+c.Ends+c.Instances()+c.Loss.Total() > 0 }

// admit gives room to claims, and returns the number of those without room. If there is not enough, the VMs take
// turns: a VM with many outcomes does not take the room of others. Outcomes that have had events come first. If there
// is room for a row but not for its history, the history begins anew. The series of a claim without room is dropped.
func (e *Engine) admit(claims []claim) (omitted int) {
	left := room{e.free(claims), MaxRows}
	if e.fit(claims, left) {
		return 0
	}
	order := inTurn(claims)
	for _, i := range order {
		c := &claims[i]
		if c.admitted = left.take(e.size(c.p, nil)); !c.admitted {
			omitted++
			delete(e.series, seriesKey{c.p.Spec.Name, c.vm})
		}
	}
	if begun := e.admitHistories(claims, order, left); begun > 0 {
		e.noteKind(outcome.HistoryNotice, "the histories of %d outcomes of VMs begin anew, because there is room for histories of %d MiB", begun, MaxHistories>>20)
	}
	return omitted
}

// admitHistories gives the room that rows leave to their histories, in this order. It returns the number of those
// without room, which begin anew.
func (e *Engine) admitHistories(claims []claim, order []int, left room) (begun int) {
	for _, i := range order {
		c := &claims[i]
		s := e.series[seriesKey{c.p.Spec.Name, c.vm}]
		if s == nil {
			continue
		}
		if bytes := int64(s.mean.window.Bytes()); bytes <= left.bytes {
			left.bytes -= bytes
			continue
		}
		s.mean.clear()
		begun++
	}
	return begun
}

// fit admits claims while there is enough room for them, and reports whether there is enough for all.
func (e *Engine) fit(claims []claim, left room) bool {
	for i := range claims {
		c := &claims[i]
		size := e.size(c.p, e.series[seriesKey{c.p.Spec.Name, c.vm}])
		if c.admitted = left.take(size); !c.admitted {
			return false
		}
	}
	return true
}

// A room is what is left of a frame's limits.
type room struct {
	bytes int64
	rows  int
}

// take takes the room of a row, and reports whether there was enough.
func (r *room) take(bytes int64) bool {
	if r.rows < 1 || r.bytes < bytes {
		return false
	}
	r.rows--
	r.bytes -= bytes
	return true
}

// free returns the bytes that the series of other rows than these leave.
func (e *Engine) free(claims []claim) int64 {
	free := int64(MaxHistories)
	for key, s := range e.series {
		free -= e.size(&e.system.Outcomes[e.byName[key.name]], s)
	}
	for i := range claims {
		c := &claims[i]
		if s := e.series[seriesKey{c.p.Spec.Name, c.vm}]; s != nil {
			free += e.size(c.p, s)
		}
	}
	return free
}

// inTurn returns the indexes of claims in the order in which they get room: the first claim of each VM, then the
// second one of each, and so on.
func inTurn(claims []claim) []int {
	order, turn := make([]int, 0, len(claims)), make([]int, len(claims))
	taken := make(map[outcome.VM]int)
	for _, lively := range []bool{true, false} {
		for i, c := range claims {
			if c.lively == lively {
				turn[i] = taken[c.vm]
				taken[c.vm]++
				order = append(order, i)
			}
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(turn[i], turn[j]) })
	return order
}

// OmittedText describes what a frame leaves out, see [Frame.Omitted].
func OmittedText(omitted int) string {
	if omitted == 0 {
		return "all outcomes of all VMs are shown again"
	}
	return fmt.Sprintf("%d outcomes of VMs are not shown, because there is room for %d VMs and for histories of %d MiB: "+
		"observe fewer VMs, or use fewer bins or a shorter history", omitted, MaxVMs, MaxHistories>>20)
}

// keepShown removes from a batch what the frame leaves out.
func (e *Engine) keepShown(b *outcome.Batch) {
	if e.omitted == 0 {
		return
	}
	shown := func(name string, vm outcome.VM) bool { _, ok := e.rows[seriesKey{name, vm}]; return ok }
	b.Counts = slices.DeleteFunc(slices.Clone(b.Counts), func(c outcome.Counts) bool { return !shown(c.Outcome, c.VM) })
	b.Instances = slices.DeleteFunc(slices.Clone(b.Instances), func(i outcome.Instance) bool { return !shown(i.Outcome, i.VM) })
}

// size returns an upper bound of the bytes of an outcome's series after the present window, or of a new one if s is
// nil. A series needs the equivalent of ten words for each edge of its bins, for the present window and the mean, and
// what its history holds. If the diagram calculates the outcome, it needs five words more for each window, in bins as
// wide as the widest behind it.
func (e *Engine) size(p *OutcomeSystem, s *series) int64 {
	bytes := int64(p.Spec.Bins+1) * present * word
	if s != nil {
		bytes += int64(s.mean.window.Bytes())
	}
	if part, ok := e.composed[p.Spec.Name]; ok {
		bins := min(dq.MaxBins, p.Spec.DMax()/part.width+1)
		bytes += int64(bins+1) * (5*int64(e.system.History) + present) * word
	}
	return bytes
}
