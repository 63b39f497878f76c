package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/recording"
)

func newRecordCommand() *cobra.Command {
	var f observeFlags
	var path string
	var force bool
	cmd := &cobra.Command{
		Use:   "record -c scope.yaml -o run.bsr",
		Short: "Observe running Erlang VMs and keep what was seen in a file",
		Long: `Observes as run does and writes what was seen to a file, which replay makes the
same frames of. What fires is printed meanwhile.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			if path == "" {
				return usageError(cmd, errors.New("no file to write: give one with -o run.bsr"))
			}
			c, err := f.load()
			if err != nil {
				return err
			}
			p := printer(silent{cmd.OutOrStdout()})
			if f.json {
				p = printerFor(true, cmd.OutOrStdout())
			}
			return recorded(path, force, cmd.ErrOrStderr(), func(w *recording.Writer) error {
				return observe(cmd.Context(), c, observation{duration: f.duration, printer: p, record: w, reload: f.load}, cmd.ErrOrStderr())
			})
		},
	}
	f.register(cmd)
	cmd.Flags().StringVarP(&path, "output", "o", "", "file to write")
	cmd.Flags().BoolVar(&force, "force", false, "overwrite the file if it is there")
	return cmd
}

// recorded runs do with a recording to write to, and says how large it has become.
func recorded(path string, force bool, log io.Writer, do func(*recording.Writer) error) error {
	now := monotonic.Now()
	w, err := recording.Create(path, force, recording.Header{
		Time:      monotonic.Wall(now).UTC(),
		Monotonic: now,
		Note:      recordedNow(),
		Facts:     recording.Host(),
	})
	if err != nil {
		return err
	}
	err = do(w)
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	fmt.Fprintf(log, "recorded to %s\n", path)
	return nil
}

// recordedNow says where and when something was recorded.
func recordedNow() string {
	return fmt.Sprintf("recorded %s on %s/%s", time.Now().UTC().Format(time.DateOnly), runtime.GOOS, runtime.GOARCH)
}
