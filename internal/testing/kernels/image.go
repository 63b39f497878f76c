package kernels

import (
	"bufio"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// An image is the initial file system of the kernel: an archive in the format "newc", see
// Documentation/driver-api/early-userspace/buffer-format.rst of Linux.
type image struct {
	w    *bufio.Writer
	err  error
	made map[string]bool // the paths in the archive
}

func newImage(w io.Writer) *image {
	return &image{w: bufio.NewWriter(w), made: make(map[string]bool)}
}

// Types of files, of inode(7).
const (
	modeFolder = 0o040000
	modeFile   = 0o100000
)

// add adds a file or folder, and the folders above it. Paths are absolute.
func (i *image) add(name string, mode uint32, data []byte) {
	if i.err != nil || i.made[name] {
		return
	}
	i.made[name] = true
	if dir := path.Dir(name); dir != "/" {
		i.folder(dir)
	}
	i.entry(strings.TrimPrefix(name, "/"), mode, data)
}

func (i *image) folder(name string) { i.add(name, modeFolder|0o755, nil) }

func (i *image) file(name string, mode uint32, data []byte) { i.add(name, modeFile|mode, data) }

func (i *image) entry(name string, mode uint32, data []byte) {
	const links = 1
	ino := len(i.made)
	_, err := fmt.Fprintf(i.w, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		ino, mode, 0, 0, links, 0, len(data), 0, 0, 0, 0, len(name)+1, 0, name)
	const header = 110
	i.keep(err)
	i.pad(header + len(name) + 1)
	_, err = i.w.Write(data)
	i.keep(err)
	i.pad(len(data))
}

// pad fills up to a multiple of four bytes.
func (i *image) pad(written int) {
	_, err := i.w.Write(make([]byte, -written&3))
	i.keep(err)
}

func (i *image) keep(err error) {
	if i.err == nil {
		i.err = err
	}
}

// close ends the archive, and returns the first error that occurred.
func (i *image) close() error {
	i.entry("TRAILER!!!", 0, nil)
	i.keep(i.w.Flush())
	return i.err
}

// copyFile adds a file of the host, with its permissions.
func (i *image) copyFile(name, from string) {
	data, err := os.ReadFile(from)
	if err != nil {
		i.keep(err)
		return
	}
	info, err := os.Stat(from)
	if err != nil {
		i.keep(err)
		return
	}
	i.file(name, uint32(info.Mode().Perm()), data)
}

// copyTree adds a folder of the host. Symbolic links are followed.
func (i *image) copyTree(name, from string) {
	i.keep(filepath.WalkDir(from, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			return nil
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		i.copyFile(path.Join(name, filepath.ToSlash(rel)), p)
		return i.err
	}))
}

// libraries adds the loader and the shared libraries that a program or library needs. It takes them
// from the host or, if there is a sysroot, from there.
func (i *image) libraries(from, sysroot string) {
	f, err := elf.Open(from)
	if err != nil {
		i.keep(err)
		return
	}
	defer f.Close()
	needed, err := f.ImportedLibraries()
	i.keep(err)
	if p := f.Section(".interp"); p != nil {
		data, err := p.Data()
		i.keep(err)
		loader := strings.TrimRight(string(data), "\x00")
		if !i.made[loader] {
			i.copyFile(loader, filepath.Join(sysroot, loader))
		}
	}
	for _, name := range needed {
		dir, err := folderOf(name, f.Machine, sysroot)
		if err != nil {
			i.keep(fmt.Errorf("%s: %w", from, err))
			return
		}
		at := path.Join(dir, name)
		if i.made[at] {
			continue
		}
		i.copyFile(at, filepath.Join(sysroot, at))
		i.libraries(filepath.Join(sysroot, at), sysroot)
	}
}

var errNoLibrary = errors.New("no such library")

// folderOf returns the folder of a library.
func folderOf(name string, machine elf.Machine, sysroot string) (string, error) {
	triplet := "x86_64-linux-gnu"
	if machine == elf.EM_AARCH64 {
		triplet = "aarch64-linux-gnu"
	}
	folders := []string{"/lib/" + triplet, "/usr/lib/" + triplet, "/lib64", "/usr/lib64", "/lib", "/usr/lib"}
	n := slices.IndexFunc(folders, func(dir string) bool {
		_, err := os.Stat(filepath.Join(sysroot, dir, name))
		return err == nil
	})
	if n < 0 {
		return "", fmt.Errorf("%w: %s", errNoLibrary, name)
	}
	return folders[n], nil
}
