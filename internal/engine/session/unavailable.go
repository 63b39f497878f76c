package session

import (
	"context"
	"fmt"
	"slices"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/monotonic"
)

// An unavailable is a source for outcomes that need eBPF where it cannot be used. Its windows are
// not observed, and a notice for each outcome says why.
type unavailable struct {
	why     error
	plans   []outcome.Plan // the plan in force, and later ones
	said    map[string]bool
	notices []outcome.Notice
}

func newUnavailable(p outcome.Plan, why error) *unavailable {
	u := &unavailable{why: why, said: make(map[string]bool)}
	u.add(p)
	return u
}

// needsEBPF reports whether only programs in the kernel can observe an outcome.
func needsEBPF(s outcome.Spec) bool { return s.VM != (outcome.Events{}) }

// add adds a plan, and a notice for each new outcome.
func (u *unavailable) add(p outcome.Plan) {
	u.plans = append(slices.DeleteFunc(u.plans, func(old outcome.Plan) bool { return old.From == p.From }), p)
	for _, s := range p.Specs {
		if !u.said[s.Name] {
			u.said[s.Name] = true
			u.notices = append(u.notices, outcome.Notice{Time: monotonic.Now(), Text: notObserved(s.Name, u.why)})
		}
	}
}

// notObserved says why an outcome is not observed.
func notObserved(name string, why error) string {
	return fmt.Sprintf("%s is not observed: %v", name, why)
}

// Plan implements [outcome.Source].
func (u *unavailable) Plan(_ context.Context, p outcome.Plan) error {
	u.add(p)
	return nil
}

// Collect implements [outcome.Source].
func (u *unavailable) Collect(_ context.Context, w outcome.Window) (outcome.Batch, error) {
	for len(u.plans) > 1 && u.plans[1].From <= w.From {
		u.plans = u.plans[1:]
	}
	b := outcome.Batch{Window: w, Time: monotonic.Wall(w.To)}
	for _, s := range u.plans[0].Specs {
		b.Counts = append(b.Counts, outcome.Counts{Outcome: s.Name, Bins: make([]uint64, s.Bins), Unobserved: true})
	}
	return b, nil
}

// Watch implements [outcome.Source].
func (u *unavailable) Watch(context.Context) []outcome.Notice {
	said := u.notices
	u.notices = nil
	return said
}

// Close implements [outcome.Source].
func (u *unavailable) Close() error { return nil }
