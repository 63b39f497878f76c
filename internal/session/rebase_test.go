package session

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/internal/config"
)

// What was discovered and fitted after somebody began to edit is in what is made of the
// edit, unless it is about the same thing.
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
		{"fitted and set", with(of("a", start)), with(of("a", mine)), with(of("a", fitted)), with(of("a", mine))},
		{"fitted and required of", with(of("a", start)), with(required), with(of("a", fitted)), with(required)},
		{"fitted and of another base", with(of("a", start)), based, with(of("a", fitted)), based},
		{"another of that name", with(), with(renamed), with(of("b", start)),
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

// What somebody removes is not discovered again until somebody adds it, also where it
// is a name of the diagram; a scale that somebody sets is left alone.
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
		{Name: "b", Span: "b", Scale: config.Scale{DMax: time.Second, Bins: 1000}}, // the same grid
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
