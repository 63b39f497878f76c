// Package atomicfile replaces files at once: whoever reads one finds what was
// there before, or all of what is there now.
package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
)

// Write writes a file at once, or not at all. One that exists keeps its
// permissions, and a symbolic link stays one. What is no regular file, such as
// /dev/stdout, is written to as it is.
func Write(name string, content []byte) (err error) {
	mode := os.FileMode(0o644)
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	if info, err := os.Stat(name); err == nil {
		if !info.Mode().IsRegular() {
			return os.WriteFile(name, content, mode)
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
	_, err = temp.Write(content)
	if err = errors.Join(err, temp.Chmod(mode), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), name)
}
