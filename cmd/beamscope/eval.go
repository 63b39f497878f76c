package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/files/atomicfile"
	"github.com/beamscope/beamscope/internal/files/pipe"
	"github.com/beamscope/beamscope/internal/ui/eval"
)

const evalLong = `eval calculates the ΔQ of an outcome diagram from models of its outcomes. Every
figure comes as two bounds that contain the exact one. A smaller --base narrows
them, as long as there are enough bins; a line below the table reports if there are
not. A file called - is standard input.

Models:
  never                     fails
  wait(2ms)                 takes that long
  uniform(1ms,2ms)          anything between, equally likely
  exp(5ms)                  exponential with that mean
  normal(5ms, 1ms)          normal with that mean and standard deviation; at least 0
  lognormal(5ms, 0.8)       log-normal with that median; the logarithm deviates by 0.8
  gamma(5ms, 2)             gamma with that mean and shape: 2 is a sum of two exponentials
  weibull(5ms, 0.7)         Weibull with that scale and shape: below 1 a heavy tail
  pareto(1ms, 2.5)          Pareto from that delay on, with that shape
  steps(1ms:0.3, 3ms:1)     done within 1ms in 30 %, within 3ms always
  cdf(1ms:0.2..0.3, 3ms:1)  the same within bounds: in 20 to 30 % within 1ms
  samples(file.csv)         measured: a delay a line in seconds, or fail, or timeout
  samples(file.csv, 0.95)   the distribution that these come from, with probability 0.95
  timeout(20ms, MODEL)      fails after 20ms
  retry(3, 20ms, MODEL)     up to three attempts, each given up after 20ms
  overlap(3, 20ms, MODEL)   up to three attempts, one started every 20ms
each with an optional probability of success before it: 0.95*exp(5ms).`

const evalExample = `  beamscope eval system.dq --set a='uniform(1ms,2ms)' --set b='0.98*exp(5ms)'
  beamscope eval system.dq --set a='wait(2ms)' --set b=never --qta 0.5@5ms,0.95@20ms,failure@0.01`

type evalFlags struct {
	sets      []string
	base      time.Duration
	bins      int
	quantiles []float64
	within    []time.Duration
	qta       string
	compare   string
	residual  string
	budget    string
	sd        bool
	json      bool
	plot      bool
	svg       string
}

func newEvalCommand() *cobra.Command {
	var f evalFlags
	cmd := &cobra.Command{
		Use:     "eval system.dq --set outcome=model…",
		Short:   "Ask what-if questions about an outcome diagram, without any VM",
		Long:    evalLong,
		Example: evalExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneDiagram(cmd, args); err != nil {
				return err
			}
			q, err := f.question(cmd)
			if err != nil {
				return err
			}
			if q.Diagram, _, err = readDiagram(cmd.Context(), args[0], cmd.InOrStdin()); err != nil {
				return err
			}
			report, err := eval.Answer(q)
			if err != nil {
				return f.refused(cmd, err)
			}
			return f.print(cmd.OutOrStdout(), report)
		},
	}
	cmd.Flags().StringArrayVar(&f.sets, "set", nil, "model of an outcome, outcome=model; one for each outcome")
	f.base = time.Millisecond
	cmd.Flags().Var(delayFlag{&f.base}, "base", "width of a bin, at least 1us")
	cmd.Flags().IntVar(&f.bins, "bins", 10000, "number of bins of a model that has no end")
	cmd.Flags().Float64SliceVar(&f.quantiles, "quantile", []float64{0.5, 0.95, 0.99}, "share of all executions: calculate the delay within which it is done")
	cmd.Flags().Var(delaysFlag{&f.within}, "within", "delay: calculate the share of all executions that is done within it")
	cmd.Flags().StringVar(&f.qta, "qta", "", "requirement on the last definition, such as 0.5@1s,0.95@4s,failure@0.01")
	cmd.Flags().StringVar(&f.compare, "compare", "", "compare two definitions, such as front,back: which is better")
	cmd.Flags().StringVar(&f.residual, "residual", "", "calculate what remains of a whole without a part of its sequence, such as whole,part")
	cmd.Flags().StringVar(&f.budget, "budget", "", "part of a sequence: calculate what --qta leaves for the rest of the sequence")
	cmd.Flags().BoolVar(&f.sd, "sd", false, "show standard deviations in the table")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&f.plot, "plot", false, "plot the distributions in the terminal too")
	cmd.Flags().StringVar(&f.svg, "svg", "", "also write the plots to this file, as SVG")
	return cmd
}

// question returns the question in the flags, without a diagram.
func (f evalFlags) question(cmd *cobra.Command) (eval.Question, error) {
	q := eval.Question{Open: openFile(cmd.Context()), Quantiles: f.quantiles, Within: f.within, Budget: f.budget, SD: f.sd}
	if f.json && f.plot {
		return q, usageError(cmd, errors.New("--json and --plot: give one of them; --svg goes with both"))
	}
	var err error
	if q.Models, err = f.models(); err != nil {
		return q, usageError(cmd, err)
	}
	if q.Grid, err = dq.NewGrid(f.base, f.bins); err != nil {
		return q, usageError(cmd, fmt.Errorf("--base %v --bins %d: %w", f.base, f.bins, err))
	}
	if f.compare != "" {
		if q.Compare, err = eval.ParsePair(f.compare); err != nil {
			return q, usageError(cmd, fmt.Errorf("--compare: %w", err))
		}
	}
	if f.residual != "" {
		if q.Residual, err = eval.ParsePair(f.residual); err != nil {
			return q, usageError(cmd, fmt.Errorf("--residual: %w", err))
		}
	}
	if cmd.Flags().Changed("qta") {
		qta, err := eval.ParseQTA(f.qta)
		if err != nil {
			return q, usageError(cmd, fmt.Errorf("--qta %s: %w", f.qta, err))
		}
		q.QTA = &qta
	}
	return q, nil
}

// openFile returns a function that opens files.
func openFile(ctx context.Context) func(name string) (io.ReadCloser, error) {
	return func(name string) (io.ReadCloser, error) { return pipe.Open(ctx, name) }
}

// models parses the values of --set.
func (f evalFlags) models() (map[string]string, error) {
	models := make(map[string]string, len(f.sets))
	for _, set := range f.sets {
		name, model, ok := strings.Cut(set, "=")
		name = strings.TrimSpace(name)
		if !ok || name == "" {
			return nil, fmt.Errorf("--set %s: want outcome=model, such as a='uniform(1ms,2ms)'", set)
		}
		if _, twice := models[name]; twice {
			return nil, fmt.Errorf("--set %s: %s is set twice", set, name)
		}
		models[name] = model
	}
	return models, nil
}

// refused returns a usage error, unless a file of samples could not be read.
func (f evalFlags) refused(cmd *cobra.Command, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return err
	}
	return usageError(cmd, err)
}

func (f evalFlags) print(w io.Writer, r *eval.Report) error {
	if f.svg != "" {
		if err := atomicfile.Write(f.svg, []byte(eval.SVG(r))); err != nil {
			return err
		}
	}
	if f.json {
		return json.NewEncoder(w).Encode(r)
	}
	if err := eval.Table(w, r); err != nil || !f.plot {
		return err
	}
	for _, name := range r.Names {
		if _, err := fmt.Fprintf(w, "\n%s", eval.Plot(name, r.Values[name])); err != nil {
			return err
		}
	}
	return nil
}
