package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Recordings can be replayed, exported and explored on a laptop: the command builds for macOS.
func TestBuildsForDarwin(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles all packages again")
	}
	build := exec.Command("go", "build", "-o", filepath.Join(t.TempDir(), "beamscope"), ".")
	build.Env = append(os.Environ(), "GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
