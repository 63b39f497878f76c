package recording

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Create begins a recording in a new file. Where the file exists, it is an error
// wrapping [fs.ErrExist], or with force written over. [Writer.Close] closes it.
func Create(path string, force bool, h Header) (*Writer, error) {
	mode := os.O_EXCL
	if force {
		mode = os.O_TRUNC
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|mode, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil, exists(err)
	}
	if err != nil {
		return nil, err
	}
	w, err := NewWriter(file, h)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	w.file = file
	return w, nil
}

// CheckFree tells whether Create will find a file in its way, before there is anything
// to record.
func CheckFree(path string) error {
	if _, err := os.Lstat(path); err != nil {
		return nil // Create says what is wrong, if anything is
	}
	return exists(&fs.PathError{Op: "open", Path: path, Err: unix.EEXIST})
}

func exists(err error) error {
	return fmt.Errorf("%w: choose another name, or --force to write over it", err)
}

// syncAndClose has a file on the disk, unless it is one that has no disk.
func syncAndClose(file *os.File) error {
	err := file.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, file.Close())
}

// Open opens the recording in a file. Errors name the file. The caller closes the
// Reader.
func Open(path string) (*Reader, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r, err := NewReader(file)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	r.closer = file
	return r, nil
}
