package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/host/safetext"
)

// ErrInvalid is wrapped by every error about the contents of a scope file.
var ErrInvalid = errors.New("invalid configuration")

// An Error is an error in a scope file, with its place.
type Error struct {
	File string // "" if the configuration comes from no file
	Line int    // from 1; 0 for the whole file
	Path string // path of the key, "outcomes.worker_1.dmax"; "" for no key
	Text string // the error, and advice

	// Expr is set if an expression cannot be parsed.
	Expr *dtrace.SyntaxError
}

// Error returns "file:line: path: text". For an expression it adds two lines: the expression, and
// a mark below the wrong character.
func (e *Error) Error() string { return place(e.File, e.Line, e.Path) + e.Text }

// Unwrap returns [ErrInvalid] and the error of the expression.
func (e *Error) Unwrap() []error {
	if e.Expr == nil {
		return []error{ErrInvalid}
	}
	return []error{ErrInvalid, e.Expr}
}

// place returns "file:line: path: ", without the parts that are missing. Control characters of the
// file's name are escaped, and long keys are shortened.
func place(file string, line int, path string) string {
	file = safetext.Line(file)
	if line > 0 {
		file += fmt.Sprintf(":%d", line)
	}
	keys := strings.Split(path, ".")
	for i := range keys {
		keys[i] = shortened(keys[i])
	}
	path = strings.Join(keys, ".")
	s := ""
	for _, part := range []string{file, path} {
		if part != "" {
			s += part + ": "
		}
	}
	return s
}

// A DiagramError contains all errors of an outcome diagram.
type DiagramError struct {
	Errs diagram.Errors

	// prefix returns the text before an error at a place of the diagram, which shows where to
	// look.
	prefix func(diagram.Pos) string
}

// Error returns all errors below each other, each with the line of the diagram and carets below
// the wrong text. Each begins with its place in a form that editors understand: "system.dq:3:7:
// …", or "scope.yaml:12: diagram: …" for a diagram in a scope file.
func (e *DiagramError) Error() string {
	texts := make([]string, len(e.Errs))
	for i, err := range e.Errs {
		texts[i] = e.prefix(err.Pos) + err.Excerpt()
	}
	return strings.Join(texts, "\n")
}

// Unwrap returns [ErrInvalid] and the errors without the name of a file.
func (e *DiagramError) Unwrap() []error { return []error{ErrInvalid, e.Errs} }
