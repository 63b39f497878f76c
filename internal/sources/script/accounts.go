package script

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/sources/intake"
	"github.com/beamscope/beamscope/internal/sources/pairing"
)

const (
	// maxKept limits the instances of all VMs that are open or remembered.
	maxKept = 1 << 18

	// maxVMs is the largest number of VMs that are distinguished.
	maxVMs = 32

	// forgotten is how long a VM must have no events before its place is free.
	forgotten = int64(5 * time.Minute)

	// maxUnwanted is the number of unwanted outcomes that are remembered, so that each gives one
	// notice only.
	maxUnwanted = 64
)

// accounts contains the counts of windows that are not collected yet.
type accounts struct {
	since    int64 // events before it are ignored
	next     int64 // beginning of the next window to collect
	room     *pairing.Room
	budget   *intake.Budget
	vms      map[int]*vm
	pages    []*page // sorted by window
	owed     map[string]outcome.Loss
	facts    []pairing.Fact
	unwanted map[string]bool
	rejected intake.Rejects
	notable  intake.Rejects // rejected lines that no notice has reported yet
	notices  *intake.Notices
}

// A vm is a VM that has had events.
type vm struct {
	engines map[string]*pairing.Engine // by outcome
	heard   int64                      // time of the last event
}

func newAccounts(from int64, now func() int64) accounts {
	return accounts{
		since:    from,
		next:     from,
		room:     pairing.NewRoom(maxKept),
		budget:   intake.NewBudget(intake.MaxKept),
		vms:      make(map[int]*vm),
		owed:     make(map[string]outcome.Loss),
		unwanted: make(map[string]bool),
		notices:  intake.NewNotices(now),
	}
}

// account processes a record when it is its turn.
func (a *accounts) account(e *era, i *item) {
	if i.kind == lost {
		a.miss(e, i)
		return
	}
	c := e.wants(i.outcome)
	if c == nil {
		a.refuse(i.outcome)
		return
	}
	v := a.vm(i.pid, i.at)
	switch {
	case v == nil && i.event.Kind == pairing.End:
		a.lose(e, c, crowd, i.at, outcome.Loss{Crowded: 1})
	case v == nil:
	case i.kind == rejected:
		a.lose(e, c, i.pid, i.at, outcome.Loss{Rejected: 1})
		a.book(e, c, i.pid, v.engine(c).Cut(a.facts[:0], i.at))
	default:
		i.event.Time = i.at
		a.book(e, c, i.pid, v.engine(c).Add(a.facts[:0], i.event))
	}
}

// miss counts lines that are missing. They may belong to any outcome and VM.
func (a *accounts) miss(e *era, i *item) {
	pids := slices.Collect(maps.Keys(a.vms))
	if len(pids) == 0 {
		pids = []int{0}
	}
	for _, c := range e.courses {
		if c.silent {
			continue
		}
		for _, pid := range pids {
			a.lose(e, c, pid, i.at, outcome.Loss{Missed: i.count})
		}
	}
	a.giveUp(e, i.at)
}

// late counts an event that came too late to be sorted. Its instance becomes unknown. A late sync
// belongs to no instance, and can be ignored.
func (a *accounts) late(e *era, r record, at int64) {
	c := e.wants(r.outcome)
	if c == nil {
		a.refuse(r.outcome)
		return
	}
	if r.event.Kind == pairing.Sync {
		return
	}
	if at >= a.since {
		a.owe(c, outcome.Loss{Missed: 1})
		a.notices.Add("lines come too late to be put in order: they are counted as missed")
	}
	if v := a.vms[r.pid]; v != nil {
		a.book(e, c, r.pid, v.engine(c).Lose(a.facts[:0], r.event.Key, r.event.Token))
	}
}

// vm returns the VM with a pid, or nil if there is no room for another one.
func (a *accounts) vm(pid int, at int64) *vm {
	v := a.vms[pid]
	if v == nil {
		if len(a.vms) == maxVMs {
			return nil
		}
		v = &vm{engines: make(map[string]*pairing.Engine)}
		a.vms[pid] = v
		a.notices.Add("events of %v", vmOf(pid))
	}
	v.heard = at
	return v
}

// engine returns the engine of an outcome.
func (v *vm) engine(c *course) *pairing.Engine {
	e := v.engines[c.spec.Name]
	if e == nil {
		e = pairing.New(c.config)
		v.engines[c.spec.Name] = e
	}
	return e
}

// each calls a function for each engine of an era, and counts the resulting facts.
func (a *accounts) each(e *era, do func(*pairing.Engine, []pairing.Fact) []pairing.Fact) {
	for pid, v := range a.vms {
		for name, engine := range v.engines {
			if c := e.byName[name]; c != nil {
				a.book(e, c, pid, do(engine, a.facts[:0]))
			}
		}
	}
}

// advance advances the time of all engines, so that instances time out.
func (a *accounts) advance(e *era, to int64) {
	a.each(e, func(engine *pairing.Engine, facts []pairing.Fact) []pairing.Fact { return engine.Advance(facts, to) })
}

// giveUp gives up all open instances.
func (a *accounts) giveUp(e *era, at int64) {
	a.each(e, func(engine *pairing.Engine, facts []pairing.Fact) []pairing.Fact { return engine.Cut(facts, at) })
}

// turn changes to another era. It gives up the open instances of outcomes that are now observed
// differently.
func (a *accounts) turn(old, next *era) {
	for pid, v := range a.vms {
		for name, engine := range v.engines {
			before, after := old.byName[name], next.byName[name]
			if after != nil && after.same(before) {
				after.doubt = max(after.doubt, before.doubt)
				continue
			}
			facts := engine.Cut(a.facts[:0], next.From)
			if after != nil {
				a.book(next, after, pid, facts)
			}
			delete(v.engines, name)
		}
	}
}

