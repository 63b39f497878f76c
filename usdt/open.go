package usdt

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// OpenFile opens the regular file that the process knows by an absolute name. Whoever
// controls the process's file system cannot lead to anything else: symbolic links stay
// within the process's root, what is there is looked at before it is opened, and what was
// looked at is what is opened. The error wraps ErrFormat where it is no regular file.
//
// A file system of the user's own need not answer, and then this waits for ever.
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

// place returns where a name leads in the process's root. The result can be looked at and
// not read: a pipe has not been opened by it, and a device has not noticed.
func (p Process) place(name string) (*os.File, error) {
	root, err := unix.Open(p.path("root"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, p.wrap("root", err)
	}
	defer unix.Close(root)
	if err := p.check(); err != nil {
		return nil, err
	}
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	}
	const tries = 16 // it is EAGAIN where something is renamed meanwhile (openat2(2))
	for range tries {
		var fd int
		if fd, err = unix.Openat2(root, name, &how); err == nil {
			return os.NewFile(uintptr(fd), name), nil
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return nil, p.wrap(name, err)
}

// reopen opens a regular file for reading that was opened as a place.
func reopen(place *os.File) (*os.File, error) {
	if err := regular(place); err != nil {
		return nil, err
	}
	// The same file, as it was not looked for again by its name.
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(int(place.Fd())), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), place.Name()), nil
}

// regular returns an error unless an open file is a regular one.
func regular(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: not a regular file", ErrFormat)
	}
	return nil
}
