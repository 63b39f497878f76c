package main

import (
	"context"
	"fmt"
	"io"

	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/files/pipe"
)

// stdinName is the argument that stands for standard input.
const stdinName = "-"

// readDiagram reads the diagram in a file, or from stdin for the name "-". It returns a
// [*config.DiagramError] for an invalid diagram.
func readDiagram(ctx context.Context, name string, stdin io.Reader) (file *diagram.File, source string, err error) {
	source, err = readSource(ctx, name, stdin)
	if err != nil {
		return nil, "", err
	}
	file, err = config.ParseDiagram(shownName(name), source)
	if err != nil && isScopeFile(name, source) {
		err = &config.Error{File: shownName(name), Text: "not an outcome diagram, such as a = b -> c; it looks like a scope file: write the diagram in it to a file of its own"}
	}
	return file, source, err
}

// isScopeFile reports whether an invalid diagram is probably a scope file.
func isScopeFile(name, source string) bool {
	_, err := config.Parse(shownName(name), []byte(source))
	return err == nil
}

// readSource reads a source, and stops when that is too long. Waiting for standard input ends with
// the context.
func readSource(ctx context.Context, name string, stdin io.Reader) (string, error) {
	if name != stdinName {
		file, err := pipe.Open(ctx, name)
		if err != nil {
			return "", err
		}
		defer file.Close()
		stdin = file
	}
	source, err := readSome(ctx, stdin, diagram.MaxSource+1)
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
