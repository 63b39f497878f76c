package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/beamscope/beamscope/internal/files/config"
)

// readScope reads a scope file, or standard input for the name "-". Waiting for standard input
// ends with the context. Paths in a scope file from standard input are relative to the working
// directory.
func readScope(ctx context.Context, name string) (config.Config, error) {
	if name != stdinName {
		return config.Load(name)
	}
	if term.IsTerminal(int(os.Stdin.Fd())) {
		return config.Config{}, &config.Error{File: shownName(name), Text: "is a terminal: pipe a scope file into it"}
	}
	data, err := readAll(ctx, os.Stdin, config.MaxFile)
	if err != nil {
		return config.Config{}, &config.Error{File: shownName(name), Text: err.Error()}
	}
	return config.Parse(shownName(name), data)
}

// scopePath returns the path for saving changes to a scope file, or "" for standard input.
func scopePath(name string) string {
	if name == stdinName {
		return ""
	}
	return name
}

// readAll reads to the end. It returns an error if there are more than most bytes.
func readAll(ctx context.Context, r io.Reader, most int) ([]byte, error) {
	data, err := readSome(ctx, r, most+1)
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return nil, errors.New("was not read to its end")
	case err == nil && len(data) > most:
		return nil, fmt.Errorf("is longer than %d KiB", most>>10)
	}
	return data, err
}

// readSome reads to the end, but at most most bytes. If the context ends first, the error is its
// cause.
func readSome(ctx context.Context, r io.Reader, most int) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() { // without input this goroutine lasts until the program ends
		data, err := io.ReadAll(io.LimitReader(r, int64(most)))
		done <- result{data, err}
	}()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case got := <-done:
		return got.data, got.err
	}
}
