package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/internal/files/config"
)

// An outcome gets an entry only when it is changed. Triggers are set as in a scope file.
func TestEntry(t *testing.T) {
	c := parse(t, "diagram: p = a -> b\noutcomes:\n  a: {triggers: {load: 10}}\n")
	changed := c.Clone()
	b := changed.Entry("b")
	for _, step := range [][2]string{{"load", "5"}, {"failure", " 0.10 "}, {"load", "false"}, {"divergence", "false"}} {
		if err := b.SetTrigger(step[0], step[1]); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]config.Trigger{{Kind: "failure", Setting: "0.1"}}, b.Triggers); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	const want = `"many": write how many instances a window may have, as in 5000`
	if err := b.SetTrigger("load", "many"); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if len(c.Outcomes) != 1 || len(changed.Outcomes) != 2 {
		t.Errorf("%d entries, and %d in the one that was changed", len(c.Outcomes), len(changed.Outcomes))
	}
	if setting, on := changed.Entry("a").Trigger("load"); setting != "10" || !on {
		t.Errorf("load of a is %q", setting)
	}
	system(t, changed)
}
