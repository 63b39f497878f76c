//go:build !linux

package usdt

import (
	"errors"
	"os"
)

// identify fails, as open does.
func (m *MappedFile) identify() (regular bool, err error) { _, err = m.open(); return false, err }

// open fails: only Linux has the files of processes.
func (m MappedFile) open() (*os.File, error) {
	return nil, &os.PathError{Op: "open", Path: m.Path, Err: errors.ErrUnsupported}
}
