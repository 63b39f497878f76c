//go:build !linux

package wrapper

import (
	"errors"
	"net/netip"
)

// askSocket fails: only Linux can be asked for a socket's owner by its addresses.
func askSocket(_, _ netip.AddrPort) (socket, error) { return socket{}, errors.ErrUnsupported }
