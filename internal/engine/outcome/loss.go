package outcome

// Loss counts, by reason, what happened but did not become an instance of the window. It does not
// include instances that were counted but not streamed. Each reason has a row in [LossReasons].
type Loss struct {
	Unreadable uint64 // events with an argument that could not be read
	NoRoom     uint64 // starts without room among the open instances
	Missed     uint64 // instances that arrived after their window had lost its room because we were late
	Cut        uint64 // instances given up because they were open when what to observe changed, or when their VM ended
	Exits      uint64 // exits of processes that were not recorded: failures that appear as timeouts
	Crowded    uint64 // instances and losses of VMs that have no slot of their own
	Rejected   uint64 // events of a known outcome that could otherwise not be understood
	Unpaired   uint64 // instances with an unknown end: another start took their place, or messages were out of step
}

// A LossReason describes a reason of losses.
type LossReason struct {
	Name  string // in text, such as "no room"
	Key   string // in JSON, such as "no_room"
	Words string // what happened, in a few words

	// Of returns the counter of the reason.
	Of func(*Loss) *uint64
}

// NumLossReasons is the number of reasons of losses.
const NumLossReasons = 8

// LossReasons returns all reasons. Recordings keep the counters in this order.
func LossReasons() [NumLossReasons]LossReason {
	return [...]LossReason{
		{"unreadable", "unreadable", "an argument could not be read", func(l *Loss) *uint64 { return &l.Unreadable }},
		{"no room", "no_room", "too many spans were open", func(l *Loss) *uint64 { return &l.NoRoom }},
		{"missed", "missed", "we were late, or clocks differ", func(l *Loss) *uint64 { return &l.Missed }},
		{"cut", "cut", "open at a change, or at the VM's end", func(l *Loss) *uint64 { return &l.Cut }},
		{"exits", "exits", "exits that found no room", func(l *Loss) *uint64 { return &l.Exits }},
		{"crowded", "crowded", "of VMs beyond the 64th", func(l *Loss) *uint64 { return &l.Crowded }},
		{"rejected", "rejected", "a line was not understood", func(l *Loss) *uint64 { return &l.Rejected }},
		{"unpaired", "unpaired", "started again before its end", func(l *Loss) *uint64 { return &l.Unpaired }},
	}
}

// Total returns the sum over all reasons: at most so many instances are missing or, with Exits, wrong. It and Add name each counter, because they must not allocate.
func (l Loss) Total() uint64 {
	return l.Unreadable + l.NoRoom + l.Missed + l.Cut + l.Exits + l.Crowded + l.Rejected + l.Unpaired
}

// Add returns the sum of two losses, reason by reason.
func (l Loss) Add(m Loss) Loss {
	return Loss{
		Unreadable: l.Unreadable + m.Unreadable,
		NoRoom:     l.NoRoom + m.NoRoom,
		Missed:     l.Missed + m.Missed,
		Cut:        l.Cut + m.Cut,
		Exits:      l.Exits + m.Exits,
		Crowded:    l.Crowded + m.Crowded,
		Rejected:   l.Rejected + m.Rejected,
		Unpaired:   l.Unpaired + m.Unpaired,
	}
}

// ByKey returns the counters that are not 0 by the keys of their reasons, or nil.
func (l Loss) ByKey() map[string]uint64 {
	var counts map[string]uint64
	for _, r := range LossReasons() {
		n := *r.Of(&l)
		if n == 0 {
			continue
		}
		if counts == nil {
			counts = make(map[string]uint64)
		}
		counts[r.Key] = n
	}
	return counts
}
