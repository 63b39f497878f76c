package config

import (
	"fmt"
	"path/filepath"

	"github.com/beamscope/beamscope/internal/files/atomicfile"
)

// Save writes the configuration to a scope file atomically, and only if it can be loaded again.
// Comments of a replaced file are lost, except those inside a diagram. The file keeps its
// permissions. A diagram in a separate file stays there, and the scope file refers to it:
// SaveDiagram writes it. Paths are written relative to the folder of the new file.
func (c Config) Save(path string) error { return c.SaveNoted(path, nil) }

// SaveNoted is Save with notes about outcomes, by name. Each becomes a comment in the outcome's entry.
func (c Config) SaveNoted(path string, notes map[string]string) error {
	c, err := c.movedTo(filepath.Dir(path))
	if err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return fmt.Errorf("%s is not saved: %w", path, err)
	}
	data := c.format(notes)
	if len(data) > MaxFile {
		return fmt.Errorf("%w: %s is not saved: %d KiB, and at most %d can be loaded", ErrInvalid, path, len(data)>>10, MaxFile>>10)
	}
	return atomicfile.Write(path, data)
}

// SaveDiagram writes the source of the diagram unchanged to a separate file.
func (c Config) SaveDiagram(path string) error {
	if _, err := ParseDiagram(path, c.Diagram); err != nil {
		return err
	}
	return atomicfile.Write(path, []byte(c.Diagram))
}

// movedTo returns the configuration with its paths made relative to another folder.
func (c Config) movedTo(dir string) (Config, error) {
	if filepath.Clean(dir) == filepath.Clean(c.Dir) {
		return c, nil
	}
	var err error
	if c.DiagramFile, err = c.relative(dir, c.DiagramFile); err != nil {
		return Config{}, err
	}
	if c.Snapshots.Dir, err = c.relative(dir, c.Snapshots.Dir); err != nil {
		return Config{}, err
	}
	c.Dir = dir
	return c, nil
}

func (c Config) relative(dir, name string) (string, error) {
	if name == "" || filepath.IsAbs(name) {
		return name, nil
	}
	from, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	to, err := filepath.Abs(c.Path(name))
	if err != nil {
		return "", err
	}
	return filepath.Rel(from, to)
}
