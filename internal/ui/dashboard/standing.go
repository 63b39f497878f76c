package dashboard

import (
	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/engine/scope"
)

// A standing describes whether an outcome meets its QTA.
type standing struct {
	tone tone   // good, bad or doubtful; plain if unknown
	text string // slack or hazard
	note string // a qualification, or ""
}

// judgementOf returns the judgement of an outcome: the one of its observed ΔQ or, if there is none,
// that of the calculated ΔQ. It also returns why the data is insufficient for a judgement. j is
// nil if nothing is judged.
func judgementOf(p *scope.Outcome) (j *dq.Judgement, insufficient string, calculated bool) {
	if p.Judgement != nil {
		return p.Judgement, p.Insufficient, false
	}
	return p.CalculatedJudgement, p.CalculatedInsufficient, true
}

// silence returns for how long no instance of an outcome has ended, such as "silent 17s". It returns
// "" for outcomes that never had an instance, and in the first window without one.
func silence(p *scope.Outcome) string {
	if !p.Seen || p.Silent <= p.Window.Duration() {
		return ""
	}
	return "silent " + p.Silent.String()
}

// standingOf returns the standing of an outcome. It returns false if nothing is judged. A calculated
// ΔQ never makes a silent outcome look healthy.
func standingOf(p *scope.Outcome) (standing, bool) {
	j, insufficient, calculated := judgementOf(p)
	if text := silence(p); text != "" && p.Judgement == nil {
		s := standing{tone: doubtful, text: text}
		if j != nil {
			s.note = calculatedStanding(j, insufficient).text
		}
		return s, true
	}
	switch {
	case j == nil:
		return standing{}, false
	case calculated:
		return calculatedStanding(j, insufficient), true
	}
	return standingBy(j, insufficient), true
}

// standingBy returns the standing according to a judgement, unless the data is insufficient.
func standingBy(j *dq.Judgement, insufficient string) standing {
	s := standing{tone: doubtful, text: marginOf(j), note: insufficient}
	switch {
	case insufficient != "":
	case j.Met == dq.Yes:
		s.tone = good
	case j.Met == dq.No:
		s.tone = bad
	default:
		s.note = "the bounds cannot tell"
	}
	return s
}

// marginOf formats the slack or the hazard, in probability and, if possible, in time. The true
// slack is at least the shown value, so it is rounded down. The true hazard is at most the shown
// value, so it is rounded up.
func marginOf(j *dq.Judgement) string {
	name, m := "slack", j.Slack
	delay, percent := figures.DelayDown, figures.PercentDown
	if m == nil {
		name, m = "hazard", j.Hazard
		delay, percent = figures.DelayUp, figures.PercentUp
	}
	if m.HasTime {
		name += " " + delay(m.Time) + ","
	}
	return name + " " + percent(m.Probability)
}

// worst returns the standing of an outcome in the VM where it is worst.
func worst(f *scope.Frame, name string) (standing, bool) { return worstBy(f, name, standingOf) }

// worstBy is worst with a different function for the standing of an outcome in a VM.
func worstBy(f *scope.Frame, name string, of func(*scope.Outcome) (standing, bool)) (found standing, any bool) {
	for i := range f.Outcomes {
		if f.Outcomes[i].Name != name {
			continue
		}
		if s, ok := of(&f.Outcomes[i]); ok && (!any || severity(s.tone) > severity(found.tone)) {
			found, any = s, true
		}
	}
	return found, any
}

// standingBefore returns the standing that an outcome would have with a QTA that is not in force.
func standingBefore(p *scope.Outcome, q dq.QTA) (standing, bool) {
	if d, err := p.Observed.DeltaQ(); err == nil {
		if j, err := q.Judge(d); err == nil {
			return standingBy(&j, p.Insufficient), true
		}
	}
	if p.Calculated == nil {
		return standing{}, false
	}
	j, err := q.Judge(p.Calculated)
	if err != nil {
		return standing{}, false
	}
	return calculatedStanding(&j, p.CalculatedInsufficient), true
}

func calculatedStanding(j *dq.Judgement, insufficient string) standing {
	s := standingBy(j, insufficient)
	s.text = "calculated: " + s.text
	return s
}

func severity(n tone) int {
	switch n {
	case bad:
		return 2
	case doubtful:
		return 1
	}
	return 0
}
