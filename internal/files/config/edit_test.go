package config_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/files/config"
)

// No edits change nothing.
func TestEditedNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyConfig(t)
		edited, err := c.Edited()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, edited); diff != "" {
			t.Error(diff)
		}
	})
}

func TestEdited(t *testing.T) {
	c, err := config.Parse("scope.yaml", []byte("diagram: p = a -> b\noutcomes: {p: {dmax: 1s, qta: {p50: 10ms}}, history: {}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		edits []config.Edit
		want  func(*config.Config)
		key   string // key in the error
	}{
		{"a value", edits("500ms", "window"), func(c *config.Config) { c.Window = 500 * time.Millisecond }, ""},
		{"a key that is also the name of an outcome", edits("7", "history"), func(c *config.Config) { c.History = 7 }, ""},
		{"a key is removed", edits("", "outcomes", "p", "qta"), func(c *config.Config) { c.Outcomes[0].QTA = nil }, ""},
		{"a missing key is removed", edits("", "samples"), func(*config.Config) {}, ""},
		{"a new point", edits("20ms", "outcomes", "p", "qta", "p99.5"), func(c *config.Config) {
			c.Outcomes[0].QTA.Points = append(c.Outcomes[0].QTA.Points, dq.Step{T: 20 * time.Millisecond, P: 0.995})
		}, ""},
		{"a new outcome", edits("2ms", "outcomes", "a", "qta", "points", "1"), func(c *config.Config) {
			c.Outcomes = append(c.Outcomes, config.Outcome{
				Name: "a", Span: "a", Scale: config.Scale{Bins: config.DefaultBins},
				QTA: &config.QTA{Points: []dq.Step{{T: 2 * time.Millisecond, P: 1}}, Failure: 1},
			})
		}, ""},
		{"not a duration", edits("soon", "window"), nil, "window"},
		{"YAML as a value", edits("{p25: 1ms}", "outcomes", "p", "qta", "p25"), nil, "outcomes.p.qta.p25"},
		{"above dMax", edits("1.5s", "outcomes", "p", "qta", "p75"), nil, "outcomes.p.qta.p75"},
		{"both", edits("0", "outcomes", "p", "exponent"), nil, "outcomes.p"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := c.Edited(test.edits...)
			if test.want == nil {
				var at *config.Error
				if !errors.As(err, &at) || at.Path != test.key || at.Line != 0 {
					t.Errorf("error %v, want one of %s", err, test.key)
				}
				return
			}
			want := c.Clone()
			test.want(&want)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("error %v\n%s", err, diff)
			}
		})
	}
}

func edits(value string, path ...string) []config.Edit {
	return []config.Edit{{Path: path, Value: value}}
}

func TestOutcome(t *testing.T) {
	c, err := config.Parse("scope.yaml", []byte("outcomes: {a: {span: x}}"))
	if err != nil {
		t.Fatal(err)
	}
	if o := c.Outcome("a"); o.Span != "x" {
		t.Errorf("%+v, want its entry", o)
	}
	if diff := cmp.Diff(config.Outcome{Name: "b", Span: "b", Scale: config.Scale{Bins: 50}}, c.Outcome("b")); diff != "" {
		t.Error(diff)
	}
}
