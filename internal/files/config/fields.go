package config

import (
	"strconv"
	"time"

	"github.com/beamscope/beamscope/dq"
)

// section returns the field of a section with a description of its own in the reference page.
func section[T any](name, help, unset string, read func(*reader, value, *T) error, write func(T) string) field[T] {
	return field[T]{Key: Key{Name: name, Help: help, Default: unset, Section: name}, read: read, write: write}
}

// fileFields returns the keys of a scope file.
func fileFields() []field[Config] {
	window := durationField("window", MinWindow, MaxWindow, "length of a window", func(c *Config) *time.Duration { return &c.Window })
	base := durationField("base", minWidth, maxDMax, "width of a bin where the exponent is 0", func(c *Config) *time.Duration { return &c.Base })
	window.always, base.always = true, true
	window.Section = "window"
	outcomes := section("outcomes", "what is observed, and how", "the names of the diagram", nil, Config.writtenOutcomes)
	outcomes.always = true
	return []field[Config]{
		section("target", "the VMs to observe", "every one",
			func(r *reader, v value, c *Config) (err error) { c.Target, err = r.target(v); return err },
			func(c Config) string { return flow(c.target()) }),
		section("diagram", "how outcomes are composed", "none: nothing is calculated",
			func(r *reader, v value, c *Config) (err error) {
				c.Diagram, c.DiagramFile, err = r.diagram(v)
				return err
			},
			Config.writtenDiagram),
		window,
		base,
		integerField("history", 1, dq.MaxWindow,
			"number of windows over which beamscope keeps a mean with bounds and looks for [divergence](triggers.md#divergence)", func(c *Config) *int { return &c.History }),
		numberField("confidence", func(p float64) bool { return p > 0 && p < 1 }, "above 0 and below 1",
			"probability that the long-run mean is [within the bounds](confidence.md) of the mean shown. A single window has no bounds", func(c *Config) *float64 { return &c.Confidence }),
		numberField("standard_errors", func(z float64) bool { return z > 0 && z <= maxStandardErrors }, "above 0 and up to 100",
			"instead, this number of standard errors to either side of the mean, as in the thesis: 1.96 for example. They hold [less often](confidence.md#coverage) than for a normal distribution",
			func(c *Config) *float64 { return &c.StandardErrors }).with("none"),
		integerField("samples", 1, maxSamples, "instances that a window needs for a verdict on it", func(c *Config) *uint64 { return &c.Samples }),
		durationField("hold_off", 0, maxHoldOff, "least time between two firings of a trigger", func(c *Config) *time.Duration { return &c.HoldOff }),
		booleanField("explain", "`true`: slow instances are [explained](explain.md), for all outcomes with `span`", func(c *Config) *bool { return &c.Explain }),
		section("wrapper", "how to reach systems with the published wrapper", "see there",
			func(r *reader, v value, c *Config) (err error) { c.Wrapper, err = r.wrapper(v); return err },
			func(c Config) string { return flow(c.Wrapper.pairs()) }),
		section("snapshots", "what is kept when a trigger fires", "see there",
			func(r *reader, v value, c *Config) (err error) { c.Snapshots, err = r.snapshots(v); return err },
			func(c Config) string { return flow(written(snapshotsFields(), c.Snapshots, defaultSnapshots())) }),
		outcomes,
	}
}

// maxStandardErrors is far more than any use needs.
const maxStandardErrors = 100

// Limits of what is kept.
const (
	maxBefore = 1024
	maxAfter  = 10 * time.Minute
	maxKeep   = 100_000
	minSize   = miB
	maxSize   = 1024 * giB
)

// snapshotsFields returns the keys of the section snapshots.
func snapshotsFields() []field[Snapshots] {
	size := plain("size", "the same in `KiB`, `MiB` or `GiB`", func(s *Snapshots) *int64 { return &s.Size }, (*reader).size, formatSize)
	size.Range = formatSize(minSize) + " to " + formatSize(maxSize)
	return []field[Snapshots]{
		plain("dir", "folder to write them to", func(s *Snapshots) *string { return &s.Dir }, (*reader).name, quote),
		integerField("before", 0, maxBefore, "windows before the one in which a trigger fired", func(s *Snapshots) *int { return &s.Before }),
		durationField("after", 0, maxAfter, "for how long to go on after it", func(s *Snapshots) *time.Duration { return &s.After }),
		integerField("keep", 1, maxKeep, "largest number of snapshots; beyond it beamscope deletes the oldest of the user whose VMs have the most", func(s *Snapshots) *int { return &s.Keep }),
		size,
	}
}

