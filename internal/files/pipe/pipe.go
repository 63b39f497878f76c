// Package pipe opens files that may be pipes with names, and waits for their writers no
// longer than a context allows.
package pipe

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/internal/files/trusted"
)

// Open opens a file for reading and follows links as [trusted.Open] does. If the file is a pipe
// that nobody has written to, Open waits for a writer, or until the context is done: then the error
// is the context's cause. The context also ends reads from a pipe.
//
// Opening the file never waits, and Open checks the type of the open file. So nobody can make Open
// wait longer by replacing a file with a pipe, or a pipe with a file.
func Open(ctx context.Context, name string) (*os.File, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	file, err := trusted.Open(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if info.Mode().Type() != os.ModeNamedPipe {
		return file, nil
	}
	context.AfterFunc(ctx, func() { _ = file.Close() }) // pending reads and opens then fail
	if err := awaitWriter(file); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// awaitWriter waits until a pipe has data, or its last writer has closed it. Without this, a read
// from a pipe that has had no writer yet would return EOF.
func awaitWriter(file *os.File) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
	})
}
