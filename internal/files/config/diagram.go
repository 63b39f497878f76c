package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/internal/host/safetext"
)

// ParseDiagram parses the outcome diagram of a separate file, whose name is for messages. It
// returns a [*DiagramError] if the diagram is invalid.
func ParseDiagram(name, source string) (*diagram.File, error) {
	return parseDiagram(source, inFile(name))
}

// LoadDiagram returns the contents of a file with an outcome diagram, which may be invalid. It
// returns an [*Error].
func LoadDiagram(path string) (source string, err error) {
	data, err := readFile(path)
	if err != nil {
		return "", &Error{File: path, Text: err.Error()}
	}
	return string(data), nil
}

// inFile returns a function that converts a place in the diagram of a separate file to text.
func inFile(name string) func(diagram.Pos) string {
	return func(at diagram.Pos) string { return fmt.Sprintf("%s:%d:%d: ", safetext.Line(name), at.Line, at.Column) }
}

func parseDiagram(source string, prefix func(diagram.Pos) string) (*diagram.File, error) {
	file, err := diagram.Parse(source)
	var errs diagram.Errors
	if errors.As(err, &errs) {
		return nil, &DiagramError{errs, prefix}
	}
	return file, err
}

// A composition describes the names of a diagram.
type composition struct {
	file       *diagram.File
	names      []string // without repetitions: definitions and operators, then outcomes
	calculated map[string]bool
}

func compose(file *diagram.File) (composition, error) {
	program, err := diagram.Compile(file)
	if err != nil {
		return composition{}, err
	}
	c := composition{file: file, names: program.Names(), calculated: make(map[string]bool)}
	for _, name := range c.names {
		c.calculated[name] = true
	}
	c.names = append(c.names, file.Outcomes()...)
	return c, nil
}

// diagram reads the source of the diagram. file is the name of its file, or "" if it is in the
// scope file.
func (r *reader) diagram(v value) (source, file string, err error) {
	source, err = r.text(v)
	if err != nil {
		return "", "", err
	}
	if name := strings.TrimSpace(source); isFileName(name) {
		file = name
		if source, err = r.diagramFile(v, name); err != nil {
			return "", "", err
		}
	} else if r.composition.file, err = parseDiagram(source, r.inScopeFile(v)); err != nil {
		return "", "", err
	}
	return source, file, r.compose(v)
}

// isFileName distinguishes the name of a diagram's file from a diagram.
func isFileName(text string) bool {
	return filepath.Ext(text) == ".dq" && !strings.ContainsAny(text, "=\n")
}

func (r *reader) diagramFile(v value, name string) (source string, err error) {
	path := inDir(r.dir, name)
	data, err := r.open(path)
	if err != nil {
		return "", r.errorf(v, "%s %v", shown(v.node), err)
	}
	r.composition.file, err = ParseDiagram(path, string(data))
	return string(data), err
}

// inScopeFile returns a function that converts a place in a diagram to text with the line of the
// scope file. Only in a literal block are the diagram's lines those of the file.
func (r *reader) inScopeFile(v value) func(diagram.Pos) string {
	if r.file == "" {
		return inFile(v.path)
	}
	return func(at diagram.Pos) string {
		line := v.node.Line
		if v.node.Style&yaml.LiteralStyle != 0 {
			line += at.Line
		}
		return place(r.file, line, v.path)
	}
}

// compose checks that every name of the diagram can be an outcome.
func (r *reader) compose(v value) (err error) {
	if r.composition, err = compose(r.composition.file); err != nil {
		return r.errorf(v, "%v", err)
	}
	for _, name := range r.composition.names {
		if len(name) > bpf.MaxNameLen {
			return r.errorf(v, "the name %s… is too long: an outcome's has at most %d bytes", cut(name, 20), bpf.MaxNameLen)
		}
	}
	return nil
}

// inDir returns the path of a file whose name is relative to a folder.
func inDir(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}
