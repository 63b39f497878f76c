package scope_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
)

// memory collects the memory that a value refers to, by the path to it: of slices and of
// pointers, as deep as the values go. Traces are left out, which nobody changes, and so is
// what a system says.
func memory(path string, v reflect.Value, all map[string]uintptr) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || strings.Contains(v.Type().String(), "trace.") {
			return
		}
		all[path] = v.Pointer()
		memory(path, v.Elem(), all)
	case reflect.Slice:
		if v.Cap() > 0 {
			all[path] = v.Pointer()
		}
		for i := range v.Len() {
			memory(fmt.Sprint(path, "[", i, "]"), v.Index(i), all)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			memory(path+"."+v.Type().Field(i).Name, v.Field(i), all)
		}
	}
}

// A clone shares no memory with the frame.
func TestCloneSharesNothing(t *testing.T) {
	s := system(t, "x = a -> b;", spec("a", 2), spec("b", 2), spec("x", 4))
	qta, err := dq.NewQTA(0.1, dq.Step{T: ms, P: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	s.Probes[2].QTA = &qta
	s.Probes[2].Triggers = triggers(t, "load", "0")
	p := newPlay(t, s)
	x := counts("x", 2, 0, 0, 1)
	x.Groups = []outcome.Group{{Key: "g", Successes: 2, Delays: delays(2, ms)}}
	frame := p.batch(outcome.Batch{
		Counts:    []outcome.Counts{counts("a", 2, 1), counts("b", 1, 2), x},
		Instances: []outcome.Instance{explainedBy("x", 1, spell{}), {Outcome: "x", VM: beam, ID: 1}},
	})
	frame.Notices = append(frame.Notices, "a notice")
	own, shared := map[string]uintptr{}, map[string]uintptr{}
	memory("frame", reflect.ValueOf(frame).Elem(), shared)
	memory("frame", reflect.ValueOf(frame.Clone()).Elem(), own)
	if len(own) < 25 || len(frame.Fired) == 0 || len(probe(t, frame, "x").Active) == 0 {
		t.Errorf("%d places refer to memory: want more", len(own))
	}
	for path, at := range own {
		if shared[path] == at {
			t.Errorf("%s is shared", path)
		}
	}
}

// Each VM beyond those that there is room for is counted as left out.
func TestVMsLeftOut(t *testing.T) {
	p := newPlay(t, system(t, "", spec("a", 1)))
	var all []outcome.Counts
	for i := range scope.MaxVMs + 44 {
		c := counts("a", 1)
		c.VM = outcome.VM{PID: i + 1}
		all = append(all, c)
	}
	if f := p.step(all...); len(f.Probes) != scope.MaxVMs || len(f.Notices) != 1 || !strings.HasPrefix(f.Notices[0], "44 outcomes of VMs") {
		t.Errorf("%d rows, %q", len(f.Probes), f.Notices)
	}
	if f := p.step(all[:scope.MaxVMs]...); len(f.Probes) != scope.MaxVMs || len(f.Notices) != 1 || !strings.Contains(f.Notices[0], "shown again") {
		t.Errorf("%d rows, %q", len(f.Probes), f.Notices)
	}
	if f := p.step(all[:1]...); len(f.Notices) != 0 {
		t.Errorf("%q", f.Notices)
	}
}

// A branch counts by its share: ten instances of a branch that one of two take are as good
// as forty, and a verdict asks for as many.
func TestFewInstancesOfABranch(t *testing.T) {
	for samples, want := range map[uint64]string{40: "", 41: "too few instances"} {
		s := system(t, "probe = p:pick[0.5, 0.5](one, other)", spec("one", 4), spec("other", 4), spec("probe", 4), spec("pick", 4))
		s.Samples = samples
		row := probe(t, newPlay(t, s).step(counts("one", 10, 0, 0, 0), counts("other", 0, 100, 0, 0)), "pick")
		if row.CalculatedInsufficient != want || row.CalculatedFrom != 40 {
			t.Errorf("%d samples: %q, from %d", samples, row.CalculatedInsufficient, row.CalculatedFrom)
		}
	}
}

// Standard errors are asked for by any number of them above 0.
func TestBoundsOfMeans(t *testing.T) {
	width := func(b scope.MeanBounds) float64 {
		s := system(t, "", spec("a", 2))
		s.Bounds = b
		p := newPlay(t, s)
		p.step(counts("a", 30, 10))
		band := probe(t, p.step(counts("a", 10, 30)), "a").Mean.Band
		return band.Hi[1] - band.Lo[1]
	}
	// Shares of 3/4 and 1/4: the standard deviation is 1/4, and the standard error that by √2.
	if got, want := width(scope.MeanBounds{StandardErrors: 0.5}), 0.25/1.4142135623730951; got < want-1e-12 || got > want+1e-12 {
		t.Errorf("half a standard error to either side: %v, want %v", got, want)
	}
	if got := width(scope.MeanBounds{Confidence: 0.95}); got < 0.9 {
		t.Errorf("95 %% of two windows: %v", got)
	}
}

// A window that ends before it begins is refused, with its ends.
func TestStepRefusesAWindow(t *testing.T) {
	e, err := scope.NewEngine(system(t, "", spec("a", 1)))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []outcome.Window{{From: 7, To: 7}, {From: 7, To: 6}} {
		_, err := e.Step(&outcome.Batch{Window: w})
		if want := fmt.Sprintf("from 7 to %d ns", w.To); !errors.Is(err, scope.ErrWindow) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A late source refuses each plan as too late, and notes when it would have begun.
type lateSource struct {
	*script
	begins []int64
}

func (s *lateSource) Plan(_ context.Context, p outcome.Plan) error {
	s.begins = append(s.begins, p.From)
	return outcome.ErrLate
}

// A source that is late for a plan gets twice the time to prepare, up to some seconds, and
// then the change is refused.
func TestApplyToALateSource(t *testing.T) {
	first := system(t, "", spec("a", 4))
	first.Window = 5 * ms
	source := &lateSource{script: newScript()}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := newScope(t, source, first)
	refused, start := make(chan error, 1), monotonic.Now()
	go func() {
		refused <- s.Apply(ctx, system(t, "", spec("a", 8)))
		cancel()
	}()
	if err := s.Run(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if err := <-refused; !errors.Is(err, outcome.ErrLate) || len(source.begins) != 5 {
		t.Fatalf("%v after %v", err, source.begins)
	}
	for i, got := range source.begins {
		if want := 250 * ms << i; got-start < int64(want) {
			t.Errorf("plan %d begins %v after the change, want %v at least", i+1, time.Duration(got-start), want)
		}
	}
}

// The processor time that a run takes is told, window by window.
func TestCostOfCollector(t *testing.T) {
	first := system(t, "", spec("a", 4))
	first.Window = 5 * ms
	var used time.Duration
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sum := 0
	s := newScope(t, newScript(), first, watcher{framed: func(b *outcome.Batch, _ *scope.Frame) error {
		if used += b.Cost.Collector; used > 0 {
			cancel()
		}
		for i := range 1 << 20 {
			sum += i % 7
		}
		return nil
	}})
	if err := s.Run(ctx, 0); err != nil || used <= 0 || used > time.Minute {
		t.Errorf("%v of processor time, %v, %d", used, err, sum)
	}
}
