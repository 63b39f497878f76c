package wrapper

import "time"

const (
	// connectBurst is how many connections a peer may make at once, and connectEvery how long
	// it takes until another one is allowed: a published wrapper connects once. The burst is
	// enough for all places, twice.
	connectBurst = 2 * MaxPeers
	connectEvery = int64(time.Second)

	// maxBuckets bounds the peers that are remembered.
	maxBuckets = 1024
)

// limits bound how often each peer connects, so that one that connects all the time costs
// little and fills nothing that others need.
type limits struct {
	buckets map[string]int64 // when each peer may have connectBurst connections again
}

func newLimits() limits { return limits{buckets: make(map[string]int64)} }

// allow reports whether a peer may have another connection now, and counts it.
func (l limits) allow(peer string, now int64) bool {
	if _, known := l.buckets[peer]; !known && len(l.buckets) >= maxBuckets {
		l.forget()
	}
	full := max(l.buckets[peer], now) + connectEvery
	if full-now > connectBurst*connectEvery {
		return false
	}
	l.buckets[peer] = full
	return true
}

// forget forgets the peer that has all its connections again the soonest: that peer gains the
// least by it.
func (l limits) forget() {
	var soonest string
	for peer, full := range l.buckets {
		if least, any := l.buckets[soonest]; !any || full < least {
			soonest = peer
		}
	}
	delete(l.buckets, soonest)
}
