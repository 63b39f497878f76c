package trusted

import "golang.org/x/sys/unix"

// Flags to open a folder as a base of paths, and to open a file only to describe it. Neither needs
// the right to read.
const (
	openBase     = unix.O_PATH | unix.O_DIRECTORY
	openDescribe = unix.O_PATH
)

// openWithoutLinks opens a file. The error is ELOOP if a part of the path is a link.
func openWithoutLinks(path string, flags int) (fd int, err error) {
	return unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_SYMLINKS})
}
