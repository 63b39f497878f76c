package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/files/export"
	"github.com/beamscope/beamscope/internal/files/recording"
	"github.com/beamscope/beamscope/internal/host/safetext"
	"github.com/beamscope/beamscope/internal/ui/dashboard"
)

// demoFiles contains for each synthetic system its scope file, and a recording by `beamscope demo
// SYSTEM --for 40s --record SYSTEM.bsr` for machines that cannot run the demo.
//
//go:embed mm1k.yaml mm1k.bsr ftf.yaml ftf.bsr atf.yaml atf.bsr
var demoFiles embed.FS

// A demoSystem is a synthetic system with the changes that a demonstration makes to it.
type demoSystem struct {
	name, about string
	options     string // further options with which it is started
	key         string // name of the option that changes
	calm        string // usual value of the option
	change      string // meaning of the values
	moments     []moment
}

// A moment is a situation that a demonstration can begin and end. Without a dashboard, the last
// moment of a system comes automatically.
type moment struct {
	key   rune // key on the dashboard
	label string
	value string // value of the system's option
	watch string // what the user will see
}

func demoSystems() []demoSystem {
	return []demoSystem{
		// The work is time asleep, because computing would be overload at once on a busy machine.
		{"mm1k", "two workers with queues, one after the other", "loops=0 delay=1", "rate", "400", "messages a second", []moment{
			{'n', "near overload", "800", "the mean falls behind, and its bounds widen"},
			{'b', "overload", "1500", "the queues are full: failures, and the QTA is violated"},
		}},
		{"ftf", "two workers side by side; the first to finish counts", "", "slow_2", "0", "ms longer for worker_2", []moment{
			{'b', "slow worker", "20", "worker_2 gets slower, and probe does not"},
		}},
		{"atf", "two workers side by side, which both have to finish", "", "slow_2", "0", "ms longer for worker_2", []moment{
			{'b', "slow worker", "2", "worker_2 gets slower, and so does probe"},
		}},
	}
}

// worst returns the moment that comes automatically without a dashboard.
func (s demoSystem) worst() moment { return s.moments[len(s.moments)-1] }

// knobs returns the knobs of the dashboard for the system. Each begins a moment, and ends it
// again.
func (s demoSystem) knobs(beam *erlang.VM) []dashboard.Knob {
	var mu sync.Mutex
	now := s.calm
	turn := func(ctx context.Context, m moment) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		value, said := m.value, m.watch+"; "+string(m.key)+" ends it"
		if now == value {
			value, said = s.calm, "back to normal"
		}
		if err := beam.Set(ctx, s.key, value); err != nil {
			return "", err
		}
		now = value
		return fmt.Sprintf("%s %s: %s", value, s.change, said), nil
	}
	var knobs []dashboard.Knob
	for _, m := range s.moments {
		knobs = append(knobs, dashboard.Knob{Key: m.key, Label: m.label, Turn: func(ctx context.Context) (string, error) { return turn(ctx, m) }})
	}
	return knobs
}

// intro returns the first message of the dashboard.
func (s demoSystem) intro() string {
	text := s.about
	for _, m := range s.moments {
		text += fmt.Sprintf("; %c: %s", m.key, m.label)
	}
	return text + "; ?: all keys"
}

func demoSystemNamed(name string) (demoSystem, error) {
	var names []string
	for _, s := range demoSystems() {
		if s.name == name {
			return s, nil
		}
		names = append(names, s.name)
	}
	return demoSystem{}, fmt.Errorf("no system %q: use one of %s", name, strings.Join(names, ", "))
}

func (s demoSystem) config() (config.Config, error) {
	text, err := demoFiles.ReadFile(s.name + ".yaml")
	if err != nil {
		return config.Config{}, err
	}
	return config.Parse(s.name+".yaml", text)
}

// maxRate is the highest rate that the source of a system can sustain, in messages a second.
const maxRate = 100_000

// withoutTerminal is the duration of a demonstration without a terminal, where no user can end
// it.
const withoutTerminal = 30 * time.Second

