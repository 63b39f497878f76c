// Package config reads and writes scope files, the YAML that says what to observe.
// It is strict: what it does not know is an error, with the line and what to do.
//
// A [Config] is what a file says, and can be edited; [Config.System] is what an
// oscilloscope makes of it, and [Config.Save] writes it back. Both refuse whatever
// a file could not say.
package config

import (
	"slices"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
	"github.com/beamscope/beamscope/internal/vm"
)

// Defaults for what a scope file leaves out.
const (
	DefaultWindow     = time.Second
	DefaultBase       = time.Millisecond
	DefaultBins       = 50
	DefaultConfidence = scope.DefaultConfidence
	DefaultListen     = "127.0.0.1:8080"
)

// DefaultSnapshotsDir is the folder of the snapshots, next to the scope file.
const DefaultSnapshotsDir = "snapshots"

// Bounds of the polling window.
const (
	MinWindow = 100 * time.Millisecond
	MaxWindow = 10 * time.Second
)

// A Config is what a scope file says.
type Config struct {
	Dir    string // that paths in the file are relative to
	Target vm.Target

	// Diagram is the source of the outcome diagram, "" where there is none, and
	// DiagramFile the name of the file that it is in, "" where it is in the scope
	// file itself.
	Diagram     string
	DiagramFile string

	Window     time.Duration
	Base       time.Duration // width of a bin where the exponent is 0
	History    int           // windows whose mean and bounds are kept
	Confidence float64       // of the bounds of means, above 0 and below 1

	// StandardErrors, where it is above 0, is what the bounds of means are instead.
	StandardErrors float64
	Samples        uint64        // instances that a verdict on a window needs at least
	HoldOff        time.Duration // between two firings of one trigger at least
	Explain        bool          // where the time of slow instances goes is found out, for all outcomes of spans

	Wrapper   Wrapper
	Snapshots Snapshots
	Outcomes  []Outcome // that have an entry, in the order of the file
}

// A Wrapper says how to reach systems with the published wrapper, over TCP. The
// zero Wrapper is none.
type Wrapper struct {
	Listen  string   // address at which instances come in
	Connect []string // addresses of wrappers that take commands
	Remote  bool     // addresses may be those of other machines
}

// Snapshots say what is kept when a trigger fires.
type Snapshots struct {
	Dir    string        // to write them to; relative to that of the scope file
	Before int           // windows before the one in which it fired
	After  time.Duration // for which to go on after it
	Keep   int           // number of snapshots, beyond which the oldest go
	Size   int64         // and of bytes, likewise; whole KiB
}

// An Outcome is one entry of outcomes: a probe that is not observed as by default.
type Outcome struct {
	Name      string
	Span      string // name of the spans of VM probes; or
	Wrapper   string // of those that the published wrapper sends; or
	VM        outcome.Events
	Group     string // as of [outcome.Spec]; not with Wrapper
	Scale     Scale
	ExitFails bool
	Explain   Override  // whether its slow instances are explained; only of spans
	QTA       *QTA      // nil where nothing is required
	Triggers  []Trigger // in the order of their kinds
}

// An Override says of an outcome whether it has what all may have.
type Override uint8

// Overrides. Those that are not AsAll are written true and false.
const (
	AsAll Override = iota // as the configuration says for all
	On
	Off
)

// Over returns what holds, where all have something or not.
func (o Override) Over(all bool) bool { return o == On || o == AsAll && all }

// A Scale divides the delays of an outcome into bins. It is by an exponent, as in
// the thesis: dMax = base · 2^Exponent · Bins; or by dMax itself.
type Scale struct {
	DMax     time.Duration // 0 for one by exponent
	Exponent int
	Bins     int

	// Fitted says that beamscope chose the scale: an instance that takes longer than dMax
	// is slow by that scale, and by nothing that anybody requires.
	Fitted bool
}

// Grid returns the grid of the scale.
func (s Scale) Grid(base time.Duration) (dq.Grid, error) {
	if s.DMax != 0 {
		return dq.DMaxGrid(s.DMax, s.Bins)
	}
	return dq.BaseGrid(base, s.Exponent, s.Bins)
}

// A QTA is what the ΔQ of an outcome is required to be.
type QTA struct {
	Points  []dq.Step // in the order of their probabilities, which are all different
	Failure float64   // largest share that may fail or time out; 1 where any may
}

// A Trigger is a kind of trigger and its setting, as [scope.ParseTrigger] reads
// them.
type Trigger struct{ Kind, Setting string }

// Path returns where a file is that a configuration names.
func (c Config) Path(name string) string { return inDir(c.Dir, name) }

// Default returns the configuration of a file that says nothing: every VM of the
// machine is observed, and its outcomes are yet to be discovered.
func Default() Config {
	return Config{
		Window:     DefaultWindow,
		Base:       DefaultBase,
		History:    scope.DefaultHistory,
		Confidence: DefaultConfidence,
		Samples:    scope.DefaultSamples,
		HoldOff:    scope.DefaultHoldOff,
		Snapshots:  defaultSnapshots(),
	}
}

func defaultSnapshots() Snapshots {
	return Snapshots{Dir: DefaultSnapshotsDir, Before: 30, After: 5 * time.Second, Keep: 100, Size: 100 * miB}
}

// defaultOutcome returns how a probe without an entry is observed.
func defaultOutcome(name string) Outcome {
	return Outcome{Name: name, Span: name, Scale: Scale{Bins: DefaultBins}}
}

// Clone returns a copy that shares nothing with the configuration.
func (c Config) Clone() Config {
	c.Wrapper.Connect = slices.Clone(c.Wrapper.Connect)
	c.Outcomes = slices.Clone(c.Outcomes)
	for i := range c.Outcomes {
		o := &c.Outcomes[i]
		o.Triggers = slices.Clone(o.Triggers)
		if o.QTA != nil {
			q := *o.QTA
			q.Points = slices.Clone(q.Points)
			o.QTA = &q
		}
	}
	return c
}
