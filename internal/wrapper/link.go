package wrapper

import (
	"net"
	"sync"
	"time"
)

// farewell is how long the last commands may take to be sent.
const farewell = 200 * time.Millisecond

// A link sends commands over a connection, of which the peer may never read: then
// the commands that are being sent wait, and so do the latest ones after them, and
// nobody and nothing else.
type link struct {
	conn net.Conn
	next chan []byte // the latest commands, all that there are to know
	done chan struct{}
	end  sync.Once
}

func newLink(conn net.Conn) *link {
	return &link{conn: conn, next: make(chan []byte, 1), done: make(chan struct{})}
}

// run sends until the link is closed, or nothing can be sent.
func (l *link) run() {
	defer close(l.done)
	for commands := range l.next {
		if _, err := l.conn.Write(commands); err != nil {
			return
		}
	}
}

// post has commands sent instead of those that wait. It is not called at the same
// time as itself, nor after close.
func (l *link) post(commands []byte) {
	select {
	case <-l.next:
	default:
	}
	l.next <- commands
}

// finish has the last commands sent, and closes the link.
func (l *link) finish(commands []byte) {
	l.conn.SetWriteDeadline(time.Now().Add(farewell))
	l.post(commands)
	l.close()
}

// close ends run when the commands that wait are sent.
func (l *link) close() { l.end.Do(func() { close(l.next) }) }
