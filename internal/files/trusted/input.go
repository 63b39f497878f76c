package trusted

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// ErrLed means that another user's link leads a path to a file that does not belong to that user.
var ErrLed = errors.New("not safe to read")

// errMagic means that a path leads to a special object of a process, such as an open file, which
// has no path.
var errMagic = errors.New("a link of the proc file system")

// Open opens a file for reading, with flags of os.OpenFile. The caller may print the contents,
// but the owner of a file decides who may see them. So each symbolic link on the way must belong
// to root, to this process's user, to the user who called it by sudo, or to the owner of the
// file. Changes during the opening cannot circumvent this. The error wraps ErrLed, or comes from
// os.OpenFile.
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
