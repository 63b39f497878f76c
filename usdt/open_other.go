//go:build !linux

package usdt

import (
	"errors"
	"os"
)

// OpenFile fails: only Linux has process file systems that it can open safely.
func (p Process) OpenFile(name string) (*os.File, error) {
	return nil, p.wrap(name, errors.ErrUnsupported)
}

func (p Process) place(name string) (*os.File, error) {
	return nil, p.wrap(name, errors.ErrUnsupported)
}

// OpenBelow fails: only Linux can open a file safely in a folder of another user.
func OpenBelow(folder, name string) (*os.File, error) {
	return nil, &os.PathError{Op: "open", Path: name, Err: errors.ErrUnsupported}
}
