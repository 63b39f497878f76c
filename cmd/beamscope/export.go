package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/files/atomicfile"
	"github.com/beamscope/beamscope/internal/files/export"
	"github.com/beamscope/beamscope/internal/files/recording"
	"github.com/beamscope/beamscope/internal/files/snapshot"
	"github.com/beamscope/beamscope/internal/host/safetext"
	"github.com/beamscope/beamscope/internal/ui/plot"
)

// exportFlags are the values of the command's flags.
type exportFlags struct {
	output, format string
	window         string
	probes         []string
	log            bool
	from, to       time.Duration
	size           string
	force          bool
	shown          map[plot.Role]*bool

	snapshotFlags
}

func newExportCommand() *cobra.Command {
	f := exportFlags{shown: make(map[plot.Role]*bool)}
	cmd := &cobra.Command{
		Use:   "export run.bsr|SNAPSHOT -o FILE.svg|.png|.csv|.json",
		Short: "Make pictures, or figures for other programs, of a recording or snapshot",
		Long: `Makes a picture of a window of a recording or snapshot, as SVG or PNG: a plot for each
probe. As CSV and JSON it writes the curves of all windows, or of one. A snapshot is named by
its number in beamscope snapshots list, the beginning of its file's name, or its path.

--window is a number as in "window 15", a time within the window such as 04:41:20.454, fired
for the first window in which a trigger fired, or last for the last in which anything is known.
Without it a picture is of the window that fired the snapshot, or of the last one.`,
		Example: `  beamscope export run.bsr -o last.svg
  beamscope export 1 -o incident.png --outcome checkout --log
  beamscope export run.bsr -o run.csv`,
		Args: oneArgument("a recording, or a snapshot by its number in beamscope snapshots list"),
		RunE: func(cmd *cobra.Command, args []string) error {
			job, err := f.job(cmd)
			if err != nil {
				return usageError(cmd, err)
			}
			return job.run(cmd.Context(), &f, args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&f.output, "output", "o", "", "file to write; - is standard output")
	flags.StringVar(&f.format, "format", "", "svg, png, csv or json (default: what the file's extension says)")
	flags.StringVar(&f.window, "window", "", "NUMBER, TIME, fired or last")
	flags.StringArrayVar(&f.probes, "outcome", nil, "an outcome to export, may be repeated (default: all outcomes with data)")
	for _, r := range slices.Backward(plot.Roles()) {
		if r != plot.Earlier {
			name := strings.ReplaceAll(r.String(), " ", "-")
			f.shown[r] = flags.Bool(name, true, "the curve \""+r.String()+"\"; --"+name+"=false leaves it out")
		}
	}
	flags.BoolVar(&f.log, "log", false, "pictures: a logarithmic axis of delays")
	flags.Var(delayFlag{&f.from}, "from", "pictures: least delay shown")
	flags.Var(delayFlag{&f.to}, "to", "pictures: greatest delay shown (default: a tenth more than dMax)")
	flags.StringVar(&f.size, "size", "", "pictures: WIDTHxHEIGHT in pixels (default: what suits the number of plots)")
	flags.BoolVar(&f.force, "force", false, "overwrite an existing file")
	flags.StringVarP(&f.config, "config", "c", "", "scope file to use instead of the recorded one")
	flags.StringVar(&f.dir, "dir", "", "folder of the snapshots (default snapshots, or what the scope file says)")
	return cmd
}

// An exportJob is the task that the flags define.
type exportJob struct {
	format        export.Format
	output        string // a file, or "" for standard output
	window        windowChoice
	every         bool // all windows, regardless of window
	probes        []string
	axis          plot.Axis
	width, height int
	hidden        []plot.Role
}

// job checks the flags and returns the job.
func (f *exportFlags) job(cmd *cobra.Command) (*exportJob, error) {
	j := &exportJob{probes: f.probes, axis: plot.Axis{From: f.from, To: f.to, Log: f.log}}
	if f.output != "-" {
		j.output = f.output
	}
	var err error
	switch {
	case f.format != "":
		j.format, err = export.ParseFormat(f.format)
	case j.output != "":
		j.format, err = export.FormatOf(j.output)
	default:
		err = errors.New("no file to write: give one with -o FILE.svg, .png, .csv or .json, or a --format for standard output")
	}
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"log", "from", "to", "size"} {
		if cmd.Flags().Changed(name) && !j.format.Image() {
			return nil, fmt.Errorf("--%s is about pictures, not %v", name, j.format)
		}
	}
	if err := f.checkAxis(cmd); err != nil {
		return nil, err
	}
	if j.width, j.height, err = parseSize(f.size); err != nil {
		return nil, err
	}
	for _, r := range plot.Roles() {
		if shown := f.shown[r]; shown != nil && !*shown {
			j.hidden = append(j.hidden, r)
		}
	}
	if len(j.hidden) == len(f.shown) {
		return nil, errors.New("every curve is left out")
	}
	j.every = f.window == "" && !j.format.Image()
	j.window, err = parseWindow(f.window)
	return j, err
}

func (f *exportFlags) checkAxis(cmd *cobra.Command) error {
	changed := cmd.Flags().Changed
	switch {
	case f.from < 0:
		return fmt.Errorf("--from %v: less than 0", f.from)
	case changed("to") && f.to <= f.from:
		return fmt.Errorf("--to %v: not more than --from %v", f.to, f.from)
	case f.log && changed("from") && f.from == 0:
		return errors.New("--from 0: a logarithmic axis does not have it")
	}
	return nil
}

// parseSize parses WIDTHxHEIGHT; an empty text is 0, 0.
func parseSize(text string) (width, height int, err error) {
	if text == "" {
		return 0, 0, nil
	}
	var rest string
	n, _ := fmt.Sscanf(text+" .", "%dx%d %s", &width, &height, &rest)
	if n != 3 || rest != "." || min(width, height) < export.MinSize || max(width, height) > export.MaxSize {
		return 0, 0, fmt.Errorf("--size %s: not WIDTHxHEIGHT, each from %d to %d pixels", text, export.MinSize, export.MaxSize)
	}
	return width, height, nil
}

// run exports the recording or snapshot with a name.
func (j *exportJob) run(ctx context.Context, f *exportFlags, name string, out, log io.Writer) error {
	if err := export.CheckFree(j.output, f.force); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: choose another name, or --force to write over it", err)
	}
	if j.output != "" {
		if err := atomicfile.Check(j.output); err != nil {
			return err
		}
	}
	replay := session.Replay{Notify: func(n outcome.Notice) { safetext.Fprintln(log, n.Text) }}
	if f.config != "" {
		c, err := f.scope(ctx)
		if err != nil {
			return err
		}
		replay.Config = &c
	}
	in, err := f.open(ctx, name, log)
	if err != nil {
		return err
	}
	defer in.Close()
	replay.First = in.first
	j.window = j.window.of(in.fired >= 0)
	e := &exporter{job: j, input: in, log: log}
	return e.export(ctx, replay, out)
}

