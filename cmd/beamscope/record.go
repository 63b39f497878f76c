package main

import (
	"errors"
	"fmt"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/recording"
	"github.com/beamscope/beamscope/internal/scope"
)

func newRecordCommand() *cobra.Command {
	var f observeFlags
	var path string
	var force bool
	cmd := &cobra.Command{
		Use:   "record [-c scope.yaml] -o run.bsr",
		Short: "Observe running Erlang VMs and keep what was seen in a file",
		Long: `Observes as run does and writes what was seen to a file, which replay makes the
same frames of. What fires is printed meanwhile. Without a scope file it finds VMs
and spans by itself.`,
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
			signal.Ignore(syscall.SIGPIPE) // the recording is what counts
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
	cmd.Flags().BoolVar(&force, "force", false, "overwrite the file if it is there")
	return cmd
}

// byTheWay is a printer whose errors do not matter.
type byTheWay struct{ printer }

func (b byTheWay) Frame(f *scope.Frame) error {
	_ = b.printer.Frame(f)
	return nil
}

func (b byTheWay) Close() error {
	_ = b.printer.Close()
	return nil
}

// A recordFile is where to record to; "" is nowhere.
type recordFile struct {
	path  string
	force bool // write over what is there
}

// create returns what makes the recording, and says so; nil for none.
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

// recordedNow says where and when something was recorded.
func recordedNow() string {
	return fmt.Sprintf("recorded %s on %s/%s", time.Now().UTC().Format(time.DateOnly), runtime.GOOS, runtime.GOARCH)
}
