package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/files/export"
	"github.com/beamscope/beamscope/internal/files/recording"
	"github.com/beamscope/beamscope/internal/files/snapshot"
	"github.com/beamscope/beamscope/internal/host/safetext"
	"github.com/beamscope/beamscope/internal/ui/dashboard"
)

// snapshotFlags select the folder of the snapshots.
type snapshotFlags struct {
	dir    string
	config string

	loaded *config.Config // nil until scope has read it
}

// scope returns the configuration in the scope file, which it reads once.
func (f *snapshotFlags) scope(ctx context.Context) (config.Config, error) {
	if f.loaded == nil {
		c, err := readScope(ctx, f.config)
		if err != nil {
			return config.Config{}, err
		}
		f.loaded = &c
	}
	return *f.loaded, nil
}

func newSnapshotsCommand() *cobra.Command {
	var f snapshotFlags
	cmd := &cobra.Command{
		Use:   "snapshots",
		Short: "List and show the snapshots that triggers made",
		Args:  noCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVar(&f.dir, "dir", "", "folder of the snapshots (default snapshots, or what the scope file says)")
	cmd.PersistentFlags().StringVarP(&f.config, "config", "c", "", "scope file that names the folder")
	cmd.AddCommand(newSnapshotsListCommand(&f), newSnapshotsShowCommand(&f))
	return cmd
}

// folder returns the folder of the snapshots.
func (f *snapshotFlags) folder(ctx context.Context) (string, error) {
	if f.dir != "" || f.config == "" {
		return cmp.Or(f.dir, config.DefaultSnapshotsDir), nil
	}
	c, err := f.scope(ctx)
	return c.Path(c.Snapshots.Dir), err
}

func newSnapshotsListCommand(f *snapshotFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List snapshots, the newest first",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := f.folder(cmd.Context())
			if err != nil {
				return err
			}
			if _, err := os.Stat(dir); err != nil && f.dir != "" {
				return err
			}
			infos, err := snapshot.List(dir)
			if err != nil {
				return err
			}
			if len(infos) == 0 {
				if whole, err := filepath.Abs(dir); err == nil {
					dir = whole
				}
				hint := ""
				if f.dir == "" && f.config == "" {
					hint = ": name the folder with --dir, or give the scope file that names it with -c"
				}
				safetext.Fprintf(cmd.ErrOrStderr(), "no snapshots in %s%s\n", dir, hint)
				return nil
			}
			return listSnapshots(cmd.OutOrStdout(), infos)
		},
	}
}

func listSnapshots(w io.Writer, infos []snapshot.Info) error {
	rows := [][]string{{"#", "time", "outcome", "trigger", "windows", "KiB", "file"}}
	for _, i := range infos {
		probe, trigger, windows := "?", "?", "?"
		if len(i.Causes) > 0 {
			probe, trigger = i.Causes[0].Outcome, i.Causes[0].Trigger
			windows = export.Windows(i)
		}
		if more := len(i.Causes) - 1 + int(i.Omitted); more > 0 {
			trigger += fmt.Sprintf(" +%d", more)
		}
		rows = append(rows, []string{fmt.Sprint(i.Number), i.Time.Local().Format("2006-01-02 15:04:05.000"), probe, trigger,
			windows, fmt.Sprint((i.Size + 1023) / 1024), filepath.Base(i.Path)})
	}
	if err := export.Table(w, rows); err != nil {
		return err
	}
	for _, i := range infos {
		if i.Err != nil {
			safetext.Fprintf(w, "%d: %v\n", i.Number, i.Err)
		}
	}
	return nil
}

func newSnapshotsShowCommand(f *snapshotFlags) *cobra.Command {
	var json, all, scopeFile, headless bool
	cmd := &cobra.Command{
		Use:   "show NUMBER|NAME|PATH",
		Short: "Show a snapshot: why it was made, and what was before and after",
		Long: `Shows a snapshot, by its number in the list, the beginning of its file's name, or
its path: what fired, the windows before and after in short, and in full the one in which it
fired, with its worst instances. In a terminal it shows the dashboard, where , and . step
through the windows.`,
		Args: oneArgument("a snapshot, by its number in beamscope snapshots list"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := f.folder(cmd.Context())
			if err != nil {
				return err
			}
			path := args[0] // the name as in the message about the snapshot
			if filepath.Base(path) == path {
				if path, err = snapshot.Find(dir, path); err != nil {
					return err
				}
			}
			if !headless && !json && !all && !scopeFile && atTerminal() {
				in, err := snapshotIn(cmd.Context(), path)
				if err != nil {
					return err
				}
				return look(cmd.Context(), in, session.Replay{}, dashboard.Options{Title: "snapshot " + filepath.Base(path), Snapshots: dir})
			}
			in, err := snapshot.Open(cmd.Context(), path)
			if err != nil {
				return err
			}
			defer in.Close()
			title := cmd.OutOrStdout()
			if scopeFile || json {
				title = cmd.ErrOrStderr() // the output is for programs
			}
			saySnapshot(title, path, in)
			if scopeFile {
				return printScopeFile(cmd.OutOrStdout(), in)
			}
			show := &showing{snapshot: in, full: export.NewText(cmd.OutOrStdout()), every: all, w: cmd.OutOrStdout()}
			if json {
				show.full, show.every = export.NewJSON(cmd.OutOrStdout()), true
			} else {
				show.head()
			}
			out := newFramePrinter(show, io.Discard)
			replay := session.Replay{First: in.Snapshot.First, Observers: []scope.Observer{out}, Notify: out.notify}
			return errors.Join(replay.Play(cmd.Context(), in), show.end(json))
		},
	}
	cmd.Flags().BoolVar(&json, "json", false, "print one JSON object a line for each window and outcome")
	cmd.Flags().BoolVar(&all, "frames", false, "print every window in full")
	cmd.Flags().BoolVar(&headless, "headless", false, "print text in a terminal as well")
	cmd.Flags().BoolVar(&scopeFile, "scope", false, "print the scope file that was in force instead")
	return cmd
}

