package scope

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/beamscope/beamscope/dq"
)

// isTrue is the setting of triggers that need no limit.
const isTrue = "true"

// A load trigger fires if more instances end in a window than its limit (thesis, 4.5.1).
type load struct{ limit uint64 }

func parseLoad(setting string) (Trigger, error) {
	limit, err := strconv.ParseUint(setting, 10, 53)
	if err != nil {
		return nil, fmt.Errorf("%q: write how many instances a window may have, as in 5000", setting)
	}
	return load{limit}, nil
}

func (t load) Kind() string                        { return "load" }
func (t load) Setting() string                     { return strconv.FormatUint(t.limit, 10) }
func (t load) Possible(*OutcomeSystem, bool) error { return nil }
func (t load) Patience() int                       { return 1 }

func (t load) Check(p *Outcome) State { return alarmIf(p.Counts.Instances() > t.limit) }

func (t load) Cause(p *Outcome) string {
	return fmt.Sprintf("%d instances in a window, more than %d", p.Counts.Instances(), t.limit)
}

// A qta trigger fires if the observed ΔQ violates the QTA (thesis, 4.5.2).
type qta struct{}

func parseQTA(setting string) (Trigger, error) {
	if setting != isTrue {
		return nil, fmt.Errorf("%q: write true or false; what is required is written under qta of the outcome", setting)
	}
	return qta{}, nil
}

func (qta) Kind() string    { return "qta" }
func (qta) Setting() string { return isTrue }
func (qta) Patience() int   { return 1 }

func (qta) Possible(p *OutcomeSystem, _ bool) error { return requiring(p) }

// requiring returns an error if an outcome has no requirement.
func requiring(p *OutcomeSystem) error {
	if p.QTA == nil {
		return fmt.Errorf("nothing is required of %s: write qta beside triggers, as in qta: {p50: 12ms}", p.Spec.Name)
	}
	return nil
}

func (qta) Check(p *Outcome) State {
	if p.Insufficient != "" || p.Judgement == nil {
		return Insufficient
	}
	return alarmIf(p.Judgement.Met == dq.No)
}

func (qta) Cause(p *Outcome) string {
	return "the observed ΔQ violates the QTA: " + lacks(p.Judgement)
}

// A failure trigger fires if a larger share of the instances than its limit does not succeed.
type failure struct{ limit float64 }

func parseFailure(setting string) (Trigger, error) {
	limit, err := parseShare(setting)
	if err != nil {
		return nil, fmt.Errorf("%q: write the share of instances that may fail or time out, from 0 to below 1, as in 0.05%s", setting, Meant(setting))
	}
	return failure{limit}, nil
}

func (t failure) Kind() string                        { return "failure" }
func (t failure) Setting() string                     { return formatShare(t.limit) }
func (t failure) Possible(*OutcomeSystem, bool) error { return nil }
func (t failure) Patience() int                       { return 1 }

func (t failure) Check(p *Outcome) State {
	if p.Insufficient != "" {
		return Insufficient
	}
	return alarmIf(failureRate(p) > t.limit)
}

func (t failure) Cause(p *Outcome) string {
	rate, limit := distinct(failureRate(p)*100, t.limit*100)
	return fmt.Sprintf("%s %% failed or timed out, more than %s %%", rate, limit)
}

// distinct formats two numbers with as many digits as distinguish them: at least three, and at
// most 15 because further digits may be rounding errors.
func distinct(x, y float64) (a, b string) {
	for digits := 3; digits <= 15; digits++ {
		a, b = fmt.Sprintf("%.*g", digits, x), fmt.Sprintf("%.*g", digits, y)
		if a != b {
			break
		}
	}
	return a, b
}

// failureRate returns the share of instances that did not succeed.
func failureRate(p *Outcome) float64 {
	return float64(p.Counts.Failures+p.Counts.Timeouts) / float64(max(1, p.Counts.Instances()))
}

// A hazard trigger fires if the observed or the calculated ΔQ violates the QTA, or meets it with
// less slack in probability than its limit. A slack equal to the limit is enough, by
// [dq.AtLeast].
type hazard struct{ slack float64 }

func parseHazard(setting string) (Trigger, error) {
	if setting == isTrue {
		return hazard{}, nil
	}
	slack, err := parseShare(setting)
	if err != nil || slack == 0 {
		return nil, fmt.Errorf("%q: write true, or the slack in probability that has to be left, as in 0.05", setting)
	}
	return hazard{slack}, nil
}

func (t hazard) Kind() string { return "hazard" }

func (t hazard) Setting() string {
	if t.slack == 0 {
		return isTrue
	}
	return formatShare(t.slack)
}

func (t hazard) Patience() int { return 2 }

func (t hazard) Possible(p *OutcomeSystem, _ bool) error {
	if err := requiring(p); err != nil {
		return err
	}
	most := p.QTA.MaxFailure()
	for _, s := range p.QTA.Steps() {
		most = min(most, 1-s.P)
	}
	if !dq.AtLeast(most, t.slack) {
		return fmt.Errorf("with this QTA the slack is %.3g where everything succeeds at once: write less, or true", most)
	}
	return nil
}

func (t hazard) Check(p *Outcome) State {
	observed := t.state(p.Judgement, p.Insufficient)
	calculated := t.state(p.CalculatedJudgement, p.CalculatedInsufficient)
	switch {
	case observed == Alarm || calculated == Alarm:
		return Alarm
	case observed == Quiet || calculated == Quiet:
		return Quiet
	}
	return Insufficient
}