// An input is a recording or a snapshot to export.
type input struct {
	*recording.Reader
	path    string
	first   uint64 // number of its first window
	prelude uint64 // windows that only serve the history
	fired   int64  // index of the window with the trigger of the snapshot, -1 for a recording
	cause   string // why the snapshot was made, "" for a recording
}

// open opens a file with this name, or else a snapshot in the folder of the snapshots. It logs
// which snapshot it is.
func (f *exportFlags) open(ctx context.Context, name string, log io.Writer) (*input, error) {
	path := name
	if info, err := os.Stat(name); filepath.Base(name) == name && (err != nil || !info.Mode().IsRegular()) {
		dir, err := f.folder(ctx)
		if err != nil {
			return nil, err
		}
		if path, err = snapshot.Find(dir, name); err != nil && filepath.Ext(name) == ".bsr" {
			path = name // opening it will report that it does not exist
		} else if errors.Is(err, snapshot.ErrNotFound) && f.dir == "" {
			return nil, noRecording(name, err)
		} else if err != nil {
			return nil, err
		}
	}
	s, err := snapshot.Open(ctx, path)
	if err == nil {
		saySnapshot(log, path, s)
		return &input{s.Reader, path, s.Snapshot.First, s.Snapshot.Prelude, int64(s.Snapshot.Trigger()), causeOf(s.Causes[0])}, nil
	}
	if !errors.Is(err, snapshot.ErrNotSnapshot) {
		return nil, err
	}
	r, err := recording.Open(ctx, path)
	return &input{Reader: r, path: path, fired: -1}, err
}
