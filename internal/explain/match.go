package explain

import (
	"iter"
	"slices"
)

// crowd is the maximum number of simultaneous messages on their way that are compared.
const crowd = 16

// match matches queued messages with sent ones, each as early as possible. The result contains, by
// index of q, the index of p, or -1.
func match(q []queued, p []*send, wanted func(*send) bool) []int {
	m := matching{q: q, p: p, wanted: wanted, result: make([]int, 0, len(q)), used: make([]bool, len(p))}
	for range q {
		m.next()
	}
	return m.result
}

// A matching is the state of match.
type matching struct {
	q      []queued
	p      []*send
	wanted func(*send) bool
	result []int  // index of p by index of q, or -1, so far
	used   []bool // by index of p
	head   int    // index of the first of p that can be matched
}

// next matches the next of q.
func (m *matching) next() {
	for m.head < len(m.p) && !m.free(m.head) {
		m.head++
	}
	i := len(m.result)
	for j := range m.crowd() {
		if m.p[j].at > m.p[m.head].by() {
			break
		}
		if m.may(i, j) {
			m.used[j] = true
			m.result = append(m.result, j)
			return
		}
	}
	m.result = append(m.result, m.trade())
}

// crowd yields the first messages of p that can be matched.
func (m *matching) crowd() iter.Seq[int] {
	return func(yield func(int) bool) {
		n := 0
		for j := m.head; j < min(len(m.p), m.head+search) && n < crowd; j++ {
			if !m.free(j) {
				continue
			}
			n++
			if !yield(j) {
				return
			}
		}
	}
}

// free reports whether p[j] can still be matched.
func (m *matching) free(j int) bool { return !m.used[j] && m.wanted(m.p[j]) }

// may reports whether p[j] can be q[i], and no remaining message must have come before it.
func (m *matching) may(i, j int) bool {
	if !m.is(i, j) {
		return false
	}
	for k := m.head; k < j; k++ {
		if m.free(k) && m.p[k].precedes(m.p[j]) {
			return false
		}
	}
	return true
}

// is reports whether q[i] and p[j] fit together, and their times are in order.
func (m *matching) is(i, j int) bool { return m.p[j].fits(m.q[i]) && m.p[j].at <= m.q[i].at }

// trade finds a candidate for the next of q among the messages that are matched with others. A
// remaining message that came before must be able to take its place, and is then matched there. The
// result is an index of p, or -1.
func (m *matching) trade() int {
	i := len(m.result)
	for k := i - 1; k >= max(0, i-crowd); k-- {
		j := m.result[k]
		if j < 0 || !m.p[j].fits(m.q[i]) || m.precedesAny(j, m.result[k+1:]) {
			continue
		}
		for o := range m.crowd() {
			if !m.precedesAny(j, []int{o}) && m.may(k, o) && m.insert(k, o) {
				return j
			}
		}
	}
	return -1
}

// precedesAny reports whether p[j] certainly came before any of some others.
func (m *matching) precedesAny(j int, others []int) bool {
	return slices.ContainsFunc(others, func(o int) bool { return j < o && m.p[j].precedes(m.p[o]) })
}

// insert matches q[k] with p[o] or a message that precedes it, so that all matches are in the order
// of arrival. It reports whether that is possible.
func (m *matching) insert(k, o int) bool {
	at := []int{k}
	order := []int{o}
	for i := k + 1; i < len(m.result); i++ {
		if j := m.result[i]; j >= 0 && j < o && m.p[j].precedes(m.p[o]) {
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

// whole matches all of q, with all of p that must be in it except a number of held ones. If that is
// impossible, it returns nil. It is a search with backtracking that gives up after a number of
// steps.
func whole(q []queued, p []*send, must func(*send) bool, held int) []int {
	w := wholeMatching{
		q: q, p: p, used: make([]bool, len(p)), result: make([]int, 0, len(q)),
		must: must, spare: held, steps: patience * (crowd + len(q)),
	}
	for _, s := range p {
		if must(s) {
			w.spare--
		}
	}
	if len(p) < len(q) || !w.run() {
		return nil
	}
	return w.result
}

// patience is the maximum number of steps of whole for each message.
const patience = 16

// A wholeMatching is the state of whole.
type wholeMatching struct {
	q      []queued
	p      []*send
	used   []bool
	result []int
	head   int // all messages of p before this index are used
	must   func(*send) bool
	spare  int // number of required messages that may still remain unmatched; if negative, some must still be matched
	steps  int // remaining steps
}

// run matches the rest of q, and reports whether that is possible.
func (w *wholeMatching) run() bool {
	i := len(w.result)
	if left := len(w.q) - i; left == 0 || w.spare+left < 0 {
		return w.spare >= 0
	}
	head := w.head
	for w.head < len(w.p) && w.used[w.head] {
		w.head++
	}
	n := 0
	for j := w.head; j < min(len(w.p), w.head+search) && n < crowd && w.steps > 0; j++ {
		if w.used[j] {
			continue
		}
		n++
		w.steps--
		if w.p[j].at <= w.q[i].at && w.p[j].fits(w.q[i]) && w.inTurn(j) && w.with(j) {
			return true
		}
	}
	w.head = head
	return false
}

// with matches the next of q with p[j], and then the rest if possible.
func (w *wholeMatching) with(j int) bool {
	i, spare := len(w.result), w.spare
	if w.must(w.p[j]) {
		w.spare++
	}
	w.used[j] = true
	w.result = append(w.result, j)
	if w.run() {
		return true
	}
	w.used[j] = false
	w.result, w.spare = w.result[:i], spare
	return false
}

// inTurn reports whether p[j] may come after the used messages and before the unused ones. Messages
// to aliases are ignored, because they may never come.
func (w *wholeMatching) inTurn(j int) bool {
	for k := w.head; k < min(len(w.p), w.head+search); k++ {
		switch {
		case k < j && !w.used[k] && !w.p[k].alias && w.p[k].precedes(w.p[j]):
			return false
		case k > j && w.used[k] && w.p[j].precedes(w.p[k]):
			return false
		case k > j && !w.used[k] && w.p[k].at > w.p[j].by():
			return true // because nothing after it is used
		}
	}
	return true
}
