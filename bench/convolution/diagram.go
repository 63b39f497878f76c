package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/dq"
)

// The dimensions of a diagram.
const (
	probes   = 100
	outcomes = 50
	bins     = 1000
	held     = 30 // ΔQs in the window of confidence bounds
	windows  = 5  // windows a round
)

// A system is a diagram of a hundred outcomes, with all data for one window.
type system struct {
	name    string
	program *diagram.Program
	random  *rand.Rand
	counts  [outcomes][]uint64
	seen    [outcomes]*dq.Observed
	values  [outcomes]*dq.DeltaQ
	named   map[string]*dq.DeltaQ
	byName  func(string) *dq.DeltaQ
	probes  [probes]*dq.DeltaQ
	bounds  [probes]*dq.Window
	band    dq.Band

	ms          []float64
	allocations uint64 // summed over all windows
}

// newDiagrams returns the diagrams to measure.
func newDiagrams() ([]*system, error) {
	half, err := newSystem("half sequences, a quarter f:, a quarter a:", func(i int, x, y string) string {
		switch i % 4 {
		case 0, 1:
			return fmt.Sprintf("d%d = %s -> %s;\n", i, x, y)
		case 2:
			return fmt.Sprintf("d%d = f:d%d(%s, %s);\n", i, i, x, y)
		}
		return fmt.Sprintf("d%d = a:d%d(%s, %s);\n", i, i, x, y)
	})
	if err != nil {
		return nil, err
	}
	all, err := newSystem("all sequences", func(i int, x, y string) string {
		return fmt.Sprintf("d%d = %s -> %s;\n", i, x, y)
	})
	return []*system{half, all}, err
}

func newSystem(name string, definition func(i int, x, y string) string) (*system, error) {
	var source strings.Builder
	for i := range probes {
		x, y := i%outcomes, (i+1+i/outcomes)%outcomes // all sequences differ
		source.WriteString(definition(i, fmt.Sprintf("o%d", x), fmt.Sprintf("o%d", y)))
	}
	file, err := diagram.Parse(source.String())
	if err != nil {
		return nil, err
	}
	s := &system{name: name, random: rand.New(rand.NewPCG(1, 2)), named: map[string]*dq.DeltaQ{}}
	s.byName = func(name string) *dq.DeltaQ { return s.named[name] }
	if s.program, err = diagram.Compile(file); err != nil {
		return nil, err
	}
	return s, s.prepare()
}

// prepare creates the state that is kept between windows, and fills the windows.
func (s *system) prepare() error {
	g, err := dq.NewGrid(time.Millisecond, bins)
	if err != nil {
		return err
	}
	for i := range s.seen {
		s.counts[i] = make([]uint64, bins)
		s.values[i] = new(dq.DeltaQ)
		s.named[fmt.Sprintf("o%d", i)] = s.values[i]
		if s.seen[i], err = dq.NewObserved(g); err != nil {
			return err
		}
	}
	for i := range s.probes {
		s.probes[i], _ = s.program.Value(fmt.Sprintf("d%d", i))
		if s.bounds[i], err = dq.NewWindow(g, held); err != nil {
			return err
		}
	}
	for range held + 1 {
		s.count()
		if err := s.window(); err != nil {
			return err
		}
	}
	return nil
}

// count does the work of the source of instances.
func (s *system) count() {
	for _, counts := range s.counts {
		fill(s.random, counts)
	}
}

// window does the measured work: it computes the ΔQs of new counts, the calculated ΔQ of each
// outcome, and confidence bounds over the last windows.
func (s *system) window() error {
	for i, o := range s.seen {
		if err := errors.Join(o.Set(s.counts[i], 3, 1), o.WriteDeltaQ(s.values[i])); err != nil {
			return err
		}
	}
	if err := s.program.Evaluate(s.byName); err != nil {
		return err
	}
	for i, w := range s.bounds {
		if err := errors.Join(w.InsertCalculated(s.probes[i], 1000), w.WriteBand(&s.band, 0.95)); err != nil {
			return err
		}
	}
	return nil
}

func (s *system) round() error {
	for range windows {
		s.count()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		if err := s.window(); err != nil {
			return err
		}
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		s.ms = append(s.ms, took.Seconds()*1000)
		s.allocations += after.Mallocs - before.Mallocs
	}
	return nil
}

func reportDiagrams(out io.Writer, systems []*system) {
	fmt.Fprintf(out, "One window of %d probes over %d outcomes of %d bins: ΔQs of new counts, evaluation,\nconfidence bounds over %d windows\n\n", probes, outcomes, bins, held)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "probes\tms a window\tallocations a window\t")
	for _, s := range systems {
		fmt.Fprintf(w, "%s\t%.2f\t%.3g\t\n", s.name, median(s.ms), float64(s.allocations)/float64(len(s.ms)))
	}
	w.Flush()
}
