package trusted

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A Folder is an open folder for writing files. Its methods act on that folder even if its path
// leads elsewhere by then.
type Folder struct {
	file *os.File // serves only as the base of relative paths
	path string   // for messages
}

// FileFolder follows the path of a file to be written as Output does, and opens the folder of the
// file. It returns the file's name in that folder, which is not the name of a link. The error
// wraps ErrPrepared also if a link was put into the path meanwhile. Otherwise it comes from the
// file system.
func FileFolder(path string) (*Folder, string, error) {
	at, err := Output(path)
	if err != nil {
		return nil, "", err
	}
	f, err := openFolder(filepath.Dir(at), filepath.Dir(path))
	if err != nil {
		return nil, "", err
	}
	name := filepath.Base(at)
	if err := f.prepared(name); err != nil {
		return nil, "", errors.Join(err, f.Close())
	}
	return f, name, nil
}

// OpenFolder follows the path of a folder as Output does, and opens it.
func OpenFolder(path string) (*Folder, error) {
	at, err := Output(path)
	if err != nil {
		return nil, err
	}
	return openFolder(at, path)
}

// openFolder opens a folder by a path without links. name is its name in messages.
func openFolder(at, name string) (*Folder, error) {
	file, err := openPlain(at, openBase, name)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%w: a link has taken the place of a folder on the way to %s: use another folder", ErrPrepared, at)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &Folder{file, name}, nil
}

// prepared returns an error if another user may have put a file into the folder, or if the file
// is a link.
func (f *Folder) prepared(name string) error {
	info, err := f.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	in, err := f.file.Stat()
	if err != nil {
		return err
	}
	if info.Mode().Type() == fs.ModeSymlink {
		return fmt.Errorf("%w: a link has taken the place of %s: use another folder", ErrPrepared, f.shown(name))
	}
	return preparedIn(in, f.shown(name), info)
}

// private returns an error that wraps ErrPrepared if others can write to the folder.
func (f *Folder) private() error {
	info, err := f.file.Stat()
	if err != nil {
		return err
	}
	return privateTo(f.path, info)
}

// Lstat describes a file in the folder. It does not follow a link.
func (f *Folder) Lstat(name string) (fs.FileInfo, error) {
	file, err := f.Open(name, openDescribe, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	return info, errors.Join(err, file.Close())
}

// Open opens a file in the folder, with flags and permissions of os.OpenFile. It does not follow
// a link.
func (f *Folder) Open(name string, flags int, perm uint32) (*os.File, error) {
	for {
		fd, err := unix.Openat(int(f.file.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, perm)
		if err == nil {
			return os.NewFile(uintptr(fd), f.shown(name)), nil
		}
		if !errors.Is(err, unix.EINTR) {
			return nil, f.failed("open", name, err)
		}
	}
}

// CreateTemp makes a new file that only its owner can read, with random letters between the two
// parts of its name. It also returns the name.
func (f *Folder) CreateTemp(before, after string) (*os.File, string, error) {
	name := before + rand.Text() + after
	file, err := f.Open(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	return file, name, err
}

// Rename renames a file in the folder, and replaces an existing file with the new name.
func (f *Folder) Rename(from, to string) error {
	fd := int(f.file.Fd())
	return f.failed("rename", to, unix.Renameat(fd, from, fd, to))
}

// Remove removes a file in the folder.
func (f *Folder) Remove(name string) error {
	return f.failed("remove", name, unix.Unlinkat(int(f.file.Fd()), name, 0))
}

// Sync writes the names in the folder to the disk.
func (f *Folder) Sync() error {
	file, err := f.Open(".", os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// Close closes the folder.
func (f *Folder) Close() error { return f.file.Close() }

func (f *Folder) shown(name string) string { return filepath.Join(f.path, name) }

// failed returns an error with the file's name, or nil for nil.
func (f *Folder) failed(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: f.shown(name), Err: err}
}
