package snapshot

// A slot is a window in the ring, as blocks of a recording.
type slot struct {
	config  []byte // that began to hold with it; empty where that of the window before does
	notices body   // that came since the window before
	batch   []byte
}

// reset empties a slot, and keeps its memory.
func (s *slot) reset() {
	s.config = s.config[:0]
	s.notices = body{data: s.notices.data[:0]}
	s.batch = s.batch[:0]
}

// A ring holds the last windows. The slots are used again and again, and so is
// their memory.
type ring struct {
	slots []slot
	first int // index of the oldest window
	len   int

	config []byte // that holds for the oldest window, where it does not have its own
}

func newRing(size int) ring { return ring{slots: make([]slot, size)} }

// push takes the window in a slot, and puts an empty one there. Where the ring is
// full the oldest window goes. It returns the window's place.
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

// pop drops the oldest window, and remembers the configuration that it had.
func (r *ring) pop() {
	if s := &r.slots[r.first]; len(s.config) > 0 {
		r.config, s.config = s.config, r.config
	}
	r.first = (r.first + 1) % len(r.slots)
	r.len--
}

// body returns the windows, after the configuration that holds for the oldest.
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
