package wrapper

import (
	"fmt"

	"github.com/beamscope/beamscope/internal/outcome"
)

// A Direction says who connected to whom.
type Direction uint8

// The directions of connections.
const (
	Inbound  Direction = iota // a wrapper that connected to us, and sends instances
	Outbound                  // a wrapper that we connect to, and send commands
)

// String returns inbound or outbound.
func (d Direction) String() string {
	switch d {
	case Inbound:
		return "inbound"
	case Outbound:
		return "outbound"
	}
	return fmt.Sprintf("Direction(%d)", uint8(d))
}

// A Peer is the other end of a connection.
type Peer struct {
	Address   string
	VM        outcome.VM // zero where it is not known
	Direction Direction
	Connected bool // false for an address to which we are not connected for now

	// Active says that the peer was told to send instances. Whether it reads what
	// it is told cannot be known.
	Active bool

	Lines    uint64 // received on the connection
	Rejected uint64 // of those, not understood
	Unwanted uint64 // of those, instances that no outcome wants
}
