package wrapper

import "time"

const (
	// connectBurst is the number of connections that a peer may make at once, and connectEvery
	// the time until it may make another one. A published wrapper connects once. The burst is
	// twice the number of slots.
	connectBurst = 2 * MaxPeers
	connectEvery = int64(time.Second)

	// maxBuckets limits the number of peers that are remembered.
	maxBuckets = 1024
)

// limits bound how often each peer connects. So a peer that connects all the time costs little
// and takes no resources from others.
type limits struct {
	buckets map[string]int64 // when each peer may make connectBurst connections again
}

func newLimits() limits { return limits{buckets: make(map[string]int64)} }

// allow reports whether a peer may make another connection now, and counts it.
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

// forget drops the peer that regains all its connections soonest, because it gains least by this.
func (l limits) forget() {
	var soonest string
	for peer, full := range l.buckets {
		if least, any := l.buckets[soonest]; !any || full < least {
			soonest = peer
		}
	}
	delete(l.buckets, soonest)
}
