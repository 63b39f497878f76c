package wrapper

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// A fake is a wrapper like the published one. It connects to send instances, and never reads that
// connection. It reads commands line by line on its own listener. It sends only while it is
// active, and only spans with a timeout.
type fake struct {
	t        *testing.T
	listener net.Listener // for commands
	conn     net.Conn     // for instances
	serving  sync.WaitGroup

	mu       sync.Mutex
	heard    []string // received commands
	active   bool
	timeouts map[string]int64 // in ms
	commands []net.Conn
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{t: t, timeouts: make(map[string]int64)}
	var err error
	if f.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	f.serving.Go(f.accept)
	t.Cleanup(func() {
		f.listener.Close()
		f.hangUp()
		if f.conn != nil {
			f.conn.Close()
		}
		f.serving.Wait()
	})
	return f
}

func (f *fake) address() string { return f.listener.Addr().String() }

func (f *fake) accept() {
	for {
		conn, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		f.commands = append(f.commands, conn)
		f.mu.Unlock()
		f.serving.Go(func() { f.obey(conn) })
	}
}

// hangUp closes the connections for commands.
func (f *fake) hangUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, conn := range f.commands {
		conn.Close()
	}
	f.commands = nil
}

// obey follows the commands on a connection.
func (f *fake) obey(conn io.ReadCloser) {
	defer conn.Close()
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		f.command(lines.Text())
	}
}

// command accepts timeouts with a fraction, in any locale, and uses their whole milliseconds.
func (f *fake) command(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heard = append(f.heard, text)
	switch fields := strings.Split(text, ";"); {
	case text == "start_stub":
		f.active = true
	case text == "stop_stub":
		f.active = false
	case fields[0] == "set_timeout" && len(fields) == 3:
		whole := strings.FieldsFunc(fields[2], func(r rune) bool { return !unicode.IsDigit(r) })[0]
		timeout, err := strconv.ParseInt(whole, 10, 64)
		if err != nil {
			f.t.Error(err)
		}
		f.timeouts[fields[1]] = timeout
	}
}

// connect opens a new connection for instances, and replaces the previous one.
func (f *fake) connect(s *Source) {
	f.t.Helper()
	conn, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		f.t.Fatal(err)
	}
	if f.conn != nil {
		f.conn.Close()
	}
	f.conn = conn
}

// listen makes the fake read commands on the connection for instances, which no published wrapper
// does yet.
func (f *fake) listen() {
	conn := f.conn
	f.serving.Go(func() { f.obey(conn) })
}

// span sends an instance that begins and ends at these times in ns, or its timeout. It returns
// false if spans of this name are not sent.
func (f *fake) span(w io.Writer, name string, begin, end int64, s outcome.Status) bool {
	f.mu.Lock()
	timeout, known := f.timeouts[name]
	active := f.active
	f.mu.Unlock()
	if !known || !active {
		return false
	}
	if end-begin >= timeout*ms {
		end, s = begin+timeout*ms, outcome.Timeout
	}
	f.write(w, string(format(line{name: []byte(name), begin: begin, end: end, status: s}))+"\n")
	return true
}

func (f *fake) write(w io.Writer, text string) {
	if _, err := io.WriteString(w, text); err != nil {
		f.t.Error(err)
	}
}

// send sends a text unchanged.
func (f *fake) send(format string, args ...any) { f.write(f.conn, fmt.Sprintf(format, args...)) }

// ready returns a function that reports whether the fake received these timeouts and the command
// to send.
func (f *fake) ready(timeouts map[string]int64) func() bool {
	return func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		for name, want := range timeouts {
			if f.timeouts[name] != want {
				return false
			}
		}
		return f.active
	}
}

// await waits until done returns true.
func await(t testing.TB, what string, done func() bool) {
	t.Helper()
	const patience = 30 * time.Second
	for begin := time.Now(); !done(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > patience {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}
