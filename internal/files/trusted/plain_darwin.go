package trusted

import "golang.org/x/sys/unix"

// Flags to open a folder as a base of paths, and to open a file, or a link itself, only to describe
// it.
const (
	openBase     = unix.O_RDONLY | unix.O_DIRECTORY
	openDescribe = unix.O_EVTONLY | unix.O_SYMLINK | unix.O_NONBLOCK
)

// openWithoutLinks opens a file. The error is ELOOP if a part of the path is a link.
func openWithoutLinks(path string, flags int) (fd int, err error) {
	return unix.Open(path, flags|unix.O_NOFOLLOW_ANY, 0)
}
