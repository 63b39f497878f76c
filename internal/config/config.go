// Package config reads scope files, the YAML that says what to observe. It is
// strict: what it does not know is an error, with the line and what to do.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/vm"
)

// Defaults for what a scope file leaves out.
const (
	DefaultWindow = time.Second
	DefaultBase   = time.Millisecond
	DefaultBins   = 50
)

// Bounds of the polling window.
const (
	MinWindow = 100 * time.Millisecond
	MaxWindow = 10 * time.Second
)

// maxFile bounds the size of a scope file in bytes.
const maxFile = 1 << 20

// ErrInvalid is wrapped by every error about the contents of a scope file.
var ErrInvalid = errors.New("invalid configuration")

// An Error says what is wrong with a scope file, and where.
type Error struct {
	File string
	Line int    // from 1; 0 where it concerns the whole file
	Path string // of the key, "outcomes.worker_1.dmax"; "" where there is none
	Text string // what is wrong and what to do
}

// Error returns "file:line: path: text".
func (e *Error) Error() string {
	s := e.File
	if e.Line > 0 {
		s += fmt.Sprintf(":%d", e.Line)
	}
	if e.Path != "" {
		s += ": " + e.Path
	}
	return s + ": " + e.Text
}

// Unwrap returns [ErrInvalid].
func (e *Error) Unwrap() error { return ErrInvalid }

// A Config is what a scope file says.
type Config struct {
	Target   vm.Target
	Diagram  string // source of the outcome diagram, "" where there is none
	Window   time.Duration
	Base     time.Duration
	Outcomes []Outcome // in the order of the file, at least one

	// Later are the keys that are understood and kept, but have no effect in
	// this version, as "file:line: path".
	Later []string
}

// An Outcome is one entry of outcomes.
type Outcome struct {
	Name      string
	Span      string // name of the wrapper's spans
	Grid      dq.Grid
	ExitFails bool
}

// Spec returns the outcome as a source wants it.
func (o Outcome) Spec() outcome.Spec {
	return outcome.Spec{
		Name:      o.Name,
		Span:      o.Span,
		BinWidth:  o.Grid.Width(),
		Bins:      o.Grid.Bins(),
		ExitFails: o.ExitFails,
	}
}

// Specs returns the outcomes as a source wants them.
func (c Config) Specs() []outcome.Spec {
	specs := make([]outcome.Spec, 0, len(c.Outcomes))
	for _, o := range c.Outcomes {
		specs = append(specs, o.Spec())
	}
	return specs
}

// Load reads a scope file. Paths in it are relative to its folder.
func Load(path string) (Config, error) {
	data, err := readFile(path)
	if err != nil {
		return Config{}, err
	}
	return Parse(path, data)
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	if info.IsDir() {
		return nil, &Error{File: path, Text: "is a folder: name the scope file in it"}
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, &Error{File: path, Text: fmt.Sprintf("not a file of at most %d KiB", maxFile>>10)}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	return data, nil
}

func unreadable(path string, err error) error {
	return &Error{File: path, Text: fmt.Sprintf("cannot be read: %v", reason(err))}
}

// reason returns why a file could not be read, without its path.
func reason(err error) error {
	var at *os.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// Parse reads the contents of a scope file; the path is for messages and for
// the files that it names.
func Parse(path string, data []byte) (Config, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return Config{}, syntaxError(path, err)
	}
	if err := alone(path, data); err != nil {
		return Config{}, err
	}
	if len(doc.Content) == 0 {
		return Config{}, &Error{File: path, Text: "empty: write outcomes, see docs/scope-file.md"}
	}
	r := &reader{file: path, dir: filepath.Dir(path)}
	c, err := r.config(value{node: doc.Content[0]})
	if err != nil {
		return Config{}, err
	}
	return c, nil
}

// alone refuses a second YAML document: nothing of it would be read.
func alone(path string, data []byte) error {
	d := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	if err := d.Decode(&first); err != nil {
		return nil // empty, which is found out elsewhere
	}
	if err := d.Decode(&second); err == nil {
		return &Error{File: path, Line: second.Line, Text: "a second YAML document: write one"}
	}
	return nil
}
