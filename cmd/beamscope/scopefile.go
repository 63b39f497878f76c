package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/beamscope/beamscope/internal/config"
)

// readScope reads a scope file, or standard input where the name is "-". Waiting for
// standard input ends with the context. Paths in what comes from there are relative to
// the working directory.
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

// scopePath returns the path of a scope file, where changes are saved; "" where it came
// from standard input.
func scopePath(name string) string {
	if name == stdinName {
		return ""
	}
	return name
}

// readAll reads to the end, most bytes at most.
func readAll(ctx context.Context, r io.Reader, most int) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() { // which ends with the program where nothing comes
		data, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
		done <- result{data, err}
	}()
	select {
	case <-ctx.Done():
		return nil, errors.New("was not read to its end")
	case got := <-done:
		if got.err == nil && len(got.data) > most {
			return nil, fmt.Errorf("is longer than %d KiB", most>>10)
		}
		return got.data, got.err
	}
}
