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
//
// It also returns when the first of the batch that was seen to be sent was, at the
// latest; forever if none was.
func (b *mailbox) align() ([]*send, int64) {
	q := b.batch
	fetch, end := q[0].at, q[len(q)-1].at
	if b.collected != 0 {
		fetch = min(fetch, b.collected)
	}
	n := after(b.pending, end+1, sentAt)
	p, later := b.pending[:n], b.pending[n:]

	// The queue is longer than what is known of it where the VM hands out the rest later.
	held := 0
	if b.synced {
		held = max(0, b.inner-b.front-len(b.private)-len(q))
	}

	due := func(left []int) bool {
		n := 0
		for _, s := range spare(p, left) {
			if !s.alias && s.at < fetch-near {
				n++
			}
		}
		return n > held
	}
	left := match(q, p, func(*send) bool { return true })
	doubt := false
	if due(left) {
		plain := match(q, p, func(s *send) bool { return !s.alias })
		if due(plain) {
			doubt = true
		} else {
			left = plain
		}
	}
	if asleep := b.asleep(p); asleep > 0 {
		awake := match(q, p, func(s *send) bool { return !s.alias || s.at < b.since || s.at >= p[asleep].at })
		if len(spare(p, awake)) == len(spare(p, left)) && !due(awake) {
			left = awake
		}
	}
	if !b.opened {
		// Those not seen were sent before it was watched.
		left = rightmost(q, p, left, nil)
	}
	gone := gone(p, left, fetch)
	right := rightmost(q, p, left, gone)
	for i := range q {
		l, r := at(p, left[i]), at(p, right[i])
		switch {
		case l == nil && r == nil:
		case l != r:
			q[i].among = confuse(append(fitting(q[i], p, gone, left[i], right[i]), l, r)...)
		case doubt:
			q[i].among = confuse(l, nil)
		default:
			q[i].send = l
		}
	}
	for i := range q {
		if j := left[i]; j >= 0 {
			b.swapped(q, i, j, left)
		}
	}
	for i := range q {
		if s := q[i].send; s != nil && s.among != nil {
			s.fate, q[i].among = doubtful, s.among
		}
	}
	first := int64(forever)
	for i := range q {
		if j := max(left[i], right[i]); j >= 0 {
			first = min(first, p[j].at)
		}
	}
	rest := spare(p, left)
	n = max(0, len(rest)-held)
	return slices.Concat(b.lapse(rest[:n:n], fetch), rest[n:], later), first
}

// awakened is how many times longer ago than another message one to an alias has to be
// sent that a waiting process was not woken by, as it ran only after the other one.
const awakened = 16

// asleep returns the index of the message by which at the latest the process was woken
// if it did not come to run for long after those before it, but soon after this one: if
// those were sent to aliases, they were dropped. 0 if that cannot be said.
func (b *mailbox) asleep(p []*send) int {
	if b.since == 0 || b.ran == 0 {
		return 0
	}
	last := after(p, b.ran, sentAt) - 1
	if last <= 0 {
		return 0
	}
	late := awakened * max(near, b.ran-p[last].at)
	i := last
	for i > 0 && p[last].at-p[i-1].at < late {
		i--
	}
	if i == 0 || p[i-1].at < b.since {
		return 0
	}
	return i
}

// gone returns the indices of what was not matched and may have been, instead of
// something that was sent to an alias which was none any more: others to aliases, and
// what was sent too shortly before to have to be there.
func gone(p []*send, left []int, fetch int64) []int {
	if !slices.ContainsFunc(left, func(j int) bool { return j >= 0 && p[j].alias }) {
		return nil
	}
	used := used(p, left)
	var gone []int
	for j, s := range p {
		if !used[j] && (s.alias || s.at >= fetch-near) {
			gone = append(gone, j)
		}
	}
	return gone
}

