package top

import "time"

// The ages of messages are lower bounds, because nothing in a VM shows when a message came. If
// the inner part of a queue has more messages than were fetched since some time, at least one of
// them was fetched before that time, in whatever order the process takes them. And if a process
// has fetched nothing since some time, the messages that it had not fetched then still wait. The
// bounds are exact to within one window and the time between two surveys, unless the process
// takes messages in a different order than that in which they came.

// An anchor is a time from which a row's fetched messages are counted.
type anchor struct {
	at      int64  // nanoseconds of CLOCK_MONOTONIC
	fetched uint64 // since then
	first   bool   // messages that were there at that time came before the observation
}

// ages tracks the ages of waiting messages. The zero value is ready to use.
type ages struct {
	inner map[ID]anchor
	outer map[ID]int64 // time since which a row has had messages that it does not fetch
	begun int64        // beginning of the first window with known fetches
}

// agedMost is the largest number of rows with known ages.
const agedMost = 1 << 14

// pass processes the last window of a history.
func (a *ages) pass(h *history) {
	last := h.windows[len(h.windows)-1]
	if a.begun == 0 && last.observes(Mailbox) {
		a.begun = last.From
	}
	for id, old := range a.inner {
		n, known := last.fetched(id)
		old.fetched += n
		if a.inner[id] = old; !known {
			delete(a.inner, id)
		}
	}
	for id := range a.outer {
		if n, known := last.fetched(id); n > 0 || !known {
			delete(a.outer, id)
		}
	}
}

// age sets the ages of the waiting messages in a survey that was made before the end of the last
// window of a history. All windows of the history must have been passed.
func (a *ages) age(h *history, s *Survey) {
	last := h.windows[len(h.windows)-1]
	inner, outer := make(map[ID]anchor), make(map[ID]int64)
	for id, seen := range s.Rows {
		if seen.Waiting == 0 || len(inner) >= agedMost {
			continue
		}
		if seen.Settled {
			if found, ok := a.anchor(h, id, uint64(seen.Waiting-seen.Unfetched)); ok {
				inner[id] = found
			}
		}
		if n, known := last.fetched(id); known && n == 0 && seen.Messages && seen.Unfetched > 0 {
			since, has := a.outer[id]
			if !has {
				since = s.From
			}
			outer[id] = since
		}
		row := seen.aged(s.From, inner[id], outer[id])
		s.Rows[id] = row
		s.Total.Before = s.Total.Before || row.Before
	}
	a.inner, a.outer = inner, outer
}

// anchor returns the earliest known time such that some of the messages in the inner part of a
// queue were fetched before it. messages is their number. It returns false if there is no such
// time.
func (a *ages) anchor(h *history, id ID, messages uint64) (found anchor, ok bool) {
	if old, has := a.inner[id]; has && messages > old.fetched {
		return old, true
	}
	var fetched uint64
	for i := len(h.windows) - 1; i >= 0; i-- {
		w := h.windows[i]
		n, known := w.fetched(id)
		if fetched += n; !known || w.From < a.begun || messages <= fetched {
			break
		}
		found, ok = anchor{w.From, fetched, w.From == a.begun}, true
	}
	return found, ok
}

// aged returns the data of a row at a time with the age of its messages.
func (s Seen) aged(now int64, inner anchor, outer int64) Seen {
	at := inner.at
	s.Before = inner.first
	if outer != 0 && (at == 0 || outer < at) {
		at, s.Before = outer, false
	}
	if at == 0 {
		return s
	}
	s.Aged, s.Oldest = true, time.Duration(max(now-at, 0))
	return s
}

// fetched returns the number of messages that a row fetched in a window, or false if it is
// unknown.
func (w *window) fetched(id ID) (n uint64, known bool) {
	vm := w.vms[id.VM]
	if vm == nil || !vm[Mailbox].observed || !vm[Mailbox].accounts {
		return 0, false
	}
	if lost := vm[Mailbox].lost; lost.Unreadable+lost.Missed+lost.Crowded+lost.Rejected > 0 {
		return 0, false
	}
	if t := w.rows[id]; t != nil && t[Mailbox].starts > 0 {
		return t[Mailbox].starts, true
	}
	rest := &vm[Mailbox].rest
	return 0, rest.starts == 0 && rest.instances() == 0
}

// observes reports whether some VM observed a kind for the whole window.
func (w *window) observes(k Kind) bool {
	for _, vm := range w.vms {
		if vm[k].observed {
			return true
		}
	}
	return false
}
