package main

import (
	"context"
	"fmt"
	"io"

	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/internal/config"
	"github.com/beamscope/beamscope/internal/pipe"
)

// stdinName is the argument that stands for standard input.
const stdinName = "-"

// readDiagram reads the diagram in a file, or in stdin where the name is "-". It
// returns a [*config.DiagramError] for one that is wrong.
func readDiagram(ctx context.Context, name string, stdin io.Reader) (file *diagram.File, source string, err error) {
	source, err = readSource(ctx, name, stdin)
	if err != nil {
		return nil, "", err
	}
	file, err = config.ParseDiagram(shownName(name), source)
	return file, source, err
}

// readSource reads no more than it takes to see that a source is too long.
func readSource(ctx context.Context, name string, stdin io.Reader) (string, error) {
	if name != stdinName {
		file, err := pipe.Open(ctx, name)
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
