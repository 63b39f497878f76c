// Package trusted finds out whether others than root and this process's user can change
// what a path leads to. A program that runs with privileges may only start programs, and
// load code, of which that is not so.
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

// ErrUntrusted says that others than root and this process's user can change what a
// path leads to.
var ErrUntrusted = errors.New("not safe to run")

// maxLinks is how many symbolic links a path may contain, as in the kernel
// (path_resolution(7)).
const maxLinks = 40

// MaxFiles is how many files and folders Tree looks at.
const MaxFiles = 200_000

// Path follows a path component by component and returns the same place as an absolute
// path without symbolic links. Root or this process's user must own each component, the
// links too, and nobody else may write to it. A folder that everybody can write to is
// accepted where its sticky bit keeps others from replacing what is in it, as that of
// /tmp does, and what is in it is a folder.
//
// The error wraps ErrUntrusted and names the component, or is that of the file system.
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

// follow follows a path component by component and returns the same place as an absolute
// path without symbolic links. look describes the next component, which is in a folder whose
// path has no links; last says that no component is left but what it may link to. Where look
// fails, follow returns the path of that component and the error.
func follow(path string, look func(folder, path string, last bool) (fs.FileInfo, error)) (string, error) {
	if !strings.HasPrefix(path, "/") { // filepath.Abs would leave out ".." and what is before it, which may be a link
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
		if name == ".." { // what is behind us has no links
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

// Place checks a path as Path does, as far as there is anything: what is missing can then
// only be made by root and this process's user.
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

// components returns the names in a path, without those that lead nowhere else.
func components(path string) []string {
	var names []string
	for name := range strings.SplitSeq(path, "/") {
		if name != "" && name != "." {
			names = append(names, name)
		}
	}
	return names
}

// inspect describes a file, a folder or a link that nobody can change who should not.
// The folder that it is in has been inspected before; it is nil for the root.
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
	// Others can put a second name of a file of root's, or a link's, into a folder that
	// they can write to, but not of a folder.
	if in != nil && othersWrite(in) && !info.IsDir() {
		return nil, fmt.Errorf("%w: others can write to the folder %s: remove that permission", ErrUntrusted, filepath.Dir(path))
	}
	if othersWrite(info) && !(info.IsDir() && info.Mode()&fs.ModeSticky != 0) {
		return nil, fmt.Errorf("%w: others can write to %s (%v): remove that permission", ErrUntrusted, path, info.Mode())
	}
	return info, nil
}

// othersWrite reports whether a file's permissions let others than its owner write. With
// an access control list these bits of the group are the most that anybody in the list
// can have (acl(5)). Those of a link have no meaning.
func othersWrite(info fs.FileInfo) bool {
	return info.Mode().Type() != fs.ModeSymlink && info.Mode().Perm()&0o022 != 0
}

// Tree checks a path as Path does, and everything that is below it or that links below
// it lead to. There must be nothing but files, folders and links. The error wraps
// ErrUntrusted also where there are more than MaxFiles, and is the context's cause where
// that is done before.
func Tree(ctx context.Context, path string) error {
	root, err := Path(path)
	if err != nil {
		return err
	}
	w := walk{ctx: ctx, seen: make(map[string]bool)}
	return w.tree(root)
}

// A walk goes through a tree and everything that links lead to.
type walk struct {
	ctx  context.Context
	seen map[string]bool // by path without links
}

// tree checks what is at a path that was checked itself.
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
	if othersWrite(info) { // Path accepts those with a sticky bit, and nobody knows what comes into them
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
