// Package atomicfile replaces files at once: whoever reads one finds what was
// there before, or all of what is there now.
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/internal/trusted"
)

// Write writes a file at once, or not at all. Nobody but its owner can read a new one.
// One that exists keeps its permissions, and a symbolic link stays one. What is no
// regular file, such as /dev/stdout, is written to as it is.
//
// Where somebody else may have prepared what the name leads to, as a link in a folder
// that all can write to, the error wraps [trusted.ErrPrepared].
func Write(name string, content []byte) error {
	return WriteBy(name, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// WriteBy is Write of what a function writes, which need not be in memory as a
// whole. Where the function fails nothing is written, and its error returned.
func WriteBy(name string, write func(io.Writer) error) (err error) {
	mode := os.FileMode(0o600)
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() && ofSystem(name) {
		return writeThrough(name, write)
	}
	target, err := trusted.Output(name)
	if errors.Is(err, trusted.ErrPrepared) {
		return err
	}
	if link, lstat := os.Lstat(name); err == nil && lstat == nil && link.Mode().Type() == fs.ModeSymlink {
		name = target
	}
	switch info, err := os.Lstat(name); {
	case err == nil && !info.Mode().IsRegular():
		return writeThrough(name, write)
	case err == nil:
		mode = info.Mode().Perm()
	}
	temp, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return of(name, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(of(name, err), of(name, os.Remove(temp.Name())))
		}
	}()
	err = write(temp)
	if err = errors.Join(err, temp.Chmod(mode), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), name)
}

// Check returns what would keep [Write] from making a file, as far as that can be known before
// there is anything to write: the folder is not there or may not be written to, or the name is
// that of a folder. It changes nothing.
func Check(name string) error {
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a folder: name a file", name)
	case err == nil && !info.Mode().IsRegular():
		return nil // a device or a pipe
	}
	if err := unix.Faccessat(unix.AT_FDCWD, filepath.Dir(name), unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return of(name, &fs.PathError{Op: "write", Path: name, Err: err})
	}
	return nil
}

// ofSystem reports whether a name is that of a device, or of a file that this process has
// open.
func ofSystem(name string) bool {
	return strings.HasPrefix(name, "/dev/") || strings.HasPrefix(name, "/proc/self/fd/")
}

// of has an error speak of the file that somebody named, and not of the one that is to
// take its place.
func of(name string, err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &path) && filepath.Dir(path.Path) == filepath.Dir(name):
		err = path.Err
	case errors.As(err, &link):
		err = link.Err
	default:
		return err // of what is written
	}
	if info, stat := os.Stat(filepath.Dir(name)); errors.Is(stat, fs.ErrNotExist) {
		return &folderError{filepath.Dir(name), err}
	} else if stat == nil && !info.IsDir() {
		return fmt.Errorf("%s is not a folder: %w", filepath.Dir(name), err)
	}
	return &fs.PathError{Op: "write", Path: name, Err: err}
}

// A folderError says that a folder is not there.
type folderError struct {
	dir string
	err error
}

func (e *folderError) Error() string { return fmt.Sprintf("the folder %s does not exist", e.dir) }
func (e *folderError) Unwrap() error { return e.err }

// writeThrough writes to what is no regular file. A pipe is not waited for.
func writeThrough(name string, write func(io.Writer) error) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_TRUNC|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENXIO) {
		return fmt.Errorf("%s: nobody reads from this pipe: start its reader first: %w", name, err)
	}
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
