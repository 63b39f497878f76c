package usdt

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// OpenFile opens the regular file with an absolute name in the process's file system. The owner of
// that file system cannot redirect it to another file: symbolic links stay within the process's
// root, and OpenFile checks the file before it opens it, and opens the file that it has checked.
// The error wraps ErrFormat if the file is not a regular file.
//
// A file system in user space may not answer. Then OpenFile waits forever.
func (p Process) OpenFile(name string) (*os.File, error) {
	place, err := p.place(name)
	if err != nil {
		return nil, err
	}
	defer place.Close()
	file, err := reopen(place)
	if err != nil {
		return nil, p.wrap(name, err)
	}
	return file, nil
}

// place returns an O_PATH descriptor of the file with a name in the process's root. It can be
// inspected but not read: nothing has opened the pipe or device that it may be.
func (p Process) place(name string) (*os.File, error) {
	root, err := unix.Open(p.path("root"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, p.wrap("root", err)
	}
	defer unix.Close(root)
	if err := p.check(); err != nil {
		return nil, err
	}
	place, err := openPlace(root, name, name, unix.RESOLVE_IN_ROOT)
	if err != nil {
		return nil, p.wrap(name, err)
	}
	return place, nil
}

// openPlace opens a name in a folder with O_PATH. shown is the name in messages.
func openPlace(folder int, name, shown string, resolve uint64) (place *os.File, err error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolve | unix.RESOLVE_NO_MAGICLINKS}
	const tries = 16 // openat2(2) returns EAGAIN if something is renamed meanwhile
	for range tries {
		var fd int
		if fd, err = unix.Openat2(folder, name, &how); err == nil {
			return os.NewFile(uintptr(fd), shown), nil
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return nil, err
}

// OpenBelow opens the regular file with a relative name in a folder. No symbolic link leads out of
// the folder. OpenBelow checks the file before it opens it, and opens the file that it has checked.
// The error wraps ErrFormat if the file is not a regular file.
func OpenBelow(folder, name string) (*os.File, error) {
	root, err := unix.Open(folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: folder, Err: err}
	}
	defer unix.Close(root)
	shown := filepath.Join(folder, name)
	place, err := openPlace(root, name, shown, unix.RESOLVE_BENEATH)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: shown, Err: err}
	}
	defer place.Close()
	file, err := reopen(place)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: shown, Err: err}
	}
	return file, nil
}

// reopen opens an O_PATH descriptor of a regular file for reading.
func reopen(place *os.File) (*os.File, error) {
	if err := regular(place); err != nil {
		return nil, err
	}
	// This opens the same file, not one that has the same name by now.
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(int(place.Fd())), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), place.Name()), nil
}
