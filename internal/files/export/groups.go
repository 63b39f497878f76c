package export

import (
	"github.com/beamscope/beamscope/internal/beam/modname"
	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
)

// Ways in which the starts and ends of instances were paired.
const (
	pairedExactly  = "exact"
	pairedInferred = "inferred" // some of them by order
)

// ofVM contains the additional fields of a line for outcomes of the VM, and for grouped ones.
type ofVM struct {
	Pairing  string  `json:"pairing"`
	Inferred uint64  `json:"inferred"` // instances that were paired by order
	Dropped  uint64  `json:"dropped"`  // events that did not satisfy the conditions
	Amount   uint64  `json:"amount"`   // sum of the amounts of the ends, such as reclaimed words
	Groups   []group `json:"groups"`   // null if it is not grouped
}

// group is a part of the instances. The group of all instances without room has neither key nor
// name.
type group struct {
	Key       string                 `json:"key"`
	Name      string                 `json:"name"`
	N         uint64                 `json:"n"`
	OK        uint64                 `json:"ok"`
	Failed    uint64                 `json:"failed"`
	Timeout   uint64                 `json:"timeout"`
	AtLeast   bool                   `json:"ok_is_at_least,omitempty"`     // more may have succeeded, because some took longer than a dMax that beamscope chose
	FailedAt  bool                   `json:"failed_is_at_least,omitempty"` // likewise
	Total     float64                `json:"total_s"`                      // sum of the delays of the successes
	Quantiles map[string]*[2]float64 `json:"quantiles_s"`                  // bounds; null in the intangible mass
	Amount    uint64                 `json:"amount"`
}

func ofVMOf(p *scope.Outcome) *ofVM {
	c := &p.Counts
	v := &ofVM{Pairing: pairedExactly, Inferred: c.Inferred, Dropped: c.Dropped, Amount: c.Amount}
	if p.Inferred() {
		v.Pairing = pairedInferred
	}
	if p.Spec.Group != "" {
		v.Groups = []group{}
	}
	for i := range c.Groups {
		v.Groups = append(v.Groups, groupOf(p, &c.Groups[i]))
	}
	return v
}

func groupOf(p *scope.Outcome, g *outcome.Group) group {
	out := group{
		Key:       g.Key,
		Name:      g.Name,
		N:         g.Instances(),
		OK:        g.Successes,
		Failed:    g.Failures,
		Timeout:   g.Timeouts,
		AtLeast:   p.Fitted && g.Timeouts > 0,
		FailedAt:  p.Fitted && g.Timeouts > 0,
		Total:     g.Total.Seconds(),
		Quantiles: make(map[string]*[2]float64),
		Amount:    g.Amount,
	}
	for _, q := range scope.Quantiles() {
		var bounds *[2]float64
		if within, ok := scope.GroupQuantile(g, q, p.Spec.DMax()); ok {
			bounds = &[2]float64{within.Lo.Seconds(), within.Hi.Seconds()}
		}
		out.Quantiles[quantileName(q)] = bounds
	}
	return out
}

// groupsInText is the largest number of groups shown for each outcome.
const groupsInText = 10

// groupRows writes rows of groups below their outcome: those with the longest time, and one for all
// others.
func (c columns) groupRows(p *scope.Outcome) {
	top, rest, others := scope.TopGroups(p.Counts.Groups, groupsInText)
	for i := range top {
		c.groupRow(p, groupLabel(&top[i]), &top[i])
	}
	if others > 0 {
		c.groupRow(p, "others", &rest)
	}
}

// groupLabel returns the displayed name of a group.
func groupLabel(g *outcome.Group) string {
	if g.Name == "" || g.Name == g.Key {
		return modname.Readable(g.Key)
	}
	return modname.Readable(g.Key + " " + g.Name)
}

// groupRow writes the row of a group of an outcome.
func (c columns) groupRow(p *scope.Outcome, label string, g *outcome.Group) {
	n := g.Instances()
	c.cell(label)
	c.cell(n)
	for _, q := range scope.Quantiles() {
		c.cell(groupQuantile(p, g, q))
	}
	if c.judged {
		c.cell("")
	}
	switch share := float64(g.Successes) / float64(n); {
	case n == 0:
		c.cell("-")
	case p.Fitted && g.Timeouts > 0:
		c.cell(figures.AtLeast(share))
	default:
		c.cell(figures.Percent(share))
	}
	c.cells(Failures(p, g.Failures, g.Timeouts), timeoutsOf(p, g.Timeouts), "", "", "")
	c.amount(g.Amount, p.Counts.Amount)
	c.end(figures.Delay(g.Total) + " in all")
}

// groupQuantile formats the upper bound of a quantile, as for an outcome.
func groupQuantile(p *scope.Outcome, g *outcome.Group, q float64) string {
	within, ok := scope.GroupQuantile(g, q, p.Spec.DMax())
	switch {
	case ok:
		return figures.AtMost(within.Hi)
	case g.Instances() == 0:
		return "-"
	case p.GroupQuantileSlower(g, q):
		return SlowerThan(p)
	}
	return "∞"
}
