//go:build !linux

package otheruser

import (
	"errors"
	"os"
	"testing"
)

const needsLinux = "needs Linux"

// Files is a file system that only Linux has.
type Files struct{ Path string }

// NewFiles skips the test.
func NewFiles(t testing.TB, _ string, _ []byte) *Files {
	t.Skip(needsLinux)
	return nil
}

// Run skips the test.
func (f *Files) Run(t testing.TB, _ string) (pid int) {
	t.Skip(needsLinux)
	return 0
}

// RunWithin skips the test.
func (f *Files) RunWithin(t testing.TB) (pid int) {
	t.Skip(needsLinux)
	return 0
}

// Silence does nothing.
func (f *Files) Silence() {}

// SilenceContents does nothing.
func (f *Files) SilenceContents() {}

// A Swap is a folder that can be exchanged for a link, which only Linux does in one step.
type Swap struct{ Folder, Link, Secret string }

// NewSwap skips the test.
func NewSwap(t testing.TB) Swap {
	t.Skip(needsLinux)
	return Swap{}
}

// Start skips the test.
func (s Swap) Start(t testing.TB) (stop func()) {
	t.Skip(needsLinux)
	return nil
}

// Exchange fails.
func (s Swap) Exchange() error { return errors.ErrUnsupported }

// Files skips the test.
func (s Swap) Files(t testing.TB) []os.DirEntry {
	t.Skip(needsLinux)
	return nil
}

// CheckSecret does nothing.
func (s Swap) CheckSecret(testing.TB) {}