// book counts facts.
func (a *accounts) book(e *era, c *course, pid int, facts []pairing.Fact) {
	a.facts = facts[:0] // reuse the memory
	for _, f := range facts {
		if f.What == pairing.TimedOut && f.Start <= c.doubt {
			f.What = pairing.Cut
		}
		if f.Time >= a.since {
			a.count(e, c, pid, f)
		}
	}
}

// count counts a fact in its window.
func (a *accounts) count(e *era, c *course, pid int, f pairing.Fact) {
	if f.Time < a.next {
		a.countLate(c, f)
		return
	}
	cell := a.page(e, f.Time).cell(c, pid)
	n := &cell.Counts
	switch f.What {
	case pairing.Started:
		n.Starts++
	case pairing.Ended:
		n.Ends++
	case pairing.Succeeded:
		n.Amount += f.Amount
		if f.Inferred {
			n.Inferred++
		}
		cell.Count(&c.spec, c.grid, ended(f, outcome.Success), a.budget)
	case pairing.TimedOut:
		cell.Count(&c.spec, c.grid, ended(f, outcome.Timeout), a.budget)
	case pairing.Orphaned:
		n.Orphans++
	case pairing.Late:
		n.Lates++
	case pairing.Dropped:
		n.Dropped++
	default:
		n.Loss = n.Loss.Add(lossOf(f))
	}
}

// countLate counts a fact of a window that was already collected.
func (a *accounts) countLate(c *course, f pairing.Fact) {
	switch f.What {
	case pairing.Succeeded, pairing.TimedOut:
		a.owe(c, outcome.Loss{Missed: 1})
	default:
		a.owe(c, lossOf(f))
	}
}

// lossOf returns the loss that a fact represents, possibly none.
func lossOf(f pairing.Fact) (l outcome.Loss) {
	switch f.What {
	case pairing.Unpaired:
		l.Unpaired = 1
	case pairing.NoRoom:
		l.NoRoom = 1
	case pairing.Cut:
		l.Cut = 1
	}
	return l
}

// ended converts a fact to an instance.
func ended(f pairing.Fact, s outcome.Status) *intake.Ended {
	return &intake.Ended{Start: f.Start, End: f.Time, Status: s, Process: process(f.Key)}
}

// process parses a key as a process. It returns 0 if the key is not a process.
func process(key string) outcome.PID {
	inner, ok := strings.CutPrefix(key, "<")
	if !ok {
		return 0
	}
	if inner, ok = strings.CutSuffix(inner, ">"); !ok {
		return 0
	}
	parts := strings.Split(inner, ".")
	if len(parts) != 3 {
		return 0
	}
	node, err1 := strconv.ParseUint(parts[0], 10, 16)
	number, err2 := strconv.ParseUint(parts[1], 10, 32)
	serial, err3 := strconv.ParseUint(parts[2], 10, 16)
	if err1 != nil || err2 != nil || err3 != nil {
		return 0
	}
	return outcome.PID(number | serial<<32 | node<<48)
}

// lose counts a loss at the given time.
func (a *accounts) lose(e *era, c *course, pid int, at int64, l outcome.Loss) {
	if at < a.next {
		a.owe(c, l)
		return
	}
	n := &a.page(e, at).cell(c, pid).Counts
	n.Loss = n.Loss.Add(l)
}

// owe counts a loss in the next window to be collected.
func (a *accounts) owe(c *course, l outcome.Loss) {
	if l != (outcome.Loss{}) {
		a.owed[c.spec.Name] = a.owed[c.spec.Name].Add(l)
	}
}

// disown drops losses that are owed to outcomes outside an era.
func (a *accounts) disown(e *era) {
	maps.DeleteFunc(a.owed, func(name string, _ outcome.Loss) bool { return e.byName[name] == nil })
}

// page returns the page of the window that contains a time.
func (a *accounts) page(e *era, at int64) *page {
	for i := len(a.pages) - 1; i >= 0; i-- {
		if a.pages[i].window.Contains(at) {
			return a.pages[i]
		}
	}
	p := newPage(e.At(e.Number(at)), e)
	a.pages = append(a.pages, p)
	return p
}

// collect makes the batch of the next window.
func (a *accounts) collect(b *outcome.Batch, e *era, unobserved bool) {
	p := newPage(b.Window, e)
	if i := slices.IndexFunc(a.pages, func(p *page) bool { return p.window == b.Window }); i >= 0 {
		p = a.pages[i]
		a.pages = slices.Delete(a.pages, i, i+1)
	}
	p.fill(b, slices.Collect(maps.Keys(a.vms)), a.owed, unobserved, a.budget)
	a.next = b.Window.To
	maps.DeleteFunc(a.vms, func(_ int, v *vm) bool { return v.heard < a.next-forgotten && v.idle() })
}

func (v *vm) idle() bool {
	for _, e := range v.engines {
		if !e.Idle() {
			return false
		}
	}
	return true
}

// refuse reports an outcome that is not in the plan, once.
func (a *accounts) refuse(name string) {
	if !a.unwanted[name] && len(a.unwanted) < maxUnwanted {
		a.unwanted[name] = true
		a.notices.Add("the script tells of an outcome %q, which the scope file does not have", name)
	}
}

// reject counts a rejected line.
func (a *accounts) reject(text string, err error) {
	a.rejected.Add([]byte(text), err)
	a.notable.Add([]byte(text), err)
}

// takeNotices returns the notices since the last call.
func (a *accounts) takeNotices() []outcome.Notice {
	if r := a.notable.Take(); r.Count > 0 {
		a.notices.Add("%d lines rejected, the last one %s", r.Count, r.Last)
	}
	return a.notices.Take()
}