func (t hazard) state(j *dq.Judgement, insufficient string) State {
	if j == nil || insufficient != "" {
		return Insufficient
	}
	return alarmIf(j.Met == dq.No || j.Slack != nil && !dq.AtLeast(j.Slack.Probability, t.slack))
}

func (t hazard) Cause(p *Outcome) string {
	which, j := "observed", p.Judgement
	if t.state(p.Judgement, p.Insufficient) != Alarm {
		which, j = "calculated", p.CalculatedJudgement
	}
	if j.Met == dq.No {
		return fmt.Sprintf("the %s ΔQ violates the QTA: %s", which, lacks(j))
	}
	slack, least := distinct(j.Slack.Probability, t.slack)
	return fmt.Sprintf("the %s ΔQ has a slack of %s in probability, less than %s", which, slack, least)
}

// lacks describes where a QTA is violated most, and by how much, based on the upper bound of the
// ΔQ.
func lacks(j *dq.Judgement) string {
	point := j.Points[j.Hazard.ProbabilityAt]
	required := point.Required.P * 100
	most := required + float64(point.Probability.Hi*100) // each part is rounded in the same way, so this cannot be below 0
	succeed, _ := distinct(most, required)
	if point.Final {
		return fmt.Sprintf("%s %% succeed, %.12g %% have to", succeed, required)
	}
	return fmt.Sprintf("%s %% succeed within %v, %.12g %% have to", succeed, point.Required.T, required)
}

// A divergence trigger fires if the observed and the calculated ΔQ differ by more than
// discretisation and chance explain. Then the components depend on each other, or the diagram is
// wrong.
type divergence struct{ distance float64 }

// divergenceDistance is the default of the least distance that matters.
const divergenceDistance = 0.05

func parseDivergence(setting string) (Trigger, error) {
	if setting == isTrue {
		return divergence{divergenceDistance}, nil
	}
	distance, err := parseShare(setting)
	if err != nil || distance == 0 {
		return nil, fmt.Errorf("%q: write true, or how far the probabilities may be apart, as in 0.1", setting)
	}
	return divergence{distance}, nil
}

func (t divergence) Kind() string { return "divergence" }

func (t divergence) Setting() string {
	if t.distance == divergenceDistance {
		return isTrue
	}
	return formatShare(t.distance)
}

func (t divergence) Patience() int { return 1 } // it compares three runs of windows itself

func (t divergence) Possible(p *OutcomeSystem, calculated bool) error {
	return calculable(p, calculated)
}

// calculable returns an error if an outcome is not calculated.
func calculable(p *OutcomeSystem, calculated bool) error {
	if !calculated {
		return fmt.Errorf("%s is not calculated: only the definitions and operators of a diagram are", p.Spec.Name)
	}
	return nil
}

func (t divergence) Check(p *Outcome) State {
	if p.Divergence == nil || !p.comparable() {
		return Insufficient
	}
	d := p.Divergence
	return alarmIf(d.Lasting >= t.distance)
}

func (t divergence) Cause(p *Outcome) string {
	d := p.Divergence
	how := "faster than"
	if d.Slower {
		how = "slower than, or fails more than,"
	}
	return fmt.Sprintf("over %d windows the observed ΔQ is %s the calculated one: the probabilities are %.3g apart at %v, at least %.3g whatever the bins hide",
		p.DivergenceWindows, how, d.Nominal, d.At, thousandths(d.Distance.Lo))
}

// thousandths rounds a lower bound down to thousandths, with an allowance for binary rounding.
func thousandths(x float64) float64 { return math.Floor(x*1000+1e-6) / 1000 }

// A loss trigger fires if more was lost in a window than its limit.
type loss struct{ limit uint64 }

func parseLoss(setting string) (Trigger, error) {
	if setting == isTrue {
		return loss{}, nil
	}
	limit, err := strconv.ParseUint(setting, 10, 53)
	if err != nil || limit == 0 {
		return nil, fmt.Errorf("%q: write true, or how many may be lost in a window, as in 10", setting)
	}
	return loss{limit}, nil
}

func (t loss) Kind() string { return "loss" }

func (t loss) Setting() string {
	if t.limit == 0 {
		return isTrue
	}
	return strconv.FormatUint(t.limit, 10)
}

func (t loss) Possible(*OutcomeSystem, bool) error { return nil }
func (t loss) Patience() int                       { return 1 }

func (t loss) Check(p *Outcome) State {
	return alarmIf(p.Counts.Loss.Total() > t.limit || p.Counts.Unobserved)
}

func (t loss) Cause(p *Outcome) string {
	if p.Counts.Unobserved {
		return fmt.Sprintf("the window was not observed as a whole; %d lost besides", p.Counts.Loss.Total())
	}
	return fmt.Sprintf("%d lost, more than %d", p.Counts.Loss.Total(), t.limit)
}

func alarmIf(yes bool) State {
	if yes {
		return Alarm
	}
	return Quiet
}

// parseShare parses a number from 0 to below 1.
func parseShare(setting string) (float64, error) {
	x, err := strconv.ParseFloat(setting, 64)
	if err != nil || !(x >= 0 && x < 1) {
		return 0, strconv.ErrRange
	}
	return x, nil
}

// Meant returns a question for the end of an error message: whether the user meant a share. It
// does so if the text is a percentage, which scope files do not support, and returns ""
// otherwise.
func Meant(setting string) string {
	digits, ok := strings.CutSuffix(strings.TrimSpace(setting), "%")
	x, err := strconv.ParseFloat(strings.TrimSpace(digits)+"e-2", 64) // exact, unlike a division
	if !ok || err != nil || !(x >= 0 && x <= 1) {
		return ""
	}
	return ": did you mean " + formatShare(x) + "?"
}

func formatShare(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
