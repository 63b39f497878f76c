// Package wrapper observes Erlang VMs through the published wrapper dqsd_otel. That wrapper sends
// the instances of spans over TCP after it has got the order to do so, and their timeouts.
//
// A [Source] listens for wrappers. Each connects and sends a line for each instance that has ended:
//
//	n:NAME;b:BEGIN;e:END;s:STATUS
//
// with times in nanoseconds of the wrapper's wall clock, and a status of ok, fa (failure) or to
// (timeout). The Source sends its orders on that connection, and on a connection to the wrapper's
// own listener for commands, if the configuration has its address: a wrapper knows one of the two
// ways. It sends all orders at the beginning of each connection, and again when the plan changes:
//
//	start_stub
//	set_timeout;NAME;MILLISECONDS
//
// The timeout is dMax in whole milliseconds, rounded up. An instance that takes longer than dMax
// has timed out at start + dMax, even if the wrapper reports another end. A wrapper reports a timeout
// before dMax if an earlier order or another client set a shorter timeout. Such an instance is lost
// as cut, because its real end is not known.
//
// # Time
//
// Ends are converted to CLOCK_MONOTONIC by the difference of our own two clocks; delays stay as
// they are sent. An instance has ended when it is received: an end that is ahead of our clock by up
// to 100 ms counts as the present. An end further ahead, or in a window that was already
// collected, is lost as missed. Both mean that the clocks of two hosts differ; the latter may
// also mean that lines came late. A notice gives the difference.
//
// # Counts
//
// Ends are the lines of a window, and Starts are always 0, because wrappers do not send starts. So
// there are no orphans and no late ends either, and a span that is open when a VM dies is unknown.
// Instances have no ID, parent or process.
package wrapper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/sources/intake"
	"github.com/beamscope/beamscope/internal/sources/ledger"
)

// MaxPeers is the largest number of wrappers that may be connected at a time.
const MaxPeers = 64

// ErrRemote means that an address belongs to another host, which was not allowed.
var ErrRemote = errors.New("not an address of this host alone: the protocol has neither encryption nor authentication; allow remote wrappers if the network may be trusted")

var errClosed = fmt.Errorf("closed: %w", outcome.ErrEnded)

// keepAlive detects within half a minute that a peer has disappeared silently.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// A Config describes a [Source].
type Config struct {
	// Listen is the host:port where wrappers connect to send instances, such as 127.0.0.1:8080.
	Listen string

	// Connect are the host:port of wrappers' own listeners for commands, such as 127.0.0.1:8081.
	Connect []string

	// Remote allows addresses and peers of other hosts.
	Remote bool

	Plan outcome.Plan // the first plan; each spec has a Wrapper, the name of its spans
}

// A Source receives the instances that wrappers send. One goroutine calls the methods of
// [outcome.Source]. Any goroutine may call Peers, Start, Stop, Started and Addr.
type Source struct {
	clock    clock
	owner    func(context.Context, net.Conn) (outcome.VM, bool)
	user     func(net.Conn) string
	remote   bool
	listener net.Listener
	schedule atomic.Pointer[ledger.Schedule]
	budget   *intake.Budget
	notices  *intake.Notices
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	active    bool  // wrappers have the order to send
	next      int64 // beginning of the next window to collect
	began     int64 // beginning of the first window
	slots     slots // slots of connections, including those that are not in peers yet
	limits    limits
	refusals  refusals
	strays    outcome.Rejected // rejected lines in the window, from connections without a book
	peers     map[*inbound]bool
	outbounds []*outbound
	links     map[*link]bool
	books     map[outcome.VM]*account
}

var _ outcome.Source = (*Source)(nil)

// New listens for wrappers, and connects to others. An error wraps [ErrRemote] if an address
// belongs to another host, and [ErrPlan] if the plan cannot be followed. The caller closes the
// source.
func New(cfg Config) (*Source, error) {
	o := new(owners)
	return newSource(cfg, systemClock(), o.of, o.user)
}

func newSource(cfg Config, c clock, owner func(context.Context, net.Conn) (outcome.VM, bool), user func(net.Conn) string) (*Source, error) {
	s := &Source{
		clock:    c,
		owner:    owner,
		user:     user,
		slots:    make(slots),
		remote:   cfg.Remote,
		budget:   intake.NewBudget(intake.MaxKept),
		notices:  intake.NewNotices(c.now),
		active:   true,
		next:     cfg.Plan.From,
		began:    cfg.Plan.From,
		peers:    make(map[*inbound]bool),
		links:    make(map[*link]bool),
		books:    make(map[outcome.VM]*account),
		limits:   newLimits(),
		refusals: newRefusals(),
	}
	cfg.Plan.Specs = slices.Clone(cfg.Plan.Specs)
	first, err := ledger.Schedule(nil).With(cfg.Plan, cfg.Plan.From, cfg.Plan.From, nameOf)
	if err != nil {
		return nil, err
	}
	s.schedule.Store(&first)
	for _, address := range append([]string{cfg.Listen}, cfg.Connect...) {
		if err := checkAddress(address, cfg.Remote); err != nil {
			return nil, err
		}
	}
	config := net.ListenConfig{KeepAliveConfig: keepAlive}
	if s.listener, err = config.Listen(context.Background(), "tcp", cfg.Listen); err != nil {
		return nil, fmt.Errorf("listen for wrappers: %w", err)
	}
	s.notices.Add("listening for wrappers on %v", s.listener.Addr())
	s.begin(cfg.Connect)
	return s, nil
}

