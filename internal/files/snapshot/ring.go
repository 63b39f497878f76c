package snapshot

// A slot is a window in the ring, as blocks of a recording.
type slot struct {
	config  []byte // configuration in force from this window on; empty if unchanged
	notices body   // notices since the previous window
	batch   []byte
}

// reset empties a slot, and keeps its memory.
func (s *slot) reset() {
	s.config = s.config[:0]
	s.notices = body{data: s.notices.data[:0]}
	s.batch = s.batch[:0]
}

// A ring contains the last windows. It reuses the slots and their memory.
type ring struct {
	slots []slot
	first int // index of the oldest window
	len   int

	config []byte // configuration of the oldest window, if that has none of its own
}

func newRing(size int) ring { return ring{slots: make([]slot, size)} }

// push moves the window from a slot into the ring, and puts an empty slot in its place. If the
// ring is full, it drops the oldest window. It returns the window's place in the ring.
func (r *ring) push(s *slot) *slot {
	if r.len == len(r.slots) {
		r.pop()
	}
	place := &r.slots[(r.first+r.len)%len(r.slots)]
	r.len++
	*place, *s = *s, *place
	s.reset()
	return place
}

// pop drops the oldest window, and keeps its configuration.
func (r *ring) pop() {
	if s := &r.slots[r.first]; len(s.config) > 0 {
		r.config, s.config = s.config, r.config
	}
	r.first = (r.first + 1) % len(r.slots)
	r.len--
}

// body returns the windows, preceded by the configuration of the oldest one.
func (r *ring) body() body {
	var b body
	if len(r.slots[r.first].config) == 0 {
		b.add(r.config)
	}
	for i := range r.len {
		b.addWindow(&r.slots[(r.first+i)%len(r.slots)])
	}
	return b
}
