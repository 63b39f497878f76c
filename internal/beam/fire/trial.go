package fire

import (
	"context"
	"fmt"
	"time"

	"github.com/beamscope/beamscope/internal/beam/fire/hits"
	"github.com/beamscope/beamscope/internal/beam/vm"
)

// Limits of a scenario: its duration, and how often it is repeated until no other activity disturbs
// its counts.
const (
	scenarioPatience = 30 * time.Second
	tries            = 5
)

// A result is the result of a scenario.
type result struct {
	scenario scenario
	hits     map[string]uint64 // by probe, during the scenario; nil with an error
	err      error             // why it could not be completed
}

// A trial runs scenarios and counts hits.
type trial struct {
	counter *hits.Counter
	places  places
	flavour vm.Flavour
	pair    *pair
}

// run runs all scenarios. The totals include everything that the VM has done since its start.
func (t *trial) run(ctx context.Context) (results []result, totals map[string]uint64, err error) {
	started, err := t.counter.Read()
	if err != nil {
		return nil, nil, err
	}
	results = append(results, result{scenario: starting(), hits: t.places.byName(started, hits.Count.All)})
	for _, s := range scenarios(t.flavour, t.places.release) {
		r, err := t.scenario(ctx, s)
		if err != nil {
			return nil, nil, err
		}
		results = append(results, r)
	}
	counts, err := t.counter.Read()
	return results, t.places.byName(counts, hits.Count.All), err
}

// scenario runs a scenario. It repeats the scenario if other activity has also fired probes. A
// probe that fires too rarely, or twice as often, does so each time.
func (t *trial) scenario(ctx context.Context, s scenario) (result, error) {
	r := result{scenario: s}
	for range tries {
		before, err := t.counter.Read()
		if err != nil {
			return r, err
		}
		if r.err = t.carryOut(ctx, s); r.err != nil {
			return r, context.Cause(ctx)
		}
		after, err := t.counter.Read()
		if err != nil {
			return r, err
		}
		for i := range after {
			after[i] = after[i].Sub(before[i])
		}
		r.hits = t.places.byName(after, func(c hits.Count) uint64 { return c.Inside })
		if s.met(r.hits) {
			break
		}
	}
	return r, nil
}

func (t *trial) carryOut(ctx context.Context, s scenario) error {
	peer := ""
	if s.peer {
		if t.pair.peerErr != nil {
			return t.pair.peerErr
		}
		peer = fmt.Sprintf(", '%s'", t.pair.peerName)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, scenarioPatience, fmt.Errorf("it took more than %v", scenarioPatience))
	defer cancel()
	_, err := t.pair.vm.Call(ctx, "vm_events", "run", fmt.Sprintf("[%s, %d%s]", s.name, s.times, peer))
	return err
}
