package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/beamscope/beamscope/internal/files/recording"
	"github.com/beamscope/beamscope/internal/files/trusted"
)

// temporary matches the names of files that are being written.
const temporary = ".snapshot-*.tmp"

// abandoned is the age from which on a temporary file is no longer being written.
const abandoned = time.Hour

// writeFile writes a file into a folder atomically. It never replaces a file: if the name exists,
// it adds a number.
func writeFile(dir, name string, parts [][]byte) (path string, err error) {
	folder, err := trusted.MakeFolder(dir)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	temp, err := writeTemporary(folder, parts)
	if err != nil {
		return "", err
	}
	name, err = freeName(folder, name)
	if err == nil {
		err = folder.Rename(temp, name)
	}
	if err != nil {
		return "", errors.Join(err, folder.Remove(temp))
	}
	return filepath.Join(dir, name), folder.Sync()
}

// writeTemporary writes a temporary file to the disk, and returns its name.
func writeTemporary(folder *trusted.Folder, parts [][]byte) (name string, err error) {
	before, after, _ := strings.Cut(temporary, "*")
	file, name, err := folder.CreateTemp(before, after)
	if err != nil {
		return "", err
	}
	for _, part := range parts {
		if err == nil {
			_, err = file.Write(part)
		}
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, folder.Remove(name))
	}
	return name, nil
}

// freeName returns an unused name in the folder.
func freeName(folder *trusted.Folder, name string) (string, error) {
	stem := strings.TrimSuffix(name, extension)
	for n := 2; ; n++ {
		if _, err := folder.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return name, nil
		} else if err != nil {
			return "", err
		}
		name = fmt.Sprintf("%s_%d%s", stem, n, extension) // sorts after the first one
	}
}

// A found file is a snapshot in a folder.
type found struct {
	path   string
	size   int64
	owners []string // at least one
}

// find returns the snapshots in a folder, the oldest first. These are the regular files that have
// names of snapshots and begin like recordings. A folder that does not exist has none.
func find(dir string) ([]found, error) {
	entries, err := os.ReadDir(dir) // sorted by name
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var files []found
	for _, entry := range entries {
		if !isName(entry.Name()) || !entry.Type().IsRegular() {
			continue
		}
		info, err := entry.Info()
		path := filepath.Join(dir, entry.Name())
		if err != nil {
			continue // it has just gone
		}
		if header, ok := headerOf(path); ok { // otherwise it is a different kind of file
			files = append(files, found{path, info.Size(), ownersOf(header)})
		}
	}
	return files, nil
}

// headerOf returns the header of a file, and whether it begins like a recording. The header of a
// damaged one, or one of another version, is empty.
func headerOf(path string) (h recording.Header, ok bool) {
	r, err := recording.Open(context.Background(), path) // find has checked that it is a regular file
	if err != nil {
		return h, errors.Is(err, recording.ErrDamaged) || errors.Is(err, recording.ErrVersion)
	}
	return r.Header, r.Close() == nil
}

// prune deletes snapshots until at most this many files and bytes remain, in the order of an
// [eviction]. It also deletes temporary files of writers that were killed. It never deletes keep.
func prune(dir, keep string, files int, size int64) error {
	folder, err := trusted.OpenFolder(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	all, err := find(dir)
	if err != nil {
		return err
	}
	var total int64
	for _, file := range all {
		total += file.size
	}
	old := newEviction(all, keep)
	for n := len(all); n > files || total > size; n-- {
		file, ok := old.next()
		if !ok {
			break
		}
		if err := remove(folder, file.path); err != nil {
			return err
		}
		total -= file.size
	}
	return removeAbandoned(folder, dir)
}

func removeAbandoned(folder *trusted.Folder, dir string) error {
	temps, err := filepath.Glob(filepath.Join(escaped(dir), temporary))
	if err != nil {
		return err
	}
	for _, path := range temps {
		info, err := os.Lstat(path)
		if err != nil || time.Since(info.ModTime()) < abandoned {
			continue
		}
		if err := remove(folder, path); err != nil {
			return err
		}
	}
	return nil
}

// escaped returns a pattern that matches only this path.
func escaped(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// remove deletes the file with a path from the folder. It ignores a file that is already gone.
func remove(folder *trusted.Folder, path string) error {
	if err := folder.Remove(filepath.Base(path)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