// wrapperFields returns the keys of the section wrapper. Which addresses are allowed depends on remote.
func wrapperFields() []field[Wrapper] {
	return []field[Wrapper]{
		{
			Key:   Key{Name: "listen", Help: "address at which spans arrive", Default: "`" + DefaultListen + "`, if an outcome has `wrapper` or this section exists"},
			write: func(w Wrapper) string { return quoted(w.Listen) },
		},
		{
			Key:   Key{Name: "connect", Help: "list of addresses of wrappers that take commands: `[127.0.0.1:8081]`", Default: "none"},
			write: func(w Wrapper) string { return list(w.Connect) },
		},
		booleanField("remote", "`true`: addresses may be those of other machines", func(w *Wrapper) *bool { return &w.Remote }),
	}
}

// outcomeFields returns the keys of an outcome. Those of its origin depend on each other.
func outcomeFields() []field[Outcome] {
	unread := func(name, section, help, unset string, write func(Outcome) string) field[Outcome] {
		return field[Outcome]{Key: Key{Name: name, Help: help, Default: unset, Section: section}, write: write}
	}
	const ofVM = "outcomes-of-the-vm"
	bins := integerField("bins", 1, maxBins, "number of bins from 0 to dMax; with `exponent` at most 1000", func(o *Outcome) *int { return &o.Scale.Bins })
	dMax := durationField("dmax", minWidth, maxDMax, "the maximum delay: longer instances are timeouts", func(o *Outcome) *time.Duration { return &o.Scale.DMax }).with("that of the scale with `exponent`")
	dMax.write = func(o Outcome) string {
		if o.Scale.DMax == 0 {
			return ""
		}
		return FormatDuration(o.Scale.DMax)
	}
	exponent := integerField("exponent", minExponent, maxExponent,
		"with `base` instead of `dmax`: dMax = base · 2^exponent · bins, as far down as the base can be halved to whole nanoseconds and bins stay 1us wide", func(o *Outcome) *int { return &o.Scale.Exponent })
	exponent.write = func(o Outcome) string {
		if o.Scale.DMax != 0 {
			return ""
		}
		return strconv.Itoa(o.Scale.Exponent)
	}
	fitted := booleanField("fitted", "`true`: beamscope chose the scale, see [run](run.md#limits-that-beamscope-chose). Saved scope files say so; take it out when you set `dmax` by hand", func(o *Outcome) *bool { return &o.Scale.Fitted })
	bins.always, dMax.always, exponent.always = true, true, true
	return []field[Outcome]{
		unread("span", "", "name of the spans, as in `beamscope:start_span(<<\"worker_1\">>)`: 1 to 255 bytes", "the outcome's name", Outcome.writtenSpan),
		unread("wrapper", "", "instead of `span`: name of the spans that the [published wrapper](#wrapper) sends", "", func(o Outcome) string { return quoted(o.Wrapper) }),
		unread("vm", ofVM, "instead of `span`: name of an outcome of the VM that is built in", "", func(o Outcome) string { return quoted(o.VM.Builtin) }),
		unread("start", ofVM, "instead of `span`: events of the VM that start instances", "", func(o Outcome) string { return quoted(o.VM.Start) }),
		unread("end", ofVM, "with `start`: events of the VM that end instances", "", func(o Outcome) string { return quoted(o.VM.End) }),
		unread("key", ofVM, "with `start` and `end`: the argument that an instance's start and end have in common", "the process of each", func(o Outcome) string { return writtenKey(o.VM) }),
		unread("pair", ofVM, "with `start` and `end`: which start belongs to an end, `first`, `last` or `fifo`", "`last`", Outcome.writtenPairing),
		unread("group", ofVM, "property that also groups instances: `pid` or `mfa`, and with `vm`, or `start` and `end`, any argument of the starts; not with `wrapper`", "nothing", func(o Outcome) string { return quoted(o.Group) }),
		dMax,
		exponent,
		bins,
		fitted,
		unread("exit", "", "`timeout`: a span whose process dies times out. `failure`: it fails, at the moment of the exit. Not with `wrapper`", "`timeout`", Outcome.writtenExit),
		unread("explain", "", "`true` or `false`: whether its slow instances are [explained](explain.md). With `span` only", "as `explain` above `outcomes`", Outcome.writtenExplain),
		unread("qta", "qta", "what is required", "nothing", func(o Outcome) string { return flow(o.QTA.pairs()) }),
		unread("triggers", "triggers", "what is an incident", "nothing", func(o Outcome) string { return flow(triggerPairs(o.Triggers)) }),
	}
}
