package recording

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/internal/files/atomicfile"
	"github.com/beamscope/beamscope/internal/files/pipe"
	"github.com/beamscope/beamscope/internal/files/trusted"
)

// Create begins a recording in a new file that only its owner can read. If the file exists, the
// error wraps [fs.ErrExist]. With force, Create replaces the file. If another user may have
// prepared the path, the error wraps [trusted.ErrPrepared]. [Writer.Close] closes the file.
func Create(path string, force bool, h Header) (*Writer, error) {
	file, err := create(path, force)
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

// create opens a new file. With force it first removes an existing one, except for a device or a
// pipe, which it opens.
func create(path string, force bool) (_ *os.File, err error) {
	folder, name, err := place(path, force)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	const flags = os.O_WRONLY | unix.O_NONBLOCK
	if force {
		info, err := folder.Lstat(name)
		if err == nil && !info.Mode().IsRegular() {
			return folder.Open(name, flags, 0)
		}
		if err == nil {
			err = folder.Remove(name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return folder.Open(name, flags|os.O_CREATE|os.O_EXCL, 0o600)
}

// place opens the folder of a new file, and returns the file's name there. With force it follows
// a link.
func place(path string, force bool) (*trusted.Folder, string, error) {
	if force {
		return trusted.FileFolder(path)
	}
	folder, err := trusted.OpenFolder(filepath.Dir(path))
	return folder, filepath.Base(path), err
}

// Check returns the error that [Create] would return, as far as it can be known before there is
// anything to record: for an existing file, or a folder that does not exist or is not writable.
func Check(path string, force bool) error {
	if _, err := os.Lstat(path); err == nil && !force {
		return exists(&fs.PathError{Op: "open", Path: path, Err: unix.EEXIST})
	}
	return atomicfile.Check(path)
}

func exists(err error) error {
	return fmt.Errorf("%w: choose another name, or --force to write over it", err)
}

// syncAndClose writes a file to the disk and closes it. Files without a disk are only closed.
func syncAndClose(file *os.File) error {
	err := file.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, file.Close())
}

// Open opens the recording in a file. Errors contain the file's name. Opening a pipe waits until
// the context is done. The caller closes the Reader.
func Open(ctx context.Context, path string) (*Reader, error) {
	file, err := pipe.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err == nil && info.IsDir() {
		return nil, errors.Join(fmt.Errorf("%s is a folder: name a recording in it", path), file.Close())
	}
	r, err := NewReader(file)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	r.closer = file
	return r, nil
}