type demoFlags struct {
	rate     float64
	duration time.Duration
	record   string
	force    bool
	headless bool
	explain  bool
	stock    bool
}

func newDemoCommand() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo [mm1k|ftf|atf]",
		Short: "Show beamscope at work on a synthetic Erlang system",
		Long: `Starts an Erlang VM with a synthetic system, attaches to it and shows the dashboard,
with keys to make something go wrong.

  mm1k  two workers with queues, one after the other: b makes the source too fast
  ftf   two workers side by side, the first to finish counts: b makes one slow
  atf   two workers side by side, both have to finish: b makes one slow

Without a terminal, and with --headless, it prints a frame a second, and for 5 of
every 20 seconds something is wrong: watch the ΔQ of the outcome called probe.

If eBPF cannot be used, it says why and shows a recording instead.

With --stock it uses the Erlang VM that is already installed, which need not have
probes. The VM records the spans in its own memory, so this needs no eBPF.`,
		ValidArgs: []string{"mm1k", "ftf", "atf"},
		RunE: func(cmd *cobra.Command, args []string) error {
			system, err := f.check(cmd, args)
			if err != nil {
				return err
			}
			if f.duration == 0 && !term.IsTerminal(int(os.Stdout.Fd())) {
				f.duration = withoutTerminal
			}
			return demo(cmd.Context(), system, f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&f.headless, "headless", false, "print text frames in a terminal as well")
	cmd.Flags().BoolVar(&f.explain, "explain", false, explainUsage)
	cmd.Flags().BoolVar(&f.stock, "stock", false, "use the Erlang VM in the PATH, with or without probes")
	cmd.Flags().Float64Var(&f.rate, "rate", 0, "messages a second (0: the default of the system)")
	cmd.Flags().DurationVar(&f.duration, "for", 0, "end after this long (default: when interrupted, or after 30s without a terminal)")
	cmd.Flags().StringVar(&f.record, "record", "", "also record the observation in this file")
	cmd.Flags().BoolVar(&f.force, "force", false, "overwrite that file if it exists")
	return cmd
}

func (f demoFlags) check(cmd *cobra.Command, args []string) (demoSystem, error) {
	name := "mm1k"
	if len(args) > 0 {
		name = args[0]
	}
	system, err := demoSystemNamed(name)
	switch {
	case err != nil:
	case len(args) > 1:
		err = fmt.Errorf("unexpected argument %q", args[1])
	case f.duration == 0 && cmd.Flags().Changed("for"):
		err = errForNothing
	case !(f.rate >= 0) || math.IsInf(f.rate, 1):
		err = fmt.Errorf("--rate %v: want 0 or more", f.rate)
	case f.rate > maxRate:
		err = fmt.Errorf("--rate %v: at most %v", f.rate, float64(maxRate))
	case f.duration < 0:
		err = fmt.Errorf("--for %v: want more than 0", f.duration)
	}
	if err != nil {
		return demoSystem{}, usageError(cmd, err)
	}
	if f.rate > 0 && system.key == "rate" {
		system.calm = formatRate(f.rate)
	}
	return system, nil
}

// demo runs the demonstration, or shows the recording of one.
func demo(ctx context.Context, s demoSystem, f demoFlags, out, log io.Writer) error {
	if err := bpf.Supported(); err != nil && !f.stock {
		return recorded(ctx, s, f, err, out, log)
	}
	return live(ctx, s, f, out, log)
}

// recorded shows the recording of a demonstration, with the reason for that.
func recorded(ctx context.Context, s demoSystem, f demoFlags, why error, out, log io.Writer) error {
	if f.explain {
		return fmt.Errorf("--explain: this machine cannot show the demo live, and the recording to show instead explains no spans: %w", why)
	}
	safetext.Fprintf(log, "This machine cannot show it live: %v.\nHere is a recording.\n\n", why)
	if !f.headless && atTerminal() {
		return lookBundled(ctx, s, why)
	}
	return showRecording(ctx, s, f.duration, 1, out, log)
}

