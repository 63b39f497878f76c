package trusted

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// ErrPrepared means that another user may have prepared the target of a path.
var ErrPrepared = errors.New("not safe to write to")

// Output follows the path of a file or folder to be written, and returns the same place as an
// absolute path without symbolic links. The last component need not exist.
// The path may lead through folders of other users, as long as they cannot redirect it: in a
// folder that others can write to, each existing component must belong to root, to this process's
// user, or to the user who called it by sudo. The error wraps ErrPrepared and names the
// component, or comes from the file system.
func Output(path string) (string, error) {
	missing := false
	at, err := follow(path, func(folder, path string, last bool) (fs.FileInfo, error) {
		info, err := os.Lstat(path)
		if err != nil {
			missing = last && errors.Is(err, fs.ErrNotExist)
			return nil, err
		}
		return info, prepared(folder, path, info)
	})
	if err != nil && !missing {
		return "", err
	}
	return at, nil
}

// prepared returns an error if another user may have put a file into a folder.
func prepared(folder, path string, info fs.FileInfo) error {
	in, err := os.Lstat(folder)
	if err != nil {
		return err
	}
	return preparedIn(in, path, info)
}

// preparedIn is prepared for a folder with this description.
func preparedIn(in fs.FileInfo, path string, info fs.FileInfo) error {
	if owner := ownerOf(in); !othersWrite(in) && own(owner) {
		return nil
	}
	if owner := ownerOf(info); !own(owner) {
		return fmt.Errorf("%w: %s belongs to user %s, in a folder where others can write: use another folder", ErrPrepared, path, owner)
	}
	return nil
}

// ownerOf returns the id of a file's owner as text, or "?" if unknown.
func ownerOf(info fs.FileInfo) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "?"
	}
	return strconv.FormatUint(uint64(stat.Uid), 10)
}

// own reports whether a user is root, this process's user, or the user who called it by sudo.
func own(user string) bool {
	return user == "0" || user == strconv.Itoa(os.Geteuid()) || os.Geteuid() == 0 && user == os.Getenv("SUDO_UID")
}

// privateTo returns an error that wraps ErrPrepared if others can write to a folder.
func privateTo(path string, info fs.FileInfo) error {
	if othersWrite(info) || !own(ownerOf(info)) {
		return fmt.Errorf("%w: others can write to %s (%v, of user %s): use a folder of your own", ErrPrepared, path, info.Mode(), ownerOf(info))
	}
	return nil
}

// MakeFolder creates a folder that only this process's user can read, and the missing folders
// above it. It follows the path as Output does, and returns the open folder. The error wraps
// ErrPrepared also if others can write to the folder itself.
func MakeFolder(path string) (*Folder, error) {
	if _, err := Output(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	f, err := OpenFolder(path)
	if err != nil {
		return nil, err
	}
	if err := f.private(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
