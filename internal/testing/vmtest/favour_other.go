//go:build !linux

package vmtest

import (
	"testing"

	"github.com/beamscope/beamscope/erlang"
)

// Favour does nothing: only Linux runs the tests that observe VMs.
func Favour(testing.TB, *erlang.VM) {}
