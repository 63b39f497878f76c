package explain

import "slices"

// crowd is how many messages that are sent at about the same time are compared.
const crowd = 16

// align finds out which messages of the batch are which of the pending ones, and
// returns those that are still pending.
//
// What was sent must have come in that order, but for those that were sent within a
// moment by different processes; and all but the latest of it must be there, if it was
// not sent to an alias, which may not be one any more. What is left over of the batch
// was not seen to be sent. Where there are two ways to do this, it is uncertain.
func (b *mailbox) align() []*send {
	q := b.batch
	first, end := q[0].at, q[len(q)-1].at
	n := after(b.pending, end+1, sentAt)
	p, later := b.pending[:n], b.pending[n:]

	left, fit, certain := assign(q, p, first-near)
	right := rightmost(q, p, left, fit)
	if !b.opened {
		// Those not seen were sent before it was watched.
		left = right
	}
	for i := range q {
		l, r := at(p, left[i]), at(p, right[i])
		switch {
		case l == nil && r == nil:
		case l != r:
			q[i].among = confuse(l, r)
		case !certain:
			q[i].among = confuse(l, nil)
		default:
			q[i].send = l
		}
	}
	for i := range q {
		if j := left[i]; j >= 0 {
			b.swapped(q, i, j, left, fit)
		}
	}
	for i := range q {
		if s := q[i].send; s != nil && s.among != nil {
			s.fate, q[i].among = doubtful, s.among
		}
	}
	rest := b.lapse(spare(p, left), first)
	return append(rest, later...)
}

// assign matches what was queued with what was sent. What was sent before due, but to an
// alias, must be there: if not it is not certain that anything is right. That sizes are
// equal is preferred to that there were literals, and that alike messages to aliases
// came to that they did not.
func assign(q []queued, p []*send, due int64) (left []int, by fit, certain bool) {
	missing := func(left []int) (late, any bool) {
		for _, s := range spare(p, left) {
			late = late || !s.alias && s.at < due
			any = any || !s.alias
		}
		return late, any && slices.Contains(left, -1)
	}
	for _, plainOnly := range []bool{false, true} {
		wanted := func(s *send) bool { return !plainOnly || !s.alias }
		for _, by := range []fit{fits, fitsWithLiterals} {
			left := match(q, p, by, wanted)
			if late, more := missing(left); !late && !more {
				return left, by, true
			}
		}
	}
	left = match(q, p, fits, func(*send) bool { return true })
	late, _ := missing(left)
	return left, fits, !late
}

// at returns an item of p, nil for -1.
func at(p []*send, i int) *send {
	if i < 0 {
		return nil
	}
	return p[i]
}

// spare returns what was not matched.
func spare(p []*send, matched []int) []*send {
	used := make([]bool, len(p))
	for _, j := range matched {
		if j >= 0 {
			used[j] = true
		}
	}
	var rest []*send
	for j, s := range p {
		if !used[j] {
			rest = append(rest, s)
		}
	}
	return rest
}

// match matches what was queued with what was sent, each as early as it can be. The
// result is by index of q that of p, or -1.
func match(q []queued, p []*send, by fit, wanted func(*send) bool) []int {
	result := make([]int, len(q))
	used := make([]bool, len(p))
	head := 0
	for i := range q {
		result[i] = -1
		for head < len(p) && (used[head] || !wanted(p[head])) {
			head++
		}
		for j := head; j < min(len(p), head+crowd) && p[j].at-p[head].at <= near; j++ {
			if used[j] || !wanted(p[j]) || !by(p[j], q[i]) || p[j].at > q[i].at {
				continue
			}
			if earlier(p[head:j], used[head:j], p[j]) {
				continue
			}
			result[i] = j
			used[j] = true
			break
		}
	}
	return result
}

// earlier reports whether there is one from the same sender before.
func earlier(p []*send, used []bool, s *send) bool {
	for i := range p {
		if !used[i] && p[i].from == s.from {
			return true
		}
	}
	return false
}

// rightmost matches what was matched once more, each as late as it can be.
func rightmost(q []queued, p []*send, left []int, by fit) []int {
	var order []int // indices of p, in the order in which they were queued
	for _, j := range left {
		if j >= 0 {
			order = append(order, j)
		}
	}
	result := make([]int, len(q))
	for i := len(q) - 1; i >= 0; i-- {
		result[i] = -1
		if n := len(order); n > 0 && by(p[order[n-1]], q[i]) {
			result[i] = order[n-1]
			order = order[:n-1]
		}
	}
	return result
}

// swapped looks for messages of others that may have come instead of p[j] as q[i],
// because they were sent at the same time. Those not there yet are among them.
func (b *mailbox) swapped(q []queued, i, j int, matched []int, by fit) {
	p := b.pending
	s := p[j]
	try := func(k int) bool {
		o := p[k]
		if o.at-s.at > near || s.at-o.at > near {
			return false
		}
		if o.from == s.from || !by(o, q[i]) {
			return true
		}
		if m := slices.Index(matched[max(0, i-crowd):min(len(matched), i+crowd)], k); m >= 0 && !by(s, q[max(0, i-crowd)+m]) {
			return true
		}
		confuse(s, o)
		return true
	}
	for k := j + 1; k < min(len(p), j+crowd) && try(k); k++ {
	}
	for k := j - 1; k >= max(0, j-crowd) && try(k); k-- {
	}
}
