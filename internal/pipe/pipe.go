// Package pipe opens files that may be pipes with names, without waiting longer for their
// other ends than somebody wants to.
package pipe

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/internal/trusted"
)

// Open opens a file for reading. Where it is a pipe that nobody has open for writing, it
// waits for somebody, or until the context is done: then the error is the context's cause.
// What is read of a pipe ends with the context, too.
func Open(ctx context.Context, name string) (*os.File, error) {
	return OpenFile(ctx, name, os.O_RDONLY)
}

// OpenFile is [Open] with flags of os.OpenFile, of a file that exists. A path through links is
// followed as [trusted.Open] does.
func OpenFile(ctx context.Context, name string, flags int) (*os.File, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	type result struct {
		file *os.File
		err  error
	}
	opened := make(chan result, 1)
	go func() {
		file, err := trusted.Open(name, flags)
		opened <- result{file, err}
	}()
	select {
	case r := <-opened:
		if r.err == nil && isPipe(r.file) {
			context.AfterFunc(ctx, func() { _ = r.file.Close() }) // whoever reads or writes gets an error
		}
		return r.file, r.err
	case <-ctx.Done():
	}
	// The other end is opened, for both ends at a time can always be: nobody waits any more.
	other, err := trusted.Open(name, os.O_RDWR|unix.O_NONBLOCK)
	if err == nil {
		if r := <-opened; r.err == nil {
			err = r.file.Close()
		}
		err = errors.Join(err, other.Close())
	}
	return nil, errors.Join(context.Cause(ctx), err)
}

// isPipe reports whether a file is a pipe.
func isPipe(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode().Type() == os.ModeNamedPipe
}
