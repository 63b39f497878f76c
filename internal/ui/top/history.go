package top

import (
	"maps"
	"slices"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// An ID identifies a row: a process or a function of a VM.
type ID struct {
	VM  outcome.VM
	Key string // "<0.123.0>" or "lists:seq/2"
}

// A history contains the data of the last windows. It is never modified. Its successor replaces
// it.
type history struct {
	by      string // kind of the rows, [outcome.GroupPID] or [outcome.GroupMFA]
	level   Level
	dmax    [kinds]time.Duration
	windows []*window // the newest one is the last

	accounts [kinds]bool // groups have the figures of Accounts
	growing  bool        // a queue is growing
	survey   *Survey     // the last one that was made before the end of the last window, or nil
}

// A window contains the data of one window. It is not modified once it is in a history.
type window struct {
	outcome.Window
	time  time.Time // wall time of its end
	cost  outcome.Cost
	vms   map[outcome.VM]*[kinds]machine
	rows  map[ID]*[kinds]tally
	names map[ID]name

	used    Used         // processor time of the VMs
	waiting map[ID]int64 // number of messages, for rows with messages; nil if unknown
	waits   int64        // of all rows
}

// A machine contains the data of one kind in a VM.
type machine struct {
	observed bool // for the whole window
	inferred bool // for some instances
	orphaned bool // some ends had no known start
	partial  bool // observed for a part of the window only
	accounts bool // groups have starts, processor and dirty time
	lost     outcome.Loss
	rest     tally // sums of the instances without room among the rows
}

// A name is what is known about a row in addition to its key.
type name struct {
	process outcome.PID
	name    string
}

func windowOf(b *outcome.Batch, accounts [kinds]bool) *window {
	w := &window{
		Window: b.Window,
		time:   b.Time,
		cost:   b.Cost,
		vms:    make(map[outcome.VM]*[kinds]machine),
		rows:   make(map[ID]*[kinds]tally),
		names:  make(map[ID]name),
	}
	for i := range b.Counts {
		if k, ok := kindOf(b.Counts[i].Outcome); ok && b.Counts[i].VM.PID != 0 {
			w.count(k, &b.Counts[i])
			w.vms[b.Counts[i].VM][k].accounts = accounts[k]
		}
	}
	return w
}

// dead reports whether a row belongs to a process that has ended: a survey of all processes of
// its VM in the last window did not find it.
func (h *history) dead(id ID) bool {
	s := h.survey
	if s == nil || h.by != outcome.GroupPID || s.By != h.by || len(s.Rows) >= surveyedMost || len(h.windows) == 0 {
		return false
	}
	if _, found := s.Rows[id]; found || s.To <= h.windows[len(h.windows)-1].From {
		return false
	}
	for other := range s.Rows {
		if other.VM == id.VM {
			return true
		}
	}
	return false
}

func kindOf(name string) (Kind, bool) {
	for k := range kinds {
		if k.String() == name {
			return k, true
		}
	}
	return 0, false
}

// count adds the counts of a kind in a VM.
func (w *window) count(k Kind, c *outcome.Counts) {
	if w.vms[c.VM] == nil {
		w.vms[c.VM] = new([kinds]machine)
	}
	m := &w.vms[c.VM][k]
	// Nothing is known about instances that belong to no group.
	m.partial = c.Unobserved || len(c.Groups) == 0 && c.Instances() > 0
	m.observed, m.inferred, m.orphaned, m.lost = !m.partial, c.Inferred > 0, c.Orphans > 0, c.Loss
	if m.partial {
		return
	}
	var grouped tally
	for i := range c.Groups {
		g := &c.Groups[i]
		t := tallyOf(g)
		if g.Key == "" {
			m.rest = t
			continue
		}
		grouped.successes += t.successes
		grouped.failures += t.failures
		grouped.timeouts += t.timeouts
		grouped.starts += t.starts
		id := ID{c.VM, g.Key}
		if w.rows[id] == nil {
			w.rows[id] = new([kinds]tally)
		}
		w.rows[id][k] = t
		if known := w.names[id]; g.Name != "" || known.process == 0 {
			w.names[id] = name{g.Process, g.Name}
		}
	}
	// Instances that belong to no group are part of the rest too.
	m.rest.successes = max(m.rest.successes, less(c.Successes, grouped.successes))
	m.rest.failures = max(m.rest.failures, less(c.Failures, grouped.failures))
	m.rest.starts = max(m.rest.starts, less(c.Starts, grouped.starts))
	m.rest.timeouts = max(m.rest.timeouts, less(c.Timeouts, grouped.timeouts))
}

// less returns a-b, or 0 if that is negative.
func less(a, b uint64) uint64 { return a - min(a, b) }

// maxWindows is the number of windows in a history: enough for an average and a trend.
const maxWindows = 60

// add returns the history extended by a window.
func (h *history) add(w *window) *history {
	next := *h
	first := max(0, len(h.windows)+1-maxWindows)
	next.windows = append(slices.Clone(h.windows[first:]), w)
	return &next
}

// last returns the last n windows, or fewer if there are fewer.
func (h *history) last(n int) []*window { return h.windows[max(0, len(h.windows)-n):] }

// see stores the part of a survey that is shown as long as the window is.
func (w *window) see(s *Survey) {
	w.waiting, w.waits = make(map[ID]int64), s.Total.Waiting
	for id, seen := range s.Rows {
		if seen.Waiting > 0 {
			w.waiting[id] = seen.Waiting
		}
	}
}

// ids returns all rows of the history, with their newest data. These are the rows with activity
// in its windows, and those with most waiting messages.
func (h *history) ids() map[ID]name {
	all := make(map[ID]name)
	if h.survey != nil {
		maps.Copy(all, h.survey.Names)
	}
	for _, w := range h.windows {
		for id, n := range w.names {
			if n.name == "" {
				n.name = all[id].name
			}
			if n.process == 0 {
				n.process = all[id].process
			}
			all[id] = n
		}
	}
	return all
}

// vms returns the VMs of the newest window, sorted by pid.
func (h *history) vms() []outcome.VM {
	if len(h.windows) == 0 {
		return nil
	}
	vms := slices.Collect(maps.Keys(h.windows[len(h.windows)-1].vms))
	slices.SortFunc(vms, compareVMs)
	return vms
}
