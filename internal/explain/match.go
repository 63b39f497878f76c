package explain

import "slices"

// crowd is how many messages that are sent at about the same time are compared.
const crowd = 16

// match matches what was queued with what was sent, each as early as it can be. The
// result is by index of q that of p, or -1.
func match(q []queued, p []*send, wanted func(*send) bool) []int {
	m := matching{q: q, p: p, wanted: wanted, result: make([]int, 0, len(q)), used: make([]bool, len(p))}
	for range q {
		m.next()
	}
	return m.result
}

// A matching is how far a match has come.
type matching struct {
	q      []queued
	p      []*send
	wanted func(*send) bool
	result []int  // by index of q that of p, or -1; as far as it has come
	used   []bool // by index of p
	head   int    // the first of p that can be matched
}

// next matches the next of q.
func (m *matching) next() {
	for m.head < len(m.p) && !m.free(m.head) {
		m.head++
	}
	i := len(m.result)
	for j := m.head; j < min(len(m.p), m.head+crowd) && m.p[j].at <= m.p[m.head].by(); j++ {
		if m.may(i, j) {
			m.used[j] = true
			m.result = append(m.result, j)
			return
		}
	}
	m.result = append(m.result, m.trade())
}

// free reports whether p[j] can still be matched.
func (m *matching) free(j int) bool { return !m.used[j] && m.wanted(m.p[j]) }

// may reports whether p[j] can be q[i], and nothing that is left must have come before.
func (m *matching) may(i, j int) bool {
	if !m.free(j) || !m.is(i, j) {
		return false
	}
	for k := m.head; k < j; k++ {
		if m.free(k) && m.p[k].precedes(m.p[j]) {
			return false
		}
	}
	return true
}

// is reports whether q[i] and p[j] are alike, and in the order of time.
func (m *matching) is(i, j int) bool { return m.p[j].fits(m.q[i]) && m.p[j].at <= m.q[i].at }

// trade finds what the next of q may be among what others were matched with, where one
// that is left, sent at the same time by another process, can be those others. That is
// matched with them then. The result is an index of p, or -1.
func (m *matching) trade() int {
	i := len(m.result)
	for k := i - 1; k >= max(0, i-crowd); k-- {
		j := m.result[k]
		if j < 0 || !m.p[j].fits(m.q[i]) {
			continue
		}
		for o := m.head; o < min(len(m.p), m.head+crowd) && m.p[o].at <= m.p[j].by(); o++ {
			if m.p[o].from != m.p[j].from && m.p[o].maySwap(m.p[j]) && m.may(k, o) && m.insert(k, o) {
				return j
			}
		}
	}
	return -1
}

// insert matches q[k] with p[o], or with what was sent before by the same process, the
// messages of which are in the order of sending. It reports whether that can be.
func (m *matching) insert(k, o int) bool {
	at := []int{k}
	order := []int{o}
	for i := k + 1; i < len(m.result); i++ {
		if j := m.result[i]; j >= 0 && j < o && m.p[j].from == m.p[o].from {
			at = append(at, i)
			order = slices.Insert(order, len(order)-1, j)
		}
	}
	for n, i := range at {
		if !m.is(i, order[n]) {
			return false
		}
	}
	for n, i := range at {
		m.result[i] = order[n]
	}
	m.used[o] = true
	return true
}

// search matches all of q, so that what is due is there, where that can be and matched does
// not do so already; and otherwise returns nil. It tries what is possible, and gives up
// after some time.
func (b *mailbox) search(q []queued, p []*send, matched []int, due func([]int) bool) []int {
	if len(p) < len(q) || !due(matched) && !slices.Contains(matched, -1) {
		return nil
	}
	s := searching{q: q, p: p, used: make([]bool, len(p)), result: make([]int, 0, len(q)), left: patience * (crowd + len(q))}
	if !s.run(due) {
		return nil
	}
	return s.result
}

// patience is how many steps a search may take for each of the messages.
const patience = 16

// A searching is how far a search has come.
type searching struct {
	q      []queued
	p      []*send
	used   []bool
	result []int
	head   int // all of p before it are used
	left   int // steps
}

// run matches the rest of q, and reports whether it can.
func (s *searching) run(due func([]int) bool) bool {
	i := len(s.result)
	if i == len(s.q) {
		return !due(s.result)
	}
	head := s.head
	for s.head < len(s.p) && s.used[s.head] {
		s.head++
	}
	for j := s.head; j < min(len(s.p), s.head+crowd) && s.left > 0; j++ {
		s.left--
		if s.used[j] || s.p[j].at > s.q[i].at || !s.p[j].fits(s.q[i]) || !s.inTurn(j) {
			continue
		}
		s.used[j] = true
		s.result = append(s.result, j)
		if s.run(due) {
			return true
		}
		s.used[j] = false
		s.result = s.result[:i]
	}
	s.head = head
	return false
}

// inTurn reports whether p[j] may come after what is used and before what is not: but for
// what was sent to aliases, which may never come.
func (s *searching) inTurn(j int) bool {
	for k := s.head; k < min(len(s.p), s.head+2*crowd); k++ {
		switch {
		case k < j && !s.used[k] && !s.p[k].alias && s.p[k].precedes(s.p[j]):
			return false
		case k > j && s.used[k] && s.p[j].precedes(s.p[k]):
			return false
		}
	}
	return true
}
