package wrapper

import (
	"fmt"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// A Direction is the direction of a connection.
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
	VM        outcome.VM // zero if unknown
	Direction Direction
	Connected bool // false for an address to which we are not connected for now

	// Active means that the peer has the order to send instances. Whether it reads its orders is
	// unknown.
	Active bool

	Lines    uint64 // received on the connection
	Rejected uint64 // received lines that were not understood
	Unwanted uint64 // received instances that belong to no outcome
}