// fitting returns those of p, by index, from one to another, that may be what was
// queued; not more than are kept.
func fitting(q queued, p []*send, indices []int, from, to int) []*send {
	var found []*send
	for _, j := range indices {
		if from <= j && j < to && p[j].fits(q) && len(found) < candidates {
			found = append(found, p[j])
		}
	}
	return found
}

// at returns an item of p, nil for -1.
func at(p []*send, i int) *send {
	if i < 0 {
		return nil
	}
	return p[i]
}

// used reports by index of p whether it was matched.
func used(p []*send, matched []int) []bool {
	used := make([]bool, len(p))
	for _, j := range matched {
		if j >= 0 {
			used[j] = true
		}
	}
	return used
}

// spare returns what was not matched.
func spare(p []*send, matched []int) []*send {
	used := used(p, matched)
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
func match(q []queued, p []*send, wanted func(*send) bool) []int {
	result := make([]int, len(q))
	used := make([]bool, len(p))
	head := 0
	for i := range q {
		result[i] = -1
		for head < len(p) && (used[head] || !wanted(p[head])) {
			head++
		}
		for j := head; j < min(len(p), head+crowd) && p[j].at-p[head].at <= near; j++ {
			if used[j] || !wanted(p[j]) || !p[j].fits(q[i]) || p[j].at > q[i].at {
				continue
			}
			if earlier(p[head:j], used[head:j], p[j]) {
				continue
			}
			result[i] = j
			used[j] = true
			break
		}
		if result[i] < 0 {
			result[i] = trade(q[:i+1], p, head, result[:i], used, wanted)
		}
	}
	return result
}

// trade finds what the last of q may be among what others were matched with, where one
// that is left, sent within a moment of it by another process, can be those others. That
// is matched with them then. The result is an index of p, or -1.
func trade(q []queued, p []*send, head int, matched []int, used []bool, wanted func(*send) bool) int {
	last := q[len(q)-1]
	for k := len(matched) - 1; k >= max(0, len(matched)-crowd); k-- {
		j := matched[k]
		if j < 0 || !p[j].fits(last) {
			continue
		}
		for o := head; o < min(len(p), head+crowd) && p[o].at-p[j].at <= near; o++ {
			if used[o] || !wanted(p[o]) || p[o].from == p[j].from || !p[o].fits(q[k]) || p[o].at > q[k].at {
				continue
			}
			if p[j].at-p[o].at > near || earlier(p[head:o], used[head:o], p[o]) {
				continue
			}
			matched[k] = o
			used[o] = true
			return j
		}
	}
	return -1
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

// rightmost matches what was matched once more, or what is gone in its place, each as
// late as it can be.
func rightmost(q []queued, p []*send, left, gone []int) []int {
	var order []int // indices of p, in the order in which they were queued
	for _, j := range left {
		if j < 0 {
			continue
		}
		for len(gone) > 0 && gone[0] < j {
			order = append(order, gone[0])
			gone = gone[1:]
		}
		order = append(order, j)
	}
	order = append(order, gone...)
	result := make([]int, len(q))
	for i := len(q) - 1; i >= 0; i-- {
		result[i] = -1
		if n := len(order); n > 0 && p[order[n-1]].fits(q[i]) {
			result[i] = order[n-1]
			order = order[:n-1]
		}
	}
	return result
}

// swapped looks for messages of others that may have come instead of p[j] as q[i],
// because they were sent at the same time. Those not there yet are among them.
func (b *mailbox) swapped(q []queued, i, j int, matched []int) {
	p := b.pending
	s := p[j]
	try := func(k int) bool {
		o := p[k]
		if o.at-s.at > near || s.at-o.at > near {
			return false
		}
		if o.from == s.from || !o.fits(q[i]) {
			return true
		}
		if m := slices.Index(matched[max(0, i-crowd):min(len(matched), i+crowd)], k); m >= 0 && !s.fits(q[max(0, i-crowd)+m]) {
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
