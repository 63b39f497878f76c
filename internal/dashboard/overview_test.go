package dashboard

import (
	"testing"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/scope"
)

// A probe is judged by what was observed, and says so where that is calculated.
func TestVerdict(t *testing.T) {
	yes, no := &dq.Judgement{Met: dq.Yes}, &dq.Judgement{Met: dq.No}
	for _, test := range []struct {
		probe scope.Probe
		text  string
		tone  tone
	}{
		{scope.Probe{}, "", dim},
		{scope.Probe{Judgement: yes, CalculatedJudgement: no}, "met", good},
		{scope.Probe{Judgement: no, CalculatedJudgement: yes}, "VIOLATED", bad},
		{scope.Probe{Judgement: no, Insufficient: "few"}, "too few", doubtful},
		{scope.Probe{Judgement: &dq.Judgement{Met: dq.CannotTell}}, "open", doubtful},
		{scope.Probe{CalculatedJudgement: no, Insufficient: "no instances"}, "calculated: VIOLATED", bad},
		{scope.Probe{CalculatedJudgement: yes, CalculatedInsufficient: "few"}, "calculated: too few", doubtful},
	} {
		if text, n := verdict(&test.probe); text != test.text || n != test.tone {
			t.Errorf("%+v: %q in tone %d, want %q in %d", test.probe, text, n, test.text, test.tone)
		}
	}
}
