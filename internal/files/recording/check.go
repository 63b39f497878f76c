package recording

import (
	"fmt"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/explain/trace"
)

// check returns an error that wraps ErrLimit if readers would reject the configuration.
func (c *Config) check() error {
	if len(c.Files) > MaxFiles {
		return fmt.Errorf("%w: %d files: at most %d", ErrLimit, len(c.Files), MaxFiles)
	}
	for _, f := range c.Files {
		if err := checkText(f.Name); err != nil {
			return err
		}
		if len(f.Text) > MaxFile {
			return fmt.Errorf("%w: %s has %d bytes: at most %d", ErrLimit, f.Name, len(f.Text), MaxFile)
		}
	}
	return checkPlan(&c.Plan)
}

func checkPlan(p *outcome.Plan) error {
	if p.Window <= 0 {
		return fmt.Errorf("%w: windows of %v: want more than 0", ErrLimit, p.Window)
	}
	if len(p.Specs) > MaxSpecs {
		return fmt.Errorf("%w: %d outcomes: at most %d", ErrLimit, len(p.Specs), MaxSpecs)
	}
	for i := range p.Specs {
		if err := checkSpec(&p.Specs[i]); err != nil {
			return fmt.Errorf("outcome %d: %w", i+1, err)
		}
	}
	return nil
}

func checkSpec(s *outcome.Spec) error {
	for _, text := range specTexts(s) {
		if err := checkText(*text); err != nil {
			return err
		}
	}
	if s.Bins < 0 || s.Bins > MaxBins {
		return fmt.Errorf("%w: %d bins: want 0 to %d", ErrLimit, s.Bins, MaxBins)
	}
	if s.VM.Pairing > dtrace.FIFO {
		return fmt.Errorf("%w: pairing %d: at most %d", ErrLimit, s.VM.Pairing, dtrace.FIFO)
	}
	if s.Detail > outcome.Everything {
		return fmt.Errorf("%w: detail %d: at most %d", ErrLimit, s.Detail, outcome.Everything)
	}
	return nil
}

// checkBatch returns an error that wraps ErrLimit if readers would reject the batch. It does not
// check the length of texts.
func checkBatch(b *outcome.Batch) error {
	if len(b.Counts) > MaxCounts {
		return fmt.Errorf("%w: %d counts: at most %d", ErrLimit, len(b.Counts), MaxCounts)
	}
	if len(b.Instances) > MaxInstances {
		return fmt.Errorf("%w: %d instances: at most %d", ErrLimit, len(b.Instances), MaxInstances)
	}
	bins, groups := 0, 0
	for i := range b.Counts {
		n := len(b.Counts[i].Bins)
		if n > MaxBins {
			return fmt.Errorf("%w: outcome %s has %d bins: at most %d", ErrLimit, b.Counts[i].Outcome, n, MaxBins)
		}
		bins += n
		groups += len(b.Counts[i].Groups)
	}
	if bins > MaxTotalBins {
		return fmt.Errorf("%w: %d bins: at most %d", ErrLimit, bins, MaxTotalBins)
	}
	if groups > MaxGroups {
		return fmt.Errorf("%w: %d groups: at most %d", ErrLimit, groups, MaxGroups)
	}
	for i := range b.Counts {
		for _, g := range b.Counts[i].Groups {
			if n := len(g.Delays); n != 0 && n != outcome.DelayBuckets {
				return fmt.Errorf("%w: delays of group %s in %d buckets: want none or %d", ErrLimit, g.Key, n, outcome.DelayBuckets)
			}
		}
	}
	return checkInstances(b.Instances)
}

func checkInstances(instances []outcome.Instance) error {
	spans := 0
	for i := range instances {
		if s := instances[i].Status; s > outcome.Timeout {
			return fmt.Errorf("%w: %v: at most %d", ErrLimit, s, outcome.Timeout)
		}
		if instances[i].Trace == nil {
			continue
		}
		if err := checkTrace(&instances[i]); err != nil {
			return fmt.Errorf("%w: instance %d: %w", ErrLimit, instances[i].ID, err)
		}
		spans += len(instances[i].Trace.Spans)
	}
	if spans > MaxSpans {
		return fmt.Errorf("%w: traces of %d spans: at most %d", ErrLimit, spans, MaxSpans)
	}
	return nil
}

func checkTrace(i *outcome.Instance) error {
	t := i.Trace
	for n := range t.Spans {
		if m := t.Spans[n].Link.Mark; m >= trace.Marks {
			return fmt.Errorf("span %d: a link with mark %d", n, m)
		}
	}
	if err := t.Check(); err != nil {
		return err
	}
	if root := &t.Spans[0]; root.Start != i.Start || root.End != i.End {
		return fmt.Errorf("from %d to %d, and the root of its trace from %d to %d", i.Start, i.End, root.Start, root.End)
	}
	return nil
}
