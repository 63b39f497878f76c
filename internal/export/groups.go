package export

import (
	"time"

	"github.com/beamscope/beamscope/internal/figures"
	"github.com/beamscope/beamscope/internal/modname"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
)

// How the starts and ends of instances were paired.
const (
	pairedExactly  = "exact"
	pairedInferred = "inferred" // some of them by their order
)

// ofVM is what a line has besides for an outcome of the VM, and for one that is grouped.
type ofVM struct {
	Pairing  string  `json:"pairing"`
	Inferred uint64  `json:"inferred"` // instances that were paired by their order
	Dropped  uint64  `json:"dropped"`  // events that did not satisfy the conditions
	Amount   uint64  `json:"amount"`   // sum of what the ends say, such as reclaimed words
	Groups   []group `json:"groups"`   // null where it is not grouped
}

// group is a part of the instances. The one of all that found no room among the groups
// has neither key nor name.
type group struct {
	Key       string                 `json:"key"`
	Name      string                 `json:"name"`
	N         uint64                 `json:"n"`
	OK        uint64                 `json:"ok"`
	Failed    uint64                 `json:"failed"`
	Timeout   uint64                 `json:"timeout"`
	Total     float64                `json:"total_s"`     // sum of the delays of the successes
	Quantiles map[string]*[2]float64 `json:"quantiles_s"` // bounds; null in the intangible mass
	Amount    uint64                 `json:"amount"`
}

func ofVMOf(p *scope.Probe) *ofVM {
	c := &p.Counts
	v := &ofVM{Pairing: pairedExactly, Inferred: c.Inferred, Dropped: c.Dropped, Amount: c.Amount}
	if p.Inferred() {
		v.Pairing = pairedInferred
	}
	if p.Spec.Group != "" {
		v.Groups = []group{}
	}
	for i := range c.Groups {
		v.Groups = append(v.Groups, groupOf(&c.Groups[i], p.Spec.DMax()))
	}
	return v
}

func groupOf(g *outcome.Group, dMax time.Duration) group {
	out := group{
		Key:       g.Key,
		Name:      g.Name,
		N:         g.Instances(),
		OK:        g.Successes,
		Failed:    g.Failures,
		Timeout:   g.Timeouts,
		Total:     g.Total.Seconds(),
		Quantiles: make(map[string]*[2]float64),
		Amount:    g.Amount,
	}
	for _, q := range scope.Quantiles() {
		var bounds *[2]float64
		if within, ok := scope.GroupQuantile(g, q, dMax); ok {
			bounds = &[2]float64{within.Lo.Seconds(), within.Hi.Seconds()}
		}
		out.Quantiles[quantileName(q)] = bounds
	}
	return out
}

// groupsInText is how many groups are shown of each probe.
const groupsInText = 10

// groupRows writes a row for each of the groups below their probe, those that took
// longest, and one for all others.
func (c columns) groupRows(p *scope.Probe) {
	top, rest, others := scope.TopGroups(p.Counts.Groups, groupsInText)
	for i := range top {
		c.groupRow(p, groupLabel(&top[i]), &top[i])
	}
	if others > 0 {
		c.groupRow(p, "others", &rest)
	}
}

// groupLabel names a group for people.
func groupLabel(g *outcome.Group) string {
	if g.Name == "" || g.Name == g.Key {
		return modname.Readable(g.Key)
	}
	return modname.Readable(g.Key + " " + g.Name)
}

// groupRow writes the row of a group of a probe.
func (c columns) groupRow(p *scope.Probe, label string, g *outcome.Group) {
	n := g.Instances()
	c.cell(label)
	c.cell(n)
	for _, q := range scope.Quantiles() {
		c.cell(groupQuantile(g, q, p.Spec.DMax()))
	}
	if c.judged {
		c.cell("")
	}
	if n == 0 {
		c.cell("-")
	} else {
		c.cell(figures.Percent(float64(g.Successes) / float64(n)))
	}
	c.cells(g.Failures, g.Timeouts, "", "", "")
	c.amount(g.Amount, p.Counts.Amount)
	c.end(figures.Delay(g.Total) + " in all")
}

// groupQuantile shows the upper bound of a quantile, as of a probe.
func groupQuantile(g *outcome.Group, q float64, dMax time.Duration) string {
	within, ok := scope.GroupQuantile(g, q, dMax)
	switch {
	case ok:
		return figures.AtMost(within.Hi)
	case g.Instances() == 0:
		return "-"
	}
	return "∞"
}