// begin starts the goroutines that run until Close.
func (s *Source) begin(connect []string) {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.running.Go(func() { s.accept(ctx) })
	for _, address := range connect {
		o := &outbound{address: address}
		s.outbounds = append(s.outbounds, o)
		s.running.Go(func() { s.keep(ctx, o) })
	}
}

// checkAddress rejects invalid addresses, and those that are not limited to this host.
func checkAddress(address string, remote bool) error {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return fmt.Errorf("%q: %w", address, err)
	}
	a, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return fmt.Errorf("%q: %w", address, err)
	}
	if !remote && !a.IP.IsLoopback() {
		return fmt.Errorf("%q: %w", address, ErrRemote)
	}
	return nil
}

// Addr returns the address where wrappers connect.
func (s *Source) Addr() net.Addr { return s.listener.Addr() }

// Plan implements [outcome.Source]. Wrappers get the new timeouts at once, and use them for
// instances that start while the old plan is still in force. If the new timeouts are shorter,
// spans that last longer are cut. The error wraps [ErrPlan].
func (s *Source) Plan(_ context.Context, p outcome.Plan) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	p.Specs = slices.Clone(p.Specs)
	changed, err := (*s.schedule.Load()).With(p, s.next, s.clock.now(), nameOf)
	if err != nil {
		return err
	}
	// Lines that are counted under the lock of a book after its replan use the new schedule.
	s.schedule.Store(&changed)
	for _, b := range s.books {
		b.replan(changed, p.From)
	}
	s.post()
	return nil
}

// commands returns the present commands for wrappers. The caller holds the lock.
func (s *Source) commands() []byte { return commands(s.active, (*s.schedule.Load()).Specs()) }

// post sends the commands to all wrappers.
func (s *Source) post() {
	for l := range s.links {
		l.post(s.commands())
	}
}

// Start orders the wrappers to send instances. This is the initial state.
func (s *Source) Start() { s.activate(true) }

// Stop orders the wrappers to stop sending instances. Instances that they send nevertheless still
// count.
func (s *Source) Stop() { s.activate(false) }

// Started reports whether the wrappers have the order to send instances.
func (s *Source) Started() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active
}

func (s *Source) activate(active bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.active = active
		s.post()
	}
}

// Collect implements [outcome.Source].
func (s *Source) Collect(_ context.Context, w outcome.Window) (outcome.Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return outcome.Batch{}, errClosed
	}
	current := *s.schedule.Load()
	e := current.At(w)
	if e == nil || w.From != s.next {
		return outcome.Batch{}, fmt.Errorf("%+v is not the window that follows %d", w, s.next)
	}
	books := s.sortedBooks()
	pages := make([][]intake.Cell, len(books))
	all := s.strays
	s.strays = outcome.Rejected{}
	for i, b := range books {
		var rejected outcome.Rejected
		pages[i], rejected = b.collect(e, w)
		all.Count += rejected.Count
		all.Last = cmp.Or(rejected.Last, all.Last)
	}
	batch := e.Batch(w, pages)
	batch.Rejected, batch.Owners = all, s.owners()
	s.next = w.To
	rest := current.Since(w.To)
	s.schedule.Store(&rest)
	s.forget()
	return batch, nil
}

func (s *Source) sortedBooks() []*book {
	books := make([]*book, 0, len(s.books))
	for _, a := range s.books {
		books = append(books, a.book)
	}
	slices.SortFunc(books, func(a, b *book) int {
		return cmp.Or(cmp.Compare(a.VM().PID, b.VM().PID), cmp.Compare(a.VM().Node, b.VM().Node))
	})
	return books
}

// Watch implements [outcome.Source].
func (s *Source) Watch(context.Context) []outcome.Notice {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.peers {
		p.noteRejected()
	}
	return append(s.notices.Take(), s.refusals.take(s.clock.now())...)
}

// Peers returns the connected wrappers, sorted by address, and the listeners to which we connect,
// in the order of the configuration.
func (s *Source) Peers() []Peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	var peers []Peer
	for p := range s.peers {
		peers = append(peers, p.peer(s.active))
	}
	slices.SortFunc(peers, func(a, b Peer) int { return cmp.Compare(a.Address, b.Address) })
	for _, o := range s.outbounds {
		peers = append(peers, o.peer(s.active))
	}
	return peers
}

// Refused returns the number of connections that were refused since the beginning.
func (s *Source) Refused() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusals.total
}

// Close orders the wrappers to stop, waits briefly until the order is sent, and closes all
// connections.
func (s *Source) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	err := s.listener.Close()
	var links []*link
	for l := range s.links {
		l.finish([]byte(stop))
		links = append(links, l)
	}
	s.mu.Unlock()
	for _, l := range links {
		<-l.done
	}
	s.cancel()
	s.running.Wait()
	return err
}
