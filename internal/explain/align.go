package explain

import "slices"

// align matches the messages of the batch with the pending ones, and returns those that are still
// pending.
//
// Messages came in the order of sending, except those that different processes sent at the same
// time. A message must have come if its sender did its next action before the fetch, unless it was
// sent to an alias, which may have been inactive. Messages of the batch that remain were not seen
// to be sent. If there are two ways to match, the result is uncertain.
//
// align also returns the message of the batch that was sent first, or the last candidate if that is
// uncertain. It returns nil if no message was seen to be sent.
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

// held returns the number of fetched messages that the VM will hand out later: in this case the
// queue is longer than its known part.
func (b *mailbox) held() int {
	if !b.synced {
		return 0
	}
	return max(0, b.inner-b.front-len(b.private)-len(b.batch))
}

// leftmost matches queued messages with sent ones, each as early as possible. doubt reports whether
// a message remains unmatched that must have come, apart from those that the VM holds back.
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
		// Unseen messages were sent before the process was watched.
		left = rightmost(q, p, left, nil)
	}
	return left, doubt
}

// doubtfulOf returns, by index of p, whether the fate of a message is doubtful.
func doubtfulOf(p []*send) []bool {
	doubts := make([]bool, len(p))
	for j, s := range p {
		doubts[j] = s.fate == doubtful
	}
	return doubts
}

// timely accepts messages that were in the mailbox when the fetch began or were sent after that. It
// rejects messages that were on their way then and may not have come.
func (b *mailbox) timely(p []*send) func(*send) bool {
	last := int64(0)
	for _, s := range p {
		if s.by() <= b.begun {
			last = s.at
		}
	}
	return func(s *send) bool { return s.by() <= b.begun || s.at > last }
}

// awakened is the ratio of two ages at the time when a waiting process ran. A message to an alias
// must be this many times older than the next message for the conclusion that only the next one
// woke the process.
const awakened = 16

// asleep returns the index of a message after which the process ran soon, although it did not run
// for long after the messages before it. This message woke it, and if earlier ones were sent to
// aliases, they were dropped. asleep returns 0 if there is no such message.
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

// gone returns the indices of unmatched messages that may have come instead of a matched message to
// an alias, if that alias was no longer active. These are other messages to aliases, and messages
// that need not have arrived when the fetch began.
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

// fitting returns the messages of p among the indices in [from, to) that may be the queued one, up
// to the limit of candidates.
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

// places returns, by index of p, the index of the matched message of q, or -1.
func places(p []*send, matched []int) []int {
	places := slices.Repeat([]int{-1}, len(p))
	for i, j := range matched {
		if j >= 0 {
			places[j] = i
		}
	}
	return places
}

// spare returns the messages that were not matched.
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

// rightmost matches the matched messages again, or gone ones in their place, each as late as
// possible.
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

// instead handles a queued message that is matched with p[j], which may have come before. It
// records that the queued message may be one of the next messages that can be mistaken for p[j].
func instead(q queued, p []*send, j int) {
	s := p[j]
	for _, o := range p[j+1 : min(len(p), j+crowd)] {
		if o.at <= q.at && o.fits(q) && slices.Contains(s.among, o.from) {
			confuse(s, o)
		}
	}
}

// swapped looks for messages of other senders that may be q[i] instead of the matched p[j], because
// both were on their way at the same time. Messages that have not come yet are among them. places
// are the other matches.
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
			continue // s must have come, and o has not
		}
		confuse(s, o)
	}
}
