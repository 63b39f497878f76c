package wrapper

import (
	"cmp"
	"fmt"

	"github.com/beamscope/beamscope/internal/outcome"
)

const (
	// maxBooks bounds the VMs with books of their own, those gone included.
	maxBooks = 2 * MaxPeers

	// maxGone bounds the books that one peer leaves behind until their windows are over.
	maxGone = 16

	// crowd is what VMs are called that have no book of their own.
	crowd = "further VMs"
)

// An account is the book of a VM, and the peer it is opened for. The Source's lock guards it.
type account struct {
	*book
	vm   outcome.VM
	peer string
	sent bool // an instance has come
}

// account returns the account of a VM, and opens one where there is none. Where a peer has left
// too many behind, its further VMs share one, and where there are too many in all, further VMs
// of all peers do. So there is room for every peer.
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

// together returns the account that further VMs share, and says why when it opens it.
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

// gone returns how many VMs of a peer are gone and have books.
func (s *Source) gone(peer string) (n int) {
	for _, a := range s.books {
		if a.peer == peer && a.connections == 0 {
			n++
		}
	}
	return n
}

// nameless names a VM when only its host is known, by the lowest free number. A VM that connects
// again keeps its name if the same peer had it.
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

// drop closes the book of a VM that is gone and has never sent an instance. How many of its
// lines were rejected is kept.
func (s *Source) drop(a *account) {
	if a.connections > 0 || a.sent {
		return
	}
	a.mu.Lock()
	rejected := a.rejected.Take()
	a.mu.Unlock()
	s.strays.Count += rejected.Count
	s.strays.Last = cmp.Or(rejected.Last, s.strays.Last)
	if a.idle() { // else an outcome is owed a loss
		delete(s.books, a.vm)
	}
}

// forget closes the books of VMs that are gone, once all is collected.
func (s *Source) forget() {
	for vm, a := range s.books {
		if a.connections == 0 && a.left < s.next && a.idle() {
			delete(s.books, vm)
		}
	}
}
