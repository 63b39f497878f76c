// Package atomicfile replaces files at once: a reader sees either the old contents or all of the
// new contents.
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

	"github.com/beamscope/beamscope/internal/files/trusted"
)

// Write writes a file completely, or not at all. Only its owner can read a new file. An existing
// file keeps its permissions, and a symbolic link stays a link. Write writes directly to anything
// that is not a regular file, such as /dev/stdout.
//
// If another user may have prepared the target of the name, such as a link in a folder that all can
// write to, the error wraps [trusted.ErrPrepared].
func Write(name string, content []byte) error {
	return WriteBy(name, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// WriteBy is like Write, but a function writes the contents, so they need not be in memory as a
// whole. If the function fails, WriteBy writes nothing and returns its error.
func WriteBy(name string, write func(io.Writer) error) (err error) {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() && ofSystem(name) {
		file, err := os.OpenFile(name, throughFlags, 0)
		if err != nil {
			return unread(name, err)
		}
		return writeThrough(file, write)
	}
	folder, in, err := trusted.FileFolder(name)
	if err != nil {
		return unplaced(name, err)
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	mode := os.FileMode(0o600)
	switch info, err := folder.Lstat(in); {
	case err == nil && !info.Mode().IsRegular():
		file, err := folder.Open(in, throughFlags, 0)
		if err != nil {
			return unread(name, err)
		}
		return writeThrough(file, write)
	case err == nil:
		mode = info.Mode().Perm()
	}
	return replace(folder, in, name, mode, write)
}

// replace writes a temporary file in the folder and renames it to in. Errors mention name, the path
// that the caller gave.
func replace(folder *trusted.Folder, in, name string, mode os.FileMode, write func(io.Writer) error) (err error) {
	temp, tempName, err := folder.CreateTemp("."+in+".", "")
	if err != nil {
		return of(name, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(of(name, err), of(name, folder.Remove(tempName)))
		}
	}()
	err = write(temp)
	if err = errors.Join(err, temp.Chmod(mode), temp.Close()); err != nil {
		return err
	}
	return folder.Rename(tempName, in)
}

// Check returns the error that [Write] would return, as far as it is known before there is anything
// to write: the folder does not exist or is not writable, or the name is that of a folder. It
// changes nothing.
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

// ofSystem reports whether a name is that of a device, or of an open file of this process.
func ofSystem(name string) bool {
	return strings.HasPrefix(name, "/dev/") || strings.HasPrefix(name, "/proc/self/fd/")
}

// of replaces the temporary file's path in an error by the name that the caller gave.
func of(name string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) && filepath.Dir(path.Path) == filepath.Dir(name) {
		return unwritten(name, path.Err)
	}
	return err // an error of the caller's write function, or nil
}

// unplaced replaces the path in an error about the file's location by the name that the caller
// gave.
func unplaced(name string, err error) error {
	var path *fs.PathError
	if !errors.Is(err, trusted.ErrPrepared) && errors.As(err, &path) {
		err = unwritten(name, path.Err)
	}
	return err
}

// unwritten explains why a file cannot be written.
func unwritten(name string, err error) error {
	if info, stat := os.Stat(filepath.Dir(name)); errors.Is(stat, fs.ErrNotExist) {
		return &folderError{filepath.Dir(name), err}
	} else if stat == nil && !info.IsDir() {
		return fmt.Errorf("%s is not a folder: %w", filepath.Dir(name), err)
	}
	return &fs.PathError{Op: "write", Path: name, Err: err}
}

// A folderError means that a folder does not exist.
type folderError struct {
	dir string
	err error
}

func (e *folderError) Error() string { return fmt.Sprintf("the folder %s does not exist", e.dir) }
func (e *folderError) Unwrap() error { return e.err }

// writeThrough writes directly to an open file that is not a regular file.
func writeThrough(file *os.File, write func(io.Writer) error) error {
	info, err := file.Stat()
	if err == nil && info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s has just become a file", trusted.ErrPrepared, file.Name())
	}
	if err == nil {
		err = write(file)
	}
	return errors.Join(err, file.Close())
}

// throughFlags are the flags to open a file that is not regular. Opening a pipe does not block.
const throughFlags = os.O_WRONLY | unix.O_NONBLOCK

// unread explains why a pipe could not be opened.
func unread(name string, err error) error {
	if errors.Is(err, unix.ENXIO) {
		return fmt.Errorf("%s: nobody reads from this pipe: start its reader first: %w", name, err)
	}
	return err
}
