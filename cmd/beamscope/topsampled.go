package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/sources/sampled"
	"github.com/beamscope/beamscope/internal/ui/top"
)

// openSampled begins to take samples. why is the reason why nothing else can be observed, or nil
// if the user requested samples.
func openSampled(ctx context.Context, f topFlags, why error, o top.SampledOptions) (*top.Sampled, error) {
	o.By, o.Filter, o.Rate, o.Processor = f.by, f.filter, f.hz, top.ProcessorOf
	source, err := sampled.Open(ctx, sampled.Config{Target: f.target(), Window: f.window, Rate: f.hz})
	if err != nil {
		return nil, errors.Join(why, err)
	}
	if why != nil {
		first, _, _ := strings.Cut(why.Error(), "\n") // another line for each further event that is not seen
		o.Noticed(outcome.Notice{Time: monotonic.Now(), Text: first + ": taking samples instead, as with --sampled"})
	}
	return top.NewSampled(source, o), nil
}

// viewSampled shows the live table of samples.
func viewSampled(ctx context.Context, f topFlags, why error) (err error) {
	v := top.NewSampledView(nil)
	s, err := openSampled(ctx, f, why, top.SampledOptions{Noticed: v.Notify})
	if err != nil {
		return stopped(ctx, err, os.Stderr)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return adviseTerminal(v.Run(ctx, s), "--for")
}

// printSampled prints tables or lines of samples.
func printSampled(ctx context.Context, f topFlags, why error, out, log io.Writer) (err error) {
	lines := top.NewJSON(out, f.limit)
	o := top.SampledOptions{Noticed: f.noticed(lines, log), Tabled: lines.SampledTable}
	if !f.json {
		limit := f.limit
		if limit == 0 {
			limit = topRows
		}
		o.Tabled = top.NewSampledText(out, limit).Table
	}
	s, err := openSampled(ctx, f, why, o)
	if err != nil {
		return stopped(ctx, err, log)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.Run(ctx, f.duration)
}

// anyVM accepts every VM, with or without probes, because top can take samples of all.
func anyVM(context.Context, vm.VM) bool { return true }
