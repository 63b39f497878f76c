package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes this program beamscope itself where it is called so.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"beamscope": main})
}
