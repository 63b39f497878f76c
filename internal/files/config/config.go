// Package config reads and writes scope files, the YAML files that describe what to observe. It
// is strict: an unknown key is an error, with the line and advice.
// A [Config] is the contents of a file, and can be edited. [Config.System] converts it for an
// oscilloscope, and [Config.Save] writes it to a file. Both reject a Config that no file could
// contain.
package config

import (
	"slices"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
)

// Defaults for missing keys of a scope file.
const (
	DefaultWindow     = time.Second
	DefaultBase       = time.Millisecond
	DefaultBins       = 50
	DefaultConfidence = scope.DefaultConfidence
	DefaultListen     = "127.0.0.1:8080"
)

// DefaultSnapshotsDir is the folder of the snapshots, next to the scope file.
const DefaultSnapshotsDir = "snapshots"

// Limits of the polling window.
const (
	MinWindow = 100 * time.Millisecond
	MaxWindow = 10 * time.Second
)

// A Config is the contents of a scope file.
type Config struct {
	Dir    string // base of relative paths in the file
	Target vm.Target

	// Diagram is the source of the outcome diagram, or "" if there is none. DiagramFile is the
	// name of its file, or "" if it is in the scope file itself.
	Diagram     string
	DiagramFile string

	Window     time.Duration
	Base       time.Duration // width of a bin if the exponent is 0
	History    int           // number of windows for means and bounds
	Confidence float64       // confidence of the bounds of means, above 0 and below 1

	// StandardErrors, if above 0, sets the bounds of means instead.
	StandardErrors float64
	Samples        uint64        // least number of instances for a verdict on a window
	HoldOff        time.Duration // least time between two firings of one trigger
	Explain        bool          // explain slow instances of all outcomes of spans

	Wrapper   Wrapper
	Snapshots Snapshots
	Outcomes  []Outcome // entries, in the order of the file
}

// A Wrapper configures the connection to systems with the published wrapper, over TCP. The zero
// Wrapper means no connection.
type Wrapper struct {
	Listen  string   // address that receives instances
	Connect []string // addresses of wrappers that accept commands
	Remote  bool     // allows addresses of other machines
}

// Snapshots configures the snapshots that triggers make.
type Snapshots struct {
	Dir    string        // folder, relative to that of the scope file
	Before int           // windows before the one of the trigger
	After  time.Duration // how long to continue after it
	Keep   int           // largest number of snapshots; then the oldest of the user with the most is deleted
	Size   int64         // largest size of the folder in bytes; whole KiB
}

// An Outcome is an entry of a scope file under outcomes. It says how the outcome differs from the
// defaults.
type Outcome struct {
	Name      string
	Span      string // name of the spans of VM probes; or
	Wrapper   string // name in the messages of the published wrapper
	VM        outcome.Events
	Group     string // as in [outcome.Spec]; not with Wrapper
	Scale     Scale
	ExitFails bool
	Explain   Override  // whether to explain slow instances; for spans only
	QTA       *QTA      // nil without a requirement
	Triggers  []Trigger // in the order of their kinds
}

// An Override sets whether an outcome differs from a setting for all outcomes.
type Override uint8

// Overrides. A file contains true or false, and nothing for AsAll.
const (
	AsAll Override = iota // the setting for all outcomes
	On
	Off
)

// Over returns the effective setting, given the setting for all outcomes.
func (o Override) Over(all bool) bool { return o == On || o == AsAll && all }

// A Scale divides the delays of an outcome into bins. It is defined by an exponent, as in the
// thesis, with dMax = base · 2^Exponent · Bins, or by dMax itself.
type Scale struct {
	DMax     time.Duration // 0 for a scale with an exponent
	Exponent int
	Bins     int

	// Fitted means that beamscope chose the scale: an instance that takes longer than dMax is
	// slow only by that scale, not by a requirement.
	Fitted bool
}

// Grid returns the grid of the scale.
func (s Scale) Grid(base time.Duration) (dq.Grid, error) {
	if s.DMax != 0 {
		return dq.DMaxGrid(s.DMax, s.Bins)
	}
	return dq.BaseGrid(base, s.Exponent, s.Bins)
}

// A QTA is a requirement for the ΔQ of an outcome.
type QTA struct {
	Points  []dq.Step // sorted by probability, which are all different
	Failure float64   // largest share that may fail or time out; 1 for no limit
}

// A Trigger is a kind of trigger and its setting, as [scope.ParseTrigger] accepts them.
type Trigger struct{ Kind, Setting string }

// Path returns the path of a file that the configuration names.
func (c Config) Path(name string) string { return inDir(c.Dir, name) }

// Default returns the configuration of an empty file: it observes every VM of the machine, and
// all outcomes are still to be discovered.
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

// defaultOutcome returns the settings of an outcome without an entry.
func defaultOutcome(name string) Outcome {
	return Outcome{Name: name, Span: name, Scale: Scale{Bins: DefaultBins}}
}

// Clone returns a copy that shares no memory with the configuration.
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
