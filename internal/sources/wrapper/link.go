package wrapper

import (
	"net"
	"sync"
	"time"
)

// farewell is the time limit for sending the last commands.
const farewell = 200 * time.Millisecond

// A link sends commands over a connection. If the peer never reads, only the commands that are
// being sent and the latest ones after them wait.
type link struct {
	conn net.Conn
	next chan []byte // the latest commands, which replace earlier ones
	done chan struct{}
	end  sync.Once
}

func newLink(conn net.Conn) *link {
	return &link{conn: conn, next: make(chan []byte, 1), done: make(chan struct{})}
}

// run sends commands until the link is closed or sending fails.
func (l *link) run() {
	defer close(l.done)
	for commands := range l.next {
		if _, err := l.conn.Write(commands); err != nil {
			return
		}
	}
}

// post sends commands, and replaces commands that are still waiting. It must not be called
// concurrently, nor after close.
func (l *link) post(commands []byte) {
	select {
	case <-l.next:
	default:
	}
	l.next <- commands
}

// finish sends the last commands, and closes the link.
func (l *link) finish(commands []byte) {
	l.conn.SetWriteDeadline(time.Now().Add(farewell))
	l.post(commands)
	l.close()
}

// close makes run end when the waiting commands have been sent.
func (l *link) close() { l.end.Do(func() { close(l.next) }) }
