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

// replace writes a file of a folder beside the one that it replaces then. Errors name it as it
// was named.
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
	if errors.As(err, &path) && filepath.Dir(path.Path) == filepath.Dir(name) {
		return unwritten(name, path.Err)
	}
	return err // of what is written, or none
}

// unplaced has an error of a file's way speak of the file that somebody named.
func unplaced(name string, err error) error {
	var path *fs.PathError
	if !errors.Is(err, trusted.ErrPrepared) && errors.As(err, &path) {
		err = unwritten(name, path.Err)
	}
	return err
}

// unwritten says why a file is not written.
func unwritten(name string, err error) error {
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

// writeThrough writes to an open file that is no regular one.
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

// throughFlags open what is no regular file. A pipe is not waited for.
const throughFlags = os.O_WRONLY | unix.O_NONBLOCK

// unread explains why a pipe could not be opened.
func unread(name string, err error) error {
	if errors.Is(err, unix.ENXIO) {
		return fmt.Errorf("%s: nobody reads from this pipe: start its reader first: %w", name, err)
	}
	return err
}
