package explain

import "slices"

// align finds out which messages of the batch are which of the pending ones, and
// returns those that are still pending.
//
// What was sent must have come in that order, but for what different processes sent at
// the same time; and all must be there that was when the process did the last thing before
// it, if it was not sent to an alias, which may not be one any more. What is left over of
// the batch was not seen to be sent. Where there are two ways to do this, it is uncertain.
//
// It also returns the message of the batch that was sent first, or the last one that this may
// be; nil if none was seen to be sent.
func (b *mailbox) align() ([]*send, *send) {
	q := b.batch
	n := after(b.pending, q[len(q)-1].at+1, sentAt)
	p, later := b.pending[:n], b.pending[n:]
	held := b.held()

	left, doubt := b.leftmost(q, p, held)
	gone := gone(p, left, b.begun)
	right := rightmost(q, p, left, gone)
	before := doubtfulOf(p)
	var first *send
	for i := range q {
		l, r := at(p, left[i]), at(p, right[i])
		switch {
		case l == nil && r == nil:
		case l != r:
			q[i].among, q[i].latest = confuse(append(fitting(q[i], p, gone, left[i], right[i]), l, r)...)
		case doubt:
			q[i].among, q[i].latest = confuse(l, nil)
		default:
			q[i].send = l
		}
		if s := at(p, max(left[i], right[i])); s != nil && (first == nil || s.at < first.at) {
			first = s
		}
	}
	places := places(p, left)
	for i, j := range left {
		if j < 0 {
			continue
		}
		if before[j] {
			instead(q[i], p, j)
		}
		b.swapped(q, p, i, j, places)
	}
	for i := range q {
		if s := q[i].send; s != nil && s.among != nil {
			s.fate, q[i].among, q[i].latest = doubtful, s.among, s.latest
		}
	}
	rest := spare(p, left)
	n = max(0, len(rest)-held)
	b.unfinished = 0
	if held > 0 {
		b.unfinished = b.begun
	}
	return slices.Concat(b.lapse(rest[:n:n], b.begun), rest[n:], later), first
}

// held returns how many of what was fetched the VM will hand out later: the queue is longer
// then than what is known of it.
func (b *mailbox) held() int {
	if !b.synced {
		return 0
	}
	return max(0, b.inner-b.front-len(b.private)-len(b.batch))
}

// leftmost matches what was queued with what was sent, each as early as it can be. It also
// reports whether something that must be there is left, but for what is held back.
func (b *mailbox) leftmost(q []queued, p []*send, held int) (left []int, doubt bool) {
	must := func(s *send) bool { return !s.alias && s.by() <= b.begun && s.fate != doubtful }
	due := func(left []int) bool {
		n := 0
		for _, s := range spare(p, left) {
			if must(s) {
				n++
			}
		}
		return n > held
	}
	left = match(q, p, func(*send) bool { return true })
	doubt = due(left)
	if doubt || slices.Contains(left, -1) {
		if all := whole(q, p, must, held); all != nil {
			left, doubt = all, false
		}
	}
	if doubt {
		for _, wanted := range []func(*send) bool{b.timely(p), func(s *send) bool { return !s.alias }} {
			if other := match(q, p, wanted); !due(other) {
				left, doubt = other, false
				break
			}
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
	return left, doubt
}

// doubtfulOf tells by index of p of which it is doubtful whether they are still to come.
func doubtfulOf(p []*send) []bool {
	doubts := make([]bool, len(p))
	for j, s := range p {
		doubts[j] = s.fate == doubtful
	}
	return doubts
}

// timely is what was there when the fetch began, or was sent after that: not what was on
// its way then, and may not have come.
func (b *mailbox) timely(p []*send) func(*send) bool {
	last := int64(0)
	for _, s := range p {
		if s.by() <= b.begun {
			last = s.at
		}
	}
	return func(s *send) bool { return s.by() <= b.begun || s.at > last }
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
// what did not have to be there when the fetch began.
func gone(p []*send, left []int, begun int64) []int {
	if !slices.ContainsFunc(left, func(j int) bool { return j >= 0 && p[j].alias }) {
		return nil
	}
	places := places(p, left)
	var gone []int
	for j, s := range p {
		if places[j] < 0 && (s.alias || s.by() > begun) {
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

// places returns by index of p the index of what it was matched with, or -1.
func places(p []*send, matched []int) []int {
	places := slices.Repeat([]int{-1}, len(p))
	for i, j := range matched {
		if j >= 0 {
			places[j] = i
		}
	}
	return places
}

// spare returns what was not matched.
func spare(p []*send, matched []int) []*send {
	places := places(p, matched)
	var rest []*send
	for j, s := range p {
		if places[j] < 0 {
			rest = append(rest, s)
		}
	}
	return rest
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

// instead says that what was queued, where it is matched with p[j] of which it is doubtful
// that it has not come before, may be one of the next that it may be mistaken for.
func instead(q queued, p []*send, j int) {
	s := p[j]
	for _, o := range p[j+1 : min(len(p), j+crowd)] {
		if o.at <= q.at && o.fits(q) && slices.Contains(s.among, o.from) {
			confuse(s, o)
		}
	}
}

// swapped looks for messages of others that may have come as q[i], instead of what was
// matched with it, p[j], because both were on their way at the same time. Those not there
// yet are among them; places are what else was matched.
func (b *mailbox) swapped(q []queued, p []*send, i, j int, places []int) {
	s := p[j]
	for k := max(0, j-crowd); k < min(len(p), j+crowd) && p[k].at <= s.by(); k++ {
		o := p[k]
		if o.from == s.from || !o.maySwap(s) || !o.fits(q[i]) {
			continue
		}
		switch m := places[k]; {
		case m >= 0 && !s.fits(q[m]):
			continue
		case m < 0 && !s.alias && s.by() <= b.begun:
			continue // it must be there, and the other one is not
		}
		confuse(s, o)
	}
}
