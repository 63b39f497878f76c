package usdt

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// open opens the file for reading, after it has checked who can keep it from being read.
func (m MappedFile) open() (*os.File, error) {
	place, err := unix.Open(m.Path, unix.O_PATH|unix.O_CLOEXEC, 0) // asks no file system
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: m.Path, Err: err}
	}
	at := os.NewFile(uintptr(place), m.Path)
	defer at.Close()
	if err := m.checkServed(place); err != nil {
		return nil, err
	}
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(place), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: m.Path, Err: err}
	}
	return os.NewFile(uintptr(fd), m.Path), nil
}

// identify sets the device and inode of the file, and reports whether it is a regular one. It does not ask
// the file system, which may not answer.
func (m *MappedFile) identify() (regular bool, err error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, m.Path, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_INO, &st); err != nil {
		return false, &os.PathError{Op: "stat", Path: m.Path, Err: err}
	}
	m.Device, m.Inode = unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino
	return st.Mode&unix.S_IFMT == unix.S_IFREG, nil
}

// checkServed returns ErrServed if another user may keep the open file from being read. It asks only the
// kernel: the file system may not answer.
func (m MappedFile) checkServed(place int) error {
	process, ok := m.process()
	if !ok {
		return nil // not a file of a process
	}
	var folder unix.Stat_t
	if err := unix.Stat(process, &folder); err != nil || int(folder.Uid) == os.Geteuid() {
		return err
	}
	of, ours, err := findMountOf(process, place)
	switch {
	case err != nil:
		return err
	case of == (mount{}):
		return fmt.Errorf("%w (its mount is in no list)", ErrServed)
	case strings.HasPrefix(of.kind, "fuse"):
		return fmt.Errorf("%w (%s)", ErrServed, of.kind)
	case of.kind != "overlay" || ours:
		return nil
	}
	foreign, err := mountsOfUsers(process)
	if err != nil || !foreign {
		return err
	}
	return fmt.Errorf("%w (%s in a user namespace)", ErrServed, of.kind)
}

// findMountOf returns the mount of an open file, or no mount, and reports whether its file system is one that
// we see too. The lists of mounts lack those that were unmounted lazily and, for a process in a chroot, those
// outside. The device still tells the file system then.
func findMountOf(process string, place int) (of mount, ours bool, err error) {
	var st unix.Statx_t
	if err := unix.Statx(place, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &st); err != nil {
		return mount{}, false, fmt.Errorf("find its mount: %w", err)
	}
	device := fmt.Sprintf("%d:%d", st.Dev_major, st.Dev_minor)
	wanted := func(m mount) bool {
		return m.device == device || st.Mask&unix.STATX_MNT_ID != 0 && m.id == st.Mnt_id // since Linux 5.8
	}
	of, err = findMount("/proc/self", wanted)
	if err != nil || of != (mount{}) {
		return of, true, err
	}
	of, err = findMount(process, wanted)
	if err != nil || of.kind != "overlay" {
		return of, false, err
	}
	seen, err := findMount("/proc/self", func(m mount) bool { return m.device == of.device })
	return of, seen != (mount{}), err
}

// process returns the folder of the process under /proc whose file it is.
func (m MappedFile) process() (folder string, ok bool) {
	rest, ok := strings.CutPrefix(m.Path, "/proc/")
	pid, _, more := strings.Cut(rest, "/")
	_, err := strconv.Atoi(pid)
	return "/proc/" + pid, ok && more && err == nil
}

// A mount is a line of the list of mounts of a process (proc_pid_mountinfo(5)).
type mount struct {
	id     uint64
	device string // of its file system: "8:1"
	kind   string // type of its file system, such as "ext4" or "fuse.sshfs"
}

// findMount returns the first mount that a process sees and that is wanted, or no mount. A file that was
// opened in another namespace may have a mount that the process does not see.
func findMount(process string, wanted func(mount) bool) (mount, error) {
	list, err := os.Open(filepath.Join(process, "mountinfo"))
	if err != nil {
		return mount{}, err
	}
	defer list.Close()
	return firstMount(list, wanted)
}

func firstMount(list io.Reader, wanted func(mount) bool) (mount, error) {
	const maxBytes, maxLine = 16 << 20, 1 << 20
	lines := bufio.NewScanner(io.LimitReader(list, maxBytes))
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if m := parseMount(lines.Text()); wanted(m) {
			return m, nil
		}
	}
	return mount{}, lines.Err()
}

// parseMount reads a line of a list of mounts. Missing fields are zero.
func parseMount(line string) (m mount) {
	fields := strings.SplitN(line, " ", 4)
	if len(fields) < 4 {
		return mount{}
	}
	_, kind, _ := strings.Cut(fields[3], " - ")
	m.id, _ = strconv.ParseUint(fields[0], 10, 64)
	m.device = fields[2]
	m.kind, _, _ = strings.Cut(kind, " ")
	return m
}

// mountsOfUsers reports whether a user without privileges may have mounted file systems that a process
// sees: its mount namespace belongs to another user namespace than ours.
func mountsOfUsers(process string) (bool, error) {
	ns, err := os.Open(filepath.Join(process, "ns/mnt"))
	if err != nil {
		return false, err
	}
	defer ns.Close()
	fd, err := unix.IoctlRetInt(int(ns.Fd()), unix.NS_GET_USERNS)
	if err != nil {
		return false, &os.PathError{Op: "find the user namespace of", Path: ns.Name(), Err: err}
	}
	owner := os.NewFile(uintptr(fd), "user namespace")
	defer owner.Close()
	theirs, err := owner.Stat()
	if err != nil {
		return false, err
	}
	ours, err := os.Stat("/proc/self/ns/user")
	return err == nil && !os.SameFile(theirs, ours), err
}
