package trusted

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrLed says that another user's link leads a path to a file that is not that user's.
var ErrLed = errors.New("not safe to read")

// errMagic says that a path leads to an open file or the like of a process, which has no path.
var errMagic = errors.New("a link of the proc file system")

// Open opens a file for reading, with flags of os.OpenFile. What is read of it may be printed,
// and its owner decides who sees it. So each symbolic link on the way must belong to root, to
// this process's user, or to the user who called it by sudo, or to the owner of the file. Nobody
// can change that while it is opened. The error wraps ErrLed, or is that of os.OpenFile.
func Open(path string, flags int) (*os.File, error) {
	var leaders []string // users who own links on the way
	at, err := follow(path, func(_, path string, _ bool) (fs.FileInfo, error) {
		info, err := os.Lstat(path)
		if err != nil || info.Mode().Type() != fs.ModeSymlink {
			return info, err
		}
		if owner := ownerOf(info); !own(owner) {
			leaders = append(leaders, owner)
		}
		if strings.HasPrefix(path, "/proc/") {
			err = errMagic
		}
		return info, err
	})
	switch {
	case errors.Is(err, errMagic) && len(leaders) == 0:
		return os.OpenFile(path, flags, 0)
	case errors.Is(err, errMagic):
		return nil, fmt.Errorf("%w: a link of user %s leads %s into /proc: name the file itself", ErrLed, leaders[0], path)
	case err != nil:
		var in *fs.PathError
		if errors.As(err, &in) {
			err = in.Err
		}
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	file, err := openPlain(at, flags, path)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	for _, leader := range leaders {
		if owner := ownerOf(info); owner != leader {
			return nil, errors.Join(fmt.Errorf("%w: a link of user %s leads %s to a file of user %s: name the file itself", ErrLed, leader, path, owner), file.Close())
		}
	}
	return file, nil
}

// openPlain opens a file by a path without links, and gives it a name. Where there is a link
// now, that is an error.
func openPlain(path string, flags int, name string) (*os.File, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: unix.RESOLVE_NO_SYMLINKS}
	for {
		fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var stat unix.Stat_t
		if err := unix.Fstat(fd, &stat); err == nil && stat.Mode&unix.S_IFMT == unix.S_IFIFO {
			_ = unix.SetNonblock(fd, true) // or closing it would not end what reads it
		}
		return os.NewFile(uintptr(fd), name), nil
	}
}
