package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/files/recording"
	"github.com/beamscope/beamscope/internal/host/safetext"
	"github.com/beamscope/beamscope/internal/ui/dashboard"
)

func newReplayCommand() *cobra.Command {
	var path string
	var speed float64
	var json, headless bool
	cmd := &cobra.Command{
		Use:   "replay run.bsr [-c scope.yaml]",
		Short: "Replay the frames of a recording",
		Long: `Replays the frames of a recording or snapshot, unchanged or with the diagram, QTAs
and triggers of another scope file. Windows and grids stay as recorded.

In a terminal it shows them on the dashboard: f pauses and continues there, [ and ]
change the speed.`,
		Args: oneArgument("the recording"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !(speed >= 0) || math.IsInf(speed, 1) {
				return usageError(cmd, fmt.Errorf("--speed %v: want 0 or more", speed))
			}
			if !cmd.Flags().Changed("speed") && term.IsTerminal(int(os.Stdout.Fd())) {
				speed = 1
			}
			r := session.Replay{Speed: speed}
			if path != "" {
				c, err := readScope(cmd.Context(), path)
				if err != nil {
					return err
				}
				r.Config = &c
			}
			if !headless && !json && atTerminal() {
				in, err := recordingIn(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return look(cmd.Context(), in, r, dashboard.Options{Title: filepath.Base(args[0]), Path: scopePath(path)})
			}
			in, err := recording.Open(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			defer in.Close()
			err = replay(cmd.Context(), r, in, in.Header, printerFor(json, cmd.OutOrStdout()), cmd.ErrOrStderr())
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&path, "config", "c", "", "scope file to use instead of the recorded one")
	cmd.Flags().Float64Var(&speed, "speed", 0, "speed relative to the recording, 0: as fast as possible (in a terminal 1)")
	cmd.Flags().BoolVar(&json, "json", false, "print one JSON object a line for each window and outcome")
	cmd.Flags().BoolVar(&headless, "headless", false, "print text frames in a terminal as well")
	return cmd
}

// replay prints the frames of a recording, up to damage if there is any. It returns
// the first error: an output that fails would fail again when it is closed.
func replay(ctx context.Context, r session.Replay, in session.Entries, h recording.Header, p printer, log io.Writer) error {
	began(log, h)
	out := newFramePrinter(p, log)
	out.wall = wallOf(h)
	r.Observers = append(r.Observers, scope.Observer(out))
	r.Notify = out.notify
	err := r.Play(ctx, in)
	if closeErr := p.Close(); err == nil {
		err = closeErr
	}
	return err
}

// wallOf returns a function that converts times of CLOCK_MONOTONIC from a recording to wall time.
func wallOf(h recording.Header) func(int64) time.Time {
	return func(ns int64) time.Time { return h.Time.Add(time.Duration(ns - h.Monotonic)) }
}

// began describes the origin of a recording.
func began(w io.Writer, h recording.Header) {
	safetext.Fprintf(w, "%s; it begins %s\n", h.Note, h.Time.Local().Format("2006-01-02 15:04:05 MST"))
}
