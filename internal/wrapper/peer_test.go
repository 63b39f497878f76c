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

	"github.com/beamscope/beamscope/internal/outcome"
)

// A fake is a wrapper as published: it sends instances on a connection that it
// makes and never reads, and is told what to do on its own listener, line by
// line. It sends only when it is active, and only spans with a timeout.
type fake struct {
	t        *testing.T
	listener net.Listener // for commands
	conn     net.Conn     // for instances
	serving  sync.WaitGroup

	mu       sync.Mutex
	heard    []string // commands
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

// hangUp ends the connections for commands.
func (f *fake) hangUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, conn := range f.commands {
		conn.Close()
	}
	f.commands = nil
}

// obey does what it is told on a connection.
func (f *fake) obey(conn io.ReadCloser) {
	defer conn.Close()
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		f.command(lines.Text())
	}
}

// command understands timeouts with a fraction, in whichever locale they were
// written, and takes the whole milliseconds of them.
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

// connect connects to where instances go, instead of the connection before.
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

// listen has it read its commands on the connection for instances, as no
// published wrapper does yet.
func (f *fake) listen() {
	conn := f.conn
	f.serving.Go(func() { f.obey(conn) })
}

// span sends an instance that begins and ends at these times in ns, or its
// timeout. It is false where spans of the name are not sent.
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

// send sends text as it is.
func (f *fake) send(format string, args ...any) { f.write(f.conn, fmt.Sprintf(format, args...)) }

// ready tells whether it was told these timeouts, and to send.
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

// await waits for something that must come to pass.
func await(t testing.TB, what string, done func() bool) {
	t.Helper()
	const patience = 30 * time.Second
	for begin := time.Now(); !done(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > patience {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}
