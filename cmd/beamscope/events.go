package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/files/pipe"
)

// checkFrom rejects flags that cannot be combined with --from.
func (f observeFlags) checkFrom(cmd *cobra.Command) error {
	switch {
	case !cmd.Flags().Changed("from"):
		return nil
	case f.config == stdinName && cmd.Flags().Lookup("from").Value.String() == stdinName:
		return usageError(cmd, errors.New("--from - and -c -: standard input cannot be both: name a file for one of them"))
	case f.pid != 0:
		return usageError(cmd, errors.New("--from and --pid: give one of them; --from reads events from a script and attaches to no VM"))
	case cmd.Flags().Changed("limit"):
		return usageError(cmd, errors.New("--from and --limit: give one of them; beamscope does not control what a script costs"))
	case f.wait:
		return usageError(cmd, errors.New("--from and --wait: give one of them; --from reads events from a script and looks for no VM"))
	case f.explain:
		return usageError(cmd, errors.New("--from and --explain: give one of them; the events of a script do not explain spans"))
	case f.config == "":
		return usageError(cmd, errors.New("--from: give the scope file from which the script was made, with -c scope.yaml"))
	}
	return nil
}

// openEvents opens the output of a script. The output in a regular file is from another time.
func openEvents(ctx context.Context, name string) (*session.Script, error) {
	if name == stdinName {
		return openStdin()
	}
	file, err := pipe.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	recorded, err := isRegular(file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &session.Script{Text: file, Recorded: recorded}, nil
}

// openStdin opens standard input so that closing it ends a blocked read.
func openStdin() (*session.Script, error) {
	if term.IsTerminal(int(os.Stdin.Fd())) {
		return nil, errors.New("--from -: standard input is a terminal: pipe the output of a script into it")
	}
	recorded, err := isRegular(os.Stdin)
	if err != nil || recorded {
		return &session.Script{Text: os.Stdin, Recorded: recorded}, err
	}
	fd := int(os.Stdin.Fd())
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	file := os.NewFile(uintptr(fd), shownName(stdinName))
	return &session.Script{Text: waitable{file}}, nil
}

// A waitable is a non-blocking file. Other programs that have it open do not expect that, so
// Close makes it blocking again.
type waitable struct{ *os.File }

// Close implements [io.Closer].
func (w waitable) Close() error {
	var restored error
	raw, err := w.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { restored = unix.SetNonblock(int(fd), false) })
	}
	return errors.Join(err, restored, w.File.Close())
}

var _ io.ReadCloser = waitable{}

// isRegular reports whether a file is a regular file, and not a pipe for example. It returns an
// error for a file that cannot be read as text.
func isRegular(file *os.File) (bool, error) {
	info, err := file.Stat()
	if err != nil {
		return false, err
	}
	if info.IsDir() {
		return false, fmt.Errorf("%s: a folder, not the output of a script", file.Name())
	}
	return info.Mode().IsRegular(), nil
}