// printScopeFile prints the scope file at the beginning of a recording, with the diagram and the
// parameters.
func printScopeFile(w io.Writer, in session.Entries) error {
	entry, err := in.Next()
	if err != nil {
		return err
	}
	c, ok := entry.(*recording.Config)
	if !ok || len(c.Files) == 0 {
		return session.ErrConfig
	}
	_, err = w.Write(c.Files[0].Text)
	return err
}

// saySnapshot logs which snapshot was selected, because numbers change when there are new
// snapshots.
func saySnapshot(log io.Writer, path string, s *snapshot.Reader) {
	c := s.Causes[0]
	safetext.Fprintf(log, "%s: %s of %s, %s\n", filepath.Base(path), c.Trigger, c.Outcome, wallOf(s.Header)(c.Time).Local().Format("2006-01-02 15:04:05.000"))
}

// causeOf describes why a snapshot was made.
func causeOf(c recording.Cause) string {
	return fmt.Sprintf("snapshot %s of %s: %s", c.Trigger, c.Outcome, export.Why(c.Explanation, c.Text))
}

// showing is a printer of a snapshot's frames. It prints a line for each window, and the complete
// window of the trigger, or all windows completely.
type showing struct {
	snapshot *snapshot.Reader
	full     printer
	every    bool
	w        io.Writer
	index    uint64
	lines    [][]string
	fired    *scope.Frame
}

// head prints why the snapshot was made, beginning with where the time went.
func (s *showing) head() {
	for i, c := range s.snapshot.Causes {
		if text := export.Explanation(s.snapshot.Causes, i); text != "" {
			safetext.Fprintln(s.w, text)
		}
		safetext.Fprintf(s.w, "%s: %s of %v: %s\n", c.Trigger, c.Outcome, c.VM, c.Text)
	}
	if n := s.snapshot.Snapshot.Omitted; n > 0 {
		safetext.Fprintf(s.w, "and %d more\n", n)
	}
	if !s.snapshot.Snapshot.Complete {
		safetext.Fprintln(s.w, "the observation ended before the snapshot was complete")
	}
	safetext.Fprintln(s.w)
}

// Frame implements printer.
func (s *showing) Frame(f *scope.Frame) error {
	index := s.index
	s.index++
	if index < s.snapshot.Snapshot.Prelude {
		return nil // it only serves the history
	}
	if s.every {
		return s.full.Frame(f)
	}
	mark := ""
	if index == s.snapshot.Snapshot.Trigger() {
		mark, s.fired = "◀ fired", f.Clone()
	}
	cause := s.snapshot.Causes[0]
	for i := range f.Outcomes {
		if p := &f.Outcomes[i]; p.Name == cause.Outcome && p.VM == cause.VM {
			s.lines = append(s.lines, append(export.Summary(f, p), mark))
		}
	}
	return nil
}

// Close implements printer.
func (s *showing) Close() error { return nil }

// end prints what requires all frames.
func (s *showing) end(json bool) error {
	if s.every || json {
		return nil
	}
	if err := export.Table(s.w, append([][]string{append(export.SummaryHead(), "")}, s.lines...)); err != nil || s.fired == nil {
		return err
	}
	safetext.Fprintln(s.w)
	if err := s.full.Frame(s.fired); err != nil {
		return err
	}
	return s.worst()
}

// worst prints the worst instances of the window in which the trigger fired.
func (s *showing) worst() error {
	rows := [][]string{append([]string{"worst"}, export.WorstHead()...)}
	for i := range s.fired.Outcomes {
		p := &s.fired.Outcomes[i]
		for _, line := range export.Worst(s.fired, p) {
			rows = append(rows, append([]string{p.Name}, line...))
		}
	}
	if len(rows) == 1 {
		return nil
	}
	return export.Table(s.w, rows)
}
