package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/dtrace"
)

// ErrInvalid is wrapped by every error about the contents of a scope file.
var ErrInvalid = errors.New("invalid configuration")

// An Error says what is wrong with a scope file, and where.
type Error struct {
	File string // "" where it concerns a configuration that is in no file
	Line int    // from 1; 0 where it concerns the whole file
	Path string // of the key, "outcomes.worker_1.dmax"; "" where there is none
	Text string // what is wrong and what to do

	// Expr is set where an expression cannot be read.
	Expr *dtrace.SyntaxError
}

// Error returns "file:line: path: text", and for an expression two lines more: the
// expression, and a mark under the character that is wrong.
func (e *Error) Error() string { return place(e.File, e.Line, e.Path) + e.Text }

// Unwrap returns [ErrInvalid] and the error of the expression.
func (e *Error) Unwrap() []error {
	if e.Expr == nil {
		return []error{ErrInvalid}
	}
	return []error{ErrInvalid, e.Expr}
}

// place returns "file:line: path: ", without what there is none of.
func place(file string, line int, path string) string {
	if line > 0 {
		file += fmt.Sprintf(":%d", line)
	}
	s := ""
	for _, part := range []string{file, path} {
		if part != "" {
			s += part + ": "
		}
	}
	return s
}

// A DiagramError is all that is wrong with an outcome diagram.
type DiagramError struct {
	Errs diagram.Errors

	// prefix returns what stands before an error at a place of the diagram: where
	// to look for it.
	prefix func(diagram.Pos) string
}

// Error is each error below the other, with the line of the diagram and carets
// under what is wrong. Each begins with its place, as editors read it:
// "system.dq:3:7: …", or "scope.yaml:12: diagram: …" for a diagram in a scope file.
func (e *DiagramError) Error() string {
	texts := make([]string, len(e.Errs))
	for i, err := range e.Errs {
		_, text, _ := strings.Cut(err.Error(), ": ") // behind line and column
		texts[i] = e.prefix(err.Pos) + text
	}
	return strings.Join(texts, "\n")
}

// Unwrap returns [ErrInvalid] and the errors without the name of a file.
func (e *DiagramError) Unwrap() []error { return []error{ErrInvalid, e.Errs} }
