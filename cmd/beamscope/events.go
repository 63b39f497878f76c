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

	"github.com/beamscope/beamscope/internal/pipe"
	"github.com/beamscope/beamscope/internal/session"
)

// checkFrom refuses what --from does not go together with.
func (f observeFlags) checkFrom(cmd *cobra.Command) error {
	switch {
	case !cmd.Flags().Changed("from"):
		return nil
	case f.config == stdinName && cmd.Flags().Lookup("from").Value.String() == stdinName:
		return usageError(cmd, errors.New("--from - and -c -: standard input cannot be both: name a file for one of them"))
	case f.pid != 0:
		return usageError(cmd, errors.New("--from and --pid: nothing is attached to where the events come from a script"))
	case cmd.Flags().Changed("limit"):
		return usageError(cmd, errors.New("--from and --limit: it costs no VM anything where the events come from a script"))
	case f.wait:
		return usageError(cmd, errors.New("--from and --wait: no VM is looked for where the events come from a script"))
	case f.explain:
		return usageError(cmd, errors.New("--from and --explain: spans are explained where they are observed, and not where the events come from a script"))
	case f.config == "":
		return usageError(cmd, errors.New("--from: give the scope file that the script was made of, with -c scope.yaml"))
	}
	return nil
}

// openEvents opens the output of a script. What is in a file is of another time.
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

// openStdin opens standard input, so that it can be closed while somebody waits for
// what comes.
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

// A waitable is a file that does not block, which others that have it open do not
// expect. So it is made to block again in the end.
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

// isRegular reports whether a file is one in a folder, and not a pipe or the like. What
// cannot be read as a text is refused.
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
