package config_test

import (
	"strings"
	"testing"

	"github.com/beamscope/beamscope/internal/files/config"
)

// A scope file keeps the fact that beamscope chose a scale, until the user sets another scale.
func TestFitted(t *testing.T) {
	c, err := config.Parse("scope.yaml", []byte("outcomes:\n  a: {span: a, dmax: 50ms, bins: 50, fitted: true}\n"))
	if err != nil {
		t.Fatal(err)
	}
	fitted := func(c config.Config) bool {
		t.Helper()
		again, err := config.Parse("scope.yaml", c.Format())
		if err != nil {
			t.Fatal(err)
		}
		system, err := again.System()
		if err != nil {
			t.Fatal(err)
		}
		return system.Outcomes[0].Fitted
	}
	if !fitted(c) {
		t.Errorf("no sign that it was fitted:\n%s", c.Format())
	}
	required, err := c.Edited(config.Edit{Path: []string{"outcomes", "a", "qta", "failure"}, Value: "0.1"})
	if err != nil || !fitted(required) {
		t.Errorf("%v: another edit:\n%s", err, required.Format())
	}
	for key, value := range map[string]string{"dmax": "100ms", "bins": "10"} {
		set, err := c.Edited(config.Edit{Path: []string{"outcomes", "a", key}, Value: value})
		if err != nil || fitted(set) || strings.Contains(string(set.Format()), "fitted") {
			t.Errorf("%v: %s was set:\n%s", err, key, set.Format())
		}
	}
}
