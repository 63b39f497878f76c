package wrapper

import (
	"cmp"
	"fmt"
	"net"
	"time"
)

// idle is how long a connection must be without instances before another one may take its slot,
// if all slots are taken.
const idle = int64(10 * time.Second)

// A slot is the place of a served connection.
type slot struct {
	conn net.Conn
	peer string // the other end: a user of this host, or another host
	used int64  // when an instance last arrived, or else when it connected

	account *account // nil until the VM is known
}

// slots are the slots of all connections, at most [MaxPeers].
type slots map[*slot]bool

// take gives a connection a slot. If all are taken, the peer with the most connections loses the
// one that has been without instances for longest. If no peer has clearly more connections than
// this one, a new connection replaces only idle ones: a peer replaces its own connection, and a
// peer without any replaces the one that has been idle for longest. So no peer locks out another
// one.
func (s slots) take(conn net.Conn, peer string, now int64) (*slot, *slot, error) {
	var evicted *slot
	if len(s) >= MaxPeers {
		var err error
		if evicted, err = s.victim(peer, now); err != nil {
			return nil, nil, err
		}
		delete(s, evicted)
	}
	added := &slot{conn: conn, peer: peer, used: now}
	s[added] = true
	return added, evicted, nil
}

// victim returns the slot to free for a connection of a peer.
func (s slots) victim(peer string, now int64) (*slot, error) {
	held := make(map[string]int)
	for x := range s {
		held[x.peer]++
	}
	largest := peer
	for other, n := range held {
		if n > held[largest] || n == held[largest] && largest != peer && other < largest {
			largest = other
		}
	}
	if held[largest] <= held[peer]+1 {
		largest = peer
	}
	victim := s.oldest(func(x *slot) bool { return x.peer == largest })
	if held[peer] == 0 && largest == peer {
		victim = s.oldest(func(*slot) bool { return true })
	}
	if largest == peer && now-victim.used < idle {
		return nil, fmt.Errorf("%d wrappers are connected already", len(s))
	}
	return victim, nil
}

// oldest returns the slot that has been without instances for longest among those that some
// accepts, or nil.
func (s slots) oldest(some func(*slot) bool) *slot {
	var oldest *slot
	for x := range s {
		if some(x) && (oldest == nil || cmp.Or(cmp.Compare(x.used, oldest.used), cmp.Compare(address(x), address(oldest))) < 0) {
			oldest = x
		}
	}
	return oldest
}

func address(s *slot) string { return s.conn.RemoteAddr().String() }
