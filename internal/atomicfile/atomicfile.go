// Package atomicfile replaces files at once: whoever reads one finds what was
// there before, or all of what is there now.
package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Write writes a file at once, or not at all. One that exists keeps its
// permissions, and a symbolic link stays one. What is no regular file, such as
// /dev/stdout, is written to as it is.
func Write(name string, content []byte) error {
	return WriteBy(name, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// WriteBy is Write of what a function writes, which need not be in memory as a
// whole. Where the function fails nothing is written, and its error returned.
func WriteBy(name string, write func(io.Writer) error) (err error) {
	mode := os.FileMode(0o644)
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	if info, err := os.Stat(name); err == nil {
		if !info.Mode().IsRegular() {
			return writeThrough(name, write)
		}
		mode = info.Mode().Perm()
	}
	temp, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temp.Name()))
		}
	}()
	err = write(temp)
	if err = errors.Join(err, temp.Chmod(mode), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), name)
}

// writeThrough writes to what is no regular file.
func writeThrough(name string, write func(io.Writer) error) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