// live runs the demonstration on its own VM.
func live(ctx context.Context, s demoSystem, f demoFlags, out, log io.Writer) error {
	otp, err := f.otp(ctx, log)
	if err != nil {
		return err
	}
	safetext.Fprintf(log, "starting Erlang/OTP %s with %s: %s\n", otp.Version, s.name, s.about)
	main := append([]string{s.name, s.key + "=" + s.calm}, strings.Fields(s.options)...)
	if f.rate > 0 && s.key != "rate" {
		main = append(main, "rate="+formatRate(f.rate))
	}
	beam, err := erlang.StartVM(ctx, otp, erlang.Options{
		Main: main,
		Args: []string{"+scl", "false"}, // lets each worker keep its own core
	})
	if err != nil {
		return err
	}
	defer beam.Stop()
	c, err := s.config()
	if err != nil {
		return err
	}
	c.Target = vm.Target{PID: beam.PID()}
	c.Explain = c.Explain || f.explain
	if c.Snapshots.Dir, err = s.snapshots(); err != nil {
		return err
	}
	o := observation{duration: f.duration, printer: export.NewText(out), record: recordFile{f.record, f.force}}
	if !f.headless && atTerminal() {
		return watch(ctx, c, o, dashboard.Options{Title: "demo " + s.name, Knobs: s.knobs(beam), Intro: s.intro()})
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := make(chan struct{})
	go func() {
		defer close(changes)
		s.changing(ctx, beam, log)
	}()
	err = observe(ctx, c, o, log)
	cancel()
	<-changes
	return err
}

// snapshots returns the folder of the demonstration's snapshots.
func (s demoSystem) snapshots() (string, error) {
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "beamscope", "demo-snapshots", s.name), err
}

// otp returns the Erlang/OTP on which the demonstration runs.
func (f demoFlags) otp(ctx context.Context, log io.Writer) (erlang.OTP, error) {
	if f.stock {
		return erlang.SystemOTP(ctx)
	}
	return findOrBuildOTP(ctx, log)
}

func findOrBuildOTP(ctx context.Context, log io.Writer) (erlang.OTP, error) {
	otp, err := erlang.FindOTP(ctx)
	if errors.Is(err, erlang.ErrNoOTP) && os.Getenv("BEAMSCOPE_OTP") == "" {
		return erlang.BuildOTP(ctx, log)
	}
	return otp, err
}

func formatRate(rate float64) string { return strconv.FormatFloat(rate, 'f', -1, 64) }

// changing switches the system between its values until the context is done.
func (s demoSystem) changing(ctx context.Context, beam *erlang.VM, log io.Writer) {
	const calm, busy = 15 * time.Second, 5 * time.Second

	for {
		for _, phase := range []struct {
			value string
			after time.Duration
		}{{s.worst().value, calm}, {s.calm, busy}} {
			select {
			case <-ctx.Done():
				return
			case <-time.After(phase.after):
			}
			if err := beam.Set(ctx, s.key, phase.value); err != nil {
				if ctx.Err() == nil {
					safetext.Fprintf(log, "set %s: %v\n", s.key, err)
				}
				return
			}
			safetext.Fprintf(log, "%s now %s %s\n", time.Now().Format(time.TimeOnly), phase.value, s.change)
		}
	}
}

// lookBundled shows the bundled recording of a system on the dashboard, with the reason for that.
func lookBundled(ctx context.Context, s demoSystem, why error) error {
	in, err := bundledFilm(s)
	if err != nil {
		return err
	}
	return look(ctx, in, session.Replay{Speed: 1}, dashboard.Options{Title: "recording of " + s.name,
		Intro: fmt.Sprintf("not live: %v. This is a recording", why)})
}

// showRecording plays the bundled recording of a system at a speed.
func showRecording(ctx context.Context, s demoSystem, duration time.Duration, speed float64, out, log io.Writer) error {
	data, err := demoFiles.ReadFile(s.name + ".bsr")
	if err != nil {
		return err
	}
	in, err := recording.NewReader(bytes.NewReader(data))
	if err != nil {
		return err
	}
	r := session.Replay{Speed: speed}
	return replay(ctx, r, session.Limited(in, duration), in.Header, export.NewText(out), log)
}
