package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/beamscope/beamscope/diagram"
)

// stdinName is the argument that stands for standard input.
const stdinName = "-"

// readDiagram reads the diagram in a file, or in stdin where the name is "-". It
// returns a [*diagramError] for one that is wrong.
func readDiagram(name string, stdin io.Reader) (file *diagram.File, source string, err error) {
	source, err = readSource(name, stdin)
	if err != nil {
		return nil, "", err
	}
	file, err = diagram.Parse(source)
	var errs diagram.Errors
	if errors.As(err, &errs) {
		return nil, "", &diagramError{name: shownName(name), errs: errs}
	}
	return file, source, err
}

// readSource reads no more than it takes to see that a source is too long.
func readSource(name string, stdin io.Reader) (string, error) {
	if name != stdinName {
		file, err := os.Open(name)
		if err != nil {
			return "", err
		}
		defer file.Close()
		stdin = file
	}
	source, err := io.ReadAll(io.LimitReader(stdin, diagram.MaxSource+1))
	if err != nil {
		return "", fmt.Errorf("%s: %w", shownName(name), err)
	}
	return string(source), nil
}

func shownName(name string) string {
	if name == stdinName {
		return "standard input"
	}
	return name
}

// A diagramError is all that is wrong with the diagram in a file.
type diagramError struct {
	name string
	errs diagram.Errors
}

// Error is each error with its place, file:line:column, as editors read it.
func (e *diagramError) Error() string {
	texts := make([]string, len(e.errs))
	for i, err := range e.errs {
		texts[i] = e.name + ":" + err.Error()
	}
	return strings.Join(texts, "\n")
}

// Unwrap is the errors without the name of the file.
func (e *diagramError) Unwrap() error { return e.errs }
