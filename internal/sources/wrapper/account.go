package wrapper

import (
	"cmp"
	"fmt"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

const (
	// maxBooks limits the number of VMs with their own books, including those that are gone.
	maxBooks = 2 * MaxPeers

	// maxGone limits the number of books that a peer leaves behind until their windows are over.
	maxGone = 16

	// crowd is the common name of VMs without their own book.
	crowd = "further VMs"
)

// An account is the book of a VM, with the peer for which it was opened. The Source's lock guards
// it.
type account struct {
	*book
	vm   outcome.VM
	peer string
	sent bool // an instance has arrived
}

// account returns the account of a VM, and opens one if necessary. If a peer has left too many
// behind, its further VMs share one. If there are too many in total, further VMs of all peers
// share one. So there is room for every peer.
func (s *Source) account(vm outcome.VM, peer string) *account {
	if a := s.books[vm]; a != nil {
		return a
	}
	switch gone := s.gone(peer); {
	case len(s.books) >= maxBooks:
		return s.together(outcome.VM{Node: crowd}, "", len(s.books))
	case gone >= maxGone:
		return s.together(outcome.VM{Node: crowd + " of " + peer}, peer, gone)
	}
	return s.open(vm, peer)
}

// together returns the account that further VMs share. When it opens the account, it adds a
// notice with the reason.
func (s *Source) together(vm outcome.VM, peer string, kept int) *account {
	if a := s.books[vm]; a != nil {
		return a
	}
	s.notices.Add("%v are counted together: %d that came before are kept until their windows are over", vm, kept)
	return s.open(vm, peer)
}

func (s *Source) open(vm outcome.VM, peer string) *account {
	a := &account{book: newBook(vm, s.next, s.budget), vm: vm, peer: peer}
	s.books[vm] = a
	return a
}

// gone returns the number of VMs of a peer that are gone and still have books.
func (s *Source) gone(peer string) (n int) {
	for _, a := range s.books {
		if a.peer == peer && a.connections == 0 {
			n++
		}
	}
	return n
}

// owners returns the peers of all VMs, except that of the VMs that peers share.
func (s *Source) owners() map[outcome.VM]string {
	all := make(map[outcome.VM]string)
	for vm, a := range s.books {
		if a.peer != "" {
			all[vm] = a.peer
		}
	}
	return all
}

// nameless returns a name for a VM of which only the host is known, with the lowest free number.
// A VM that connects again keeps its name if the same peer had it.
func (s *Source) nameless(host, peer string) outcome.VM {
	for n := 1; ; n++ {
		vm := outcome.VM{Node: host}
		if n > 1 {
			vm.Node = fmt.Sprintf("%s (%d)", host, n)
		}
		if a := s.books[vm]; a == nil || a.connections == 0 && a.peer == peer {
			return vm
		}
	}
}

// drop closes the book of a VM that is gone and never sent an instance. It keeps the number of
// rejected lines.
func (s *Source) drop(a *account) {
	if a.connections > 0 || a.sent {
		return
	}
	a.mu.Lock()
	rejected := a.rejected.Take()
	a.mu.Unlock()
	s.strays.Count += rejected.Count
	s.strays.Last = cmp.Or(rejected.Last, s.strays.Last)
	if a.idle() { // otherwise a loss still has to be counted for an outcome
		delete(s.books, a.vm)
	}
}

// forget closes the books of VMs that are gone when everything in them has been collected.
func (s *Source) forget() {
	for vm, a := range s.books {
		if a.connections == 0 && a.left < s.next && a.idle() {
			delete(s.books, vm)
		}
	}
}
