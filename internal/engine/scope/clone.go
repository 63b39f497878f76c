package scope

import (
	"slices"

	"github.com/beamscope/beamscope/dq"
)

// Clone returns a copy of the frame that stays valid.
func (f *Frame) Clone() *Frame {
	c := *f
	c.Outcomes = slices.Clone(f.Outcomes)
	for i := range c.Outcomes {
		c.Outcomes[i].own()
	}
	c.Fired = slices.Clone(f.Fired)
	c.Notices = slices.Clone(f.Notices)
	return &c
}

// own replaces memory that the outcome shares with the engine by copies.
func (p *Outcome) own() {
	p.Counts.Bins = slices.Clone(p.Counts.Bins)
	p.Counts.Groups = slices.Clone(p.Counts.Groups)
	for i := range p.Counts.Groups {
		g := &p.Counts.Groups[i]
		g.Delays = slices.Clone(g.Delays)
	}
	p.Observed = p.Observed.Clone()
	p.Mean.Band = cloneBand(p.Mean.Band)
	p.CalculatedMean.Band = cloneBand(p.CalculatedMean.Band)
	if p.Calculated != nil {
		p.Calculated = p.Calculated.Clone()
	}
	if p.Judgement != nil {
		p.Judgement = p.Judgement.Clone()
	}
	if p.CalculatedJudgement != nil {
		p.CalculatedJudgement = p.CalculatedJudgement.Clone()
	}
	if p.Divergence != nil {
		d := *p.Divergence
		p.Divergence = &d
	}
	p.Instances = slices.Clone(p.Instances) // their traces never change
	p.Explained = p.Explained.clone()
	p.Active = slices.Clone(p.Active)
}

func cloneBand(b dq.Band) dq.Band {
	return dq.Band{Mean: slices.Clone(b.Mean), Lo: slices.Clone(b.Lo), Hi: slices.Clone(b.Hi)}
}
