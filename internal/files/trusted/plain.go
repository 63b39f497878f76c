package trusted

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// openPlain opens a file by a path without links. name is its name in messages. If there is a
// link now, it returns an error.
func openPlain(path string, flags int, name string) (*os.File, error) {
	for {
		fd, err := openWithoutLinks(path, flags|unix.O_CLOEXEC)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var stat unix.Stat_t
		if err := unix.Fstat(fd, &stat); err == nil && stat.Mode&unix.S_IFMT == unix.S_IFIFO {
			_ = unix.SetNonblock(fd, true) // otherwise closing it would not end a blocked read
		}
		return os.NewFile(uintptr(fd), name), nil
	}
}
