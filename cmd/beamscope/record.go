package main

import (
	"errors"
	"fmt"
	"io"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/recording"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/host/safetext"
)

func newRecordCommand() *cobra.Command {
	var f observeFlags
	var path string
	var force bool
	cmd := &cobra.Command{
		Use:   "record [-c scope.yaml] -o run.bsr",
		Short: "Observe running Erlang VMs and record the observation in a file",
		Long: `Observes as run does and records the observation in a file. replay makes the same
frames from it. Meanwhile record prints which triggers fire. Without a scope file it
finds VMs and spans by itself.`,
		Args: f.noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			if path == "" {
				return usageError(cmd, errors.New("no file to write: give one with -o run.bsr"))
			}
			c, err := f.load(cmd.Context())
			if err != nil {
				return err
			}
			if err := recording.Check(path, force); err != nil {
				return err
			}
			p := printer(silent{cmd.OutOrStdout()})
			if f.json {
				p = printerFor(true, cmd.OutOrStdout())
			}
			signal.Ignore(syscall.SIGPIPE) // the recording matters more than the output
			o, c, err := f.observation(c)
			if err != nil {
				return err
			}
			o.printer, o.record, o.reload = byTheWay{p}, recordFile{path, force}, f.reload()
			return o.advise(observe(cmd.Context(), c, o, cmd.ErrOrStderr()))
		},
	}
	f.register(cmd)
	cmd.Flags().StringVarP(&path, "output", "o", "", "file to write")
	cmd.Flags().BoolVar(&force, "force", false, "overwrite the file if it exists")
	return cmd
}

// byTheWay is a printer whose errors are ignored.
type byTheWay struct{ printer }

func (b byTheWay) Frame(f *scope.Frame) error {
	_ = b.printer.Frame(f)
	return nil
}

func (b byTheWay) Close() error {
	_ = b.printer.Close()
	return nil
}

// A recordFile is the file of a recording; "" means no recording.
type recordFile struct {
	path  string
	force bool // replace an existing file
}

// create returns a function that creates the recording and reports it, or nil for no recording.
func (f recordFile) create(say func(outcome.Notice)) func() (*recording.Writer, error) {
	if f.path == "" {
		return nil
	}
	return func() (*recording.Writer, error) {
		now := monotonic.Now()
		w, err := recording.Create(f.path, f.force, recording.Header{
			Time:      monotonic.Wall(now).UTC(),
			Monotonic: now,
			Note:      recordedNow(),
			Facts:     recording.Host(),
		})
		if err == nil {
			say(outcome.Notice{Text: "recording to " + f.path})
		}
		return w, err
	}
}

// sayWritten logs the number of windows in a complete recording.
func (f recordFile) sayWritten(windows int, log io.Writer) {
	switch {
	case f.path == "" || windows == 0:
	case windows == 1:
		safetext.Fprintf(log, "recorded 1 window to %s\n", f.path)
	default:
		safetext.Fprintf(log, "recorded %d windows to %s\n", windows, f.path)
	}
}

// recordedNow returns a note about the place and time of a recording.
func recordedNow() string {
	return fmt.Sprintf("recorded %s on %s/%s", time.Now().UTC().Format(time.DateOnly), runtime.GOOS, runtime.GOARCH)
}
