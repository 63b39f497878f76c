// Package trusted determines whether users other than root and this process's user can change the
// target of a path. A privileged program may start programs and load code only if they cannot.
package trusted

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ErrUntrusted means that users other than root and this process's user can change the target of
// a path.
var ErrUntrusted = errors.New("not safe to run")

// maxLinks is the largest number of symbolic links in a path, as in the kernel
// (path_resolution(7)).
const maxLinks = 40

// MaxFiles is the largest number of files and folders that Tree examines.
const MaxFiles = 200_000

// Path follows a path component by component and returns the same place as an absolute path
// without symbolic links. Root or this process's user must own each component, including links,
// and no other user may have permission to write to it. There is one exception: a folder that
// everybody can write to, such as /tmp, is accepted if its sticky bit keeps others from replacing
// the next component, and the next component is a folder.
// The error wraps ErrUntrusted and names the component, or comes from the file system.
func Path(path string) (string, error) {
	if _, err := inspect("/", nil); err != nil {
		return "", err
	}
	at, err := follow(path, func(folder, path string, _ bool) (fs.FileInfo, error) {
		above, err := os.Lstat(folder)
		if err != nil {
			return nil, err
		}
		return inspect(path, above)
	})
	if err != nil {
		return "", err
	}
	return at, nil
}

// follow follows a path component by component and returns the same place as an absolute path
// without symbolic links. look describes the next component, given its folder as a path without
// links. last means that no component follows, except those of a link there. If look fails, follow
// returns the path of that component and the error.
func follow(path string, look func(folder, path string, last bool) (fs.FileInfo, error)) (string, error) {
	if !strings.HasPrefix(path, "/") { // filepath.Abs would remove ".." together with the component before it, which may be a link
		here, err := os.Getwd()
		if err != nil {
			return "", err
		}
		path = here + "/" + path
	}
	at := "/"
	ahead := components(path)
	for links := 0; len(ahead) > 0; {
		name := ahead[0]
		ahead = ahead[1:]
		if name == ".." { // the path so far has no links
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		info, err := look(at, next, len(ahead) == 0)
		if err != nil {
			return next, err
		}
		if info.Mode().Type() != fs.ModeSymlink {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return next, fmt.Errorf("%s: %w", path, syscall.ELOOP)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return next, err
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		ahead = append(components(target), ahead...)
	}
	return at, nil
}

// Place checks the existing part of a path as Path does, so that only root and this process's
// user can create the missing part.
func Place(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	for {
		if _, err := Path(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		path = filepath.Dir(path)
	}
}

// components returns the names in a path, without those that have no effect.
func components(path string) []string {
	var names []string
	for name := range strings.SplitSeq(path, "/") {
		if name != "" && name != "." {
			names = append(names, name)
		}
	}
	return names
}

// inspect describes a file, folder or link, and checks that no unauthorised user can change it.
// Its folder must have been inspected before. in is that folder, or nil for the root.
func inspect(path string, in fs.FileInfo) (fs.FileInfo, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) && in != nil && othersWrite(in) {
		return nil, fmt.Errorf("%w: there is no %s, and others can make it", ErrUntrusted, path)
	}
	if err != nil {
		return nil, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, fmt.Errorf("%w: the owner of %s is not known", ErrUntrusted, path)
	}
	if stat.Uid != 0 && int(stat.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("%w: %s belongs to user %d, who can change it: change its owner", ErrUntrusted, path, stat.Uid)
	}
	// In a folder that they can write to, others can create a second name for a file or link of
	// root, but not for a folder.
	if in != nil && othersWrite(in) && !info.IsDir() {
		return nil, fmt.Errorf("%w: others can write to the folder %s: remove that permission", ErrUntrusted, filepath.Dir(path))
	}
	if othersWrite(info) && !(info.IsDir() && info.Mode()&fs.ModeSticky != 0) {
		return nil, fmt.Errorf("%w: others can write to %s (%v): remove that permission", ErrUntrusted, path, info.Mode())
	}
	return info, nil
}

// othersWrite reports whether a file's permissions allow others than its owner to write. With an
// access control list, the bits of the group are the upper limit for everybody in the list
// (acl(5)). The bits of a link have no meaning.
func othersWrite(info fs.FileInfo) bool {
	return info.Mode().Type() != fs.ModeSymlink && info.Mode().Perm()&0o022 != 0
}

// Tree checks a path as Path does, and everything below it, including the targets of links below
// it. Only files, folders and links are allowed. The error wraps ErrUntrusted also if there are
// more than MaxFiles, and is the context's cause if the context ends first.
func Tree(ctx context.Context, path string) error {
	root, err := Path(path)
	if err != nil {
		return err
	}
	w := walk{ctx: ctx, seen: make(map[string]bool)}
	return w.tree(root)
}

// A walk traverses a tree and all targets of its links.
type walk struct {
	ctx  context.Context
	seen map[string]bool // by path without links
}

// tree checks everything below a path that has been checked itself.
func (w *walk) tree(path string) error {
	if w.seen[path] {
		return nil
	}
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	if len(w.seen) >= MaxFiles {
		return fmt.Errorf("%w: more than %d files, at %s", ErrUntrusted, MaxFiles, path)
	}
	w.seen[path] = true
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.Mode().IsRegular() {
		return nil
	}
	if !info.IsDir() {
		return fmt.Errorf("%w: %s is neither a file nor a folder", ErrUntrusted, path)
	}
	if othersWrite(info) { // Path accepts folders with a sticky bit, but others may add files to them
		return fmt.Errorf("%w: others can write to the folder %s: remove that permission", ErrUntrusted, path)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := w.entry(filepath.Join(path, e.Name()), info); err != nil {
			return err
		}
	}
	return nil
}

// entry checks an entry of a folder.
func (w *walk) entry(path string, in fs.FileInfo) error {
	info, err := inspect(path, in)
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSymlink {
		return w.tree(path)
	}
	target, err := Path(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it leads nowhere, and only root or this user can change that
	}
	if err != nil {
		return err
	}
	return w.tree(target)
}
