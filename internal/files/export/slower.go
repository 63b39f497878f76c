package export

import (
	"fmt"

	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/engine/scope"
)

// Slower describes which share of the instances took longer than a dMax that beamscope chose. It
// returns "" if none did, or if the user set dMax. brief is the same in about 65 columns.
func Slower(p *scope.Outcome) (text, brief string) {
	n := p.Slower()
	if n == 0 {
		return "", ""
	}
	share := figures.Percent(float64(n) / float64(p.Counts.Instances()))
	const unknown = "how they ended is not known"
	text = fmt.Sprintf("%s took longer than %v, a limit that beamscope chose: %s. Set dmax in a scope file", share, p.Spec.DMax(), unknown)
	brief = fmt.Sprintf("%s took %s; %s: set dmax", share, SlowerThan(p), unknown)
	return text, brief
}

// Failures formats the number of instances of an outcome that failed. longer is the number of
// instances that took longer than dMax. If beamscope chose dMax, the result is a lower bound,
// because these instances may have failed too.
func Failures(p *scope.Outcome, failed, longer uint64) string {
	if p.Fitted && longer > 0 {
		return fmt.Sprintf("≥%d", failed)
	}
	return fmt.Sprint(failed)
}

// SlowerThan formats a dMax that beamscope chose as a lower bound of a delay.
func SlowerThan(p *scope.Outcome) string { return ">" + p.Spec.DMax().String() }
