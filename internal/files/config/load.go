package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v4"
	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/internal/files/trusted"
)

// MaxFile is the largest size in bytes of a scope file, and of a diagram file.
const MaxFile = 1 << 20

// MaxOutcomes limits the outcomes of a scope file, including the names of its diagram without an
// entry. Each uses memory and time in every window. It is five times the limit of discovery.
const MaxOutcomes = 1000

// Load reads a scope file. Paths in it are relative to its folder. The error is a [*DiagramError]
// for a wrong diagram, and an [*Error] otherwise.
func Load(path string) (Config, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return Config{}, &Error{File: path, Text: "is a folder: name the scope file in it"}
	}
	data, err := readFile(path)
	if err != nil {
		return Config{}, &Error{File: path, Text: err.Error()}
	}
	return Parse(path, data)
}

// readFile reads a file of limited size. Its errors are meant to follow the file's name.
func readFile(path string) ([]byte, error) {
	file, err := trusted.Open(path, os.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, unreadable(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, unreadable(err)
	}
	if !info.Mode().IsRegular() || info.Size() > MaxFile {
		return nil, fmt.Errorf("is not a file of at most %d KiB", MaxFile>>10)
	}
	data, err := io.ReadAll(io.LimitReader(file, MaxFile))
	if err != nil {
		return nil, unreadable(err)
	}
	return data, nil
}

// unreadable returns the reason why a file could not be read, without its path.
func unreadable(err error) error {
	var at *os.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return fmt.Errorf("cannot be read: %w", err)
}

// Parse parses the contents of a scope file. The path is for messages, and for the files that the
// scope file names. The errors are those of Load.
func Parse(path string, data []byte) (Config, error) {
	r := &reader{file: path, dir: filepath.Dir(path), open: readFile}
	return r.document(data)
}

// check returns an error unless a scope file could contain c. It reads the formatted
// configuration, so edits must pass the same checks as files.
func (c Config) check() error {
	_, err := c.reader().document(c.Format())
	return withoutLine(err)
}

// reader returns a reader of the formatted configuration.
func (c Config) reader() *reader {
	return &reader{dir: c.Dir, open: func(string) ([]byte, error) { return []byte(c.Diagram), nil }}
}

// withoutLine removes the line from an error about a file that the user has not seen.
func withoutLine(err error) error {
	var at *Error
	if errors.As(err, &at) {
		at.Line = 0
	}
	return err
}

func (r *reader) document(data []byte) (Config, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return Config{}, syntaxError(r.file, err)
	}
	if err := r.alone(data); err != nil {
		return Config{}, err
	}
	if len(doc.Content) == 0 {
		return Config{}, &Error{File: r.file, Text: "empty: write outcomes, see docs/reference/scope-file.md"}
	}
	return r.config(value{node: doc.Content[0]})
}

// alone rejects a second YAML document, which would otherwise be ignored.
func (r *reader) alone(data []byte) error {
	d := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	if err := d.Decode(&first); err != nil {
		return nil // the file is empty, which is checked elsewhere
	}
	if err := d.Decode(&second); err == nil {
		return &Error{File: r.file, Line: second.Line, Text: "a second YAML document: write one"}
	}
	return nil
}
