package session

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/internal/files/config"
)

// Discoveries and fits since the beginning of an edit are kept in its result, unless the edit
// concerns the same outcome.
func TestRebase(t *testing.T) {
	start, fitted, mine := config.Scale{Bins: 1000}, config.Scale{Exponent: -2, Bins: 600}, config.Scale{Bins: 7}
	of := func(name string, s config.Scale) config.Outcome {
		return config.Outcome{Name: name, Span: name, Scale: s}
	}
	with := func(outcomes ...config.Outcome) config.Config {
		c := config.Default()
		c.Outcomes = outcomes
		return c
	}
	renamed := config.Outcome{Name: "b", Span: "mine", Scale: mine}
	required := of("a", start)
	required.QTA = &config.QTA{Failure: 0.1}
	based := with(of("a", start))
	based.Base = 2 * time.Millisecond
	for _, test := range []struct {
		name                  string
		base, edit, now, want config.Config
	}{
		{"nothing", with(), with(), with(), with()},
		{"discovered since", with(of("a", start)), with(of("a", mine)), with(of("a", start), of("b", start)), with(of("a", mine), of("b", start))},
		{"removed", with(of("a", start), of("b", start)), with(of("a", start)), with(of("a", start), of("b", start)), with(of("a", start))},
		{"fitted since", with(of("a", start)), with(of("a", start)), with(of("a", fitted)), with(of("a", fitted))},
		{"fitted, and set by the user", with(of("a", start)), with(of("a", mine)), with(of("a", fitted)), with(of("a", mine))},
		{"fitted, and given a requirement", with(of("a", start)), with(required), with(of("a", fitted)), with(required)},
		{"fitted, and given another base", with(of("a", start)), based, with(of("a", fitted)), based},
		{"another outcome has the name", with(), with(renamed), with(of("b", start)),
			with(renamed, config.Outcome{Name: "b_2", Span: "b", Scale: start})},
		{"not discovered", with(of("z", start)), with(), with(of("z", start)), with()},
	} {
		f := newFinder(nil, config.Config{})
		for _, name := range []string{"a", "b"} {
			f.found[origin{span: name}] = &found{}
		}
		if diff := cmp.Diff(test.want.Outcomes, f.rebase(test.base, test.edit, test.now).Outcomes, cmp.Transformer("some", func(o []config.Outcome) map[string]config.Outcome {
			m := make(map[string]config.Outcome)
			for _, o := range o {
				m[o.Name] = o
			}
			return m
		})); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.name, diff)
		}
	}
}

// An outcome that the user removes is not discovered again until the user adds it. This also
// holds for names in the diagram. A scale that the user sets stays unchanged.
func TestApplied(t *testing.T) {
	f := newFinder(nil, config.Config{})
	a, b, c := origin{span: "a"}, origin{span: "b"}, origin{span: "c"}
	f.found[a], f.found[b], f.found[c] = &found{}, &found{}, &found{}
	before := config.Default()
	before.Diagram = "p = q -> r\n"
	for _, name := range []string{"a", "b", "c"} {
		before.Outcomes = append(before.Outcomes, config.Outcome{Name: name, Span: name, Scale: config.Scale{Bins: 1000}})
	}
	after := before
	after.Diagram = "p = q\n"
	after.Outcomes = []config.Outcome{
		{Name: "b", Span: "b", Scale: config.Scale{DMax: time.Second, Bins: 1000}}, // has the same grid
		{Name: "c", Span: "c", Scale: config.Scale{Bins: 999}},
	}
	f.applied(before, after)
	if diff := cmp.Diff(map[origin]bool{a: true, {span: "r"}: true}, f.dismissed, cmp.AllowUnexported(origin{})); diff != "" {
		t.Errorf("dismissed, -want +got:\n%s", diff)
	}
	if f.found[a] != nil || f.found[b].fixed || !f.found[c].fixed {
		t.Errorf("%+v", f.found)
	}
	f.applied(after, before)
	if len(f.dismissed) != 0 || f.found[a] != nil {
		t.Errorf("added again: dismissed %v, found %v", f.dismissed, f.found)
	}
}
