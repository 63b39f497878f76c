package top

import (
	"maps"
	"slices"
	"time"

	"github.com/beamscope/beamscope/internal/outcome"
)

// An ID names a row: a process or a function of a VM.
type ID struct {
	VM  outcome.VM
	Key string // "<0.123.0>" or "lists:seq/2"
}

// A history is what was seen in the last windows. It is never changed, but replaced by
// one that goes on.
type history struct {
	by      string // what the rows are, [outcome.GroupPID] or [outcome.GroupMFA]
	level   Level
	dmax    [kinds]time.Duration
	windows []*window // the last is the newest

	accounts [kinds]bool // groups have what only some plans ask for
	growing  bool        // a queue is
	survey   *Survey     // that was made before the end of the last window, nil: none
}

// A window is what was seen in one. It is not changed once it is in a history.
type window struct {
	outcome.Window
	time  time.Time // wall time of its end
	cost  outcome.Cost
	vms   map[outcome.VM]*[kinds]machine
	rows  map[ID]*[kinds]tally
	names map[ID]name

	used    Used         // by the VMs
	waiting map[ID]int64 // messages, of rows that have any; nil: not known
	waits   int64        // of all rows
}

// A machine is what was seen of one kind in a VM.
type machine struct {
	observed bool // for all of the window
	inferred bool // some instances
	partial  bool // observed for a part of the window only
	accounts bool // groups have starts, processor and dirty time
	lost     outcome.Loss
	rest     tally // of the instances that found no room among the rows
}

// A name is what is known of a row besides its key.
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

func kindOf(name string) (Kind, bool) {
	for k := range kinds {
		if k.String() == name {
			return k, true
		}
	}
	return 0, false
}

// count takes over the counts of a kind in a VM.
func (w *window) count(k Kind, c *outcome.Counts) {
	if w.vms[c.VM] == nil {
		w.vms[c.VM] = new([kinds]machine)
	}
	m := &w.vms[c.VM][k]
	// Instances of which no group tells are none of which anything is known.
	m.partial = c.Unobserved || len(c.Groups) == 0 && c.Instances() > 0
	m.observed, m.inferred, m.lost = !m.partial, c.Inferred > 0, c.Loss
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
	// Also those of which no group tells are among the rest.
	m.rest.successes = max(m.rest.successes, less(c.Successes, grouped.successes))
	m.rest.failures = max(m.rest.failures, less(c.Failures, grouped.failures))
	m.rest.starts = max(m.rest.starts, less(c.Starts, grouped.starts))
	m.rest.timeouts = max(m.rest.timeouts, less(c.Timeouts, grouped.timeouts))
}

// less returns a-b, or 0 where that would be less.
func less(a, b uint64) uint64 { return a - min(a, b) }

// maxWindows is how many windows a history has at most: as many as an average is over
// and a trend shows.
const maxWindows = 60

// add returns a history that goes on with a window.
func (h *history) add(w *window) *history {
	next := *h
	first := max(0, len(h.windows)+1-maxWindows)
	next.windows = append(slices.Clone(h.windows[first:]), w)
	return &next
}

// last returns the last n windows, or as many as there are.
func (h *history) last(n int) []*window { return h.windows[max(0, len(h.windows)-n):] }

// see takes over what is shown of a survey as long as the window is.
func (w *window) see(s *Survey) {
	w.waiting, w.waits = make(map[ID]int64), s.Total.Waiting
	for id, seen := range s.Rows {
		if seen.Waiting > 0 {
			w.waiting[id] = seen.Waiting
		}
	}
}

// ids returns all rows of the history, with what is known of them: the newest. They are those
// that did something in its windows, and those for which most messages wait.
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

// vms returns the VMs of the newest window, in the order of their pids.
func (h *history) vms() []outcome.VM {
	if len(h.windows) == 0 {
		return nil
	}
	vms := slices.Collect(maps.Keys(h.windows[len(h.windows)-1].vms))
	slices.SortFunc(vms, compareVMs)
	return vms
}
