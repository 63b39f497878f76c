package export

import (
	"fmt"

	"github.com/beamscope/beamscope/internal/figures"
	"github.com/beamscope/beamscope/internal/scope"
)

// Slower says, for people, which share of the instances took longer than a dMax that
// beamscope chose; "" where none did, or somebody else chose it.
func Slower(p *scope.Probe) string {
	n := p.Slower()
	if n == 0 {
		return ""
	}
	share := float64(n) / float64(p.Counts.Instances())
	return fmt.Sprintf("%s took longer than %v, a limit that beamscope chose; set dmax in a scope file", figures.Percent(share), p.Spec.DMax())
}

// SlowerThan shows a dMax that beamscope chose as the least that something took.
func SlowerThan(p *scope.Probe) string { return ">" + p.Spec.DMax().String() }
