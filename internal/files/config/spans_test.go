package config_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/files/config"
)

// Outcomes get the names of their spans as far as these are valid, and all names differ. The
// result can be saved and loaded.
func TestWithSpan(t *testing.T) {
	c := config.Default()
	c.Diagram = "p = a -> b\n"
	c.Outcomes = []config.Outcome{{Name: "tcp", Wrapper: "over_tcp", Scale: config.Scale{Bins: 50}}}
	c.Wrapper.Listen = config.DefaultListen
	long := strings.Repeat("x", 255)
	for _, test := range []struct{ span, name string }{
		{"checkout", "checkout"},
		{"over_tcp", "over_tcp"}, // a different kind of spans
		{"tcp", "tcp_2"},
		{"größe", "größe"},
		{"gr__e", "gr__e"},
		{"gr €", "gr__"},
		{"日本語", "日本語"},
		{"ключ", "ключ"},
		{"こんにちは 世界", "こんにちは_世界"},
		{"a_b", "a_b"},
		{"a/b", "a_b_2"},
		{"a-b", "a_b_3"},
		{"a\u0301", "a\u0301"},
		{"\u0301a", "_\u0301a"},
		{"٣", "_٣"},
		{"a\u200bb", "a_b_4"}, // a character of zero width
		{"\u202eab", "_ab"},   // a right-to-left mark
		{"1st", "_1st"},
		{"null", "null"},
		{"{a: 'b'}\n\"c\"\u2028\ufeff\x7f", "_a___b____c____"},
		{long, long},
		{"-" + long[1:], "_" + long[1:]},
		{"日" + long[3:], "日" + long[3:]},
		{"?" + long[1:], "_" + long[3:] + "_2"},
		{strings.Repeat("日", 85), strings.Repeat("日", 85)},
		{strings.Repeat("日", 84) + "!", strings.Repeat("日", 84) + "_"},
		{strings.Repeat("日", 84) + "?", strings.Repeat("日", 84) + "__2"},
	} {
		before := c
		var err error
		if c, err = c.WithSpan(test.span, config.Scale{Bins: 1000}); err != nil {
			t.Fatal(err)
		}
		if len(c.Outcomes) != len(before.Outcomes)+1 {
			t.Fatalf("%q: %d outcomes after %d", test.span, len(c.Outcomes), len(before.Outcomes))
		}
		want := config.Outcome{Name: test.name, Span: test.span, Scale: config.Scale{Bins: 1000}}
		if diff := cmp.Diff(want, c.Outcomes[len(c.Outcomes)-1]); diff != "" {
			t.Errorf("%q: -want +got:\n%s", test.span, diff)
		}
	}
	for _, span := range []string{"a", "p", "checkout", "1st"} {
		if _, err := c.WithSpan(span, config.Scale{Bins: 1}); !errors.Is(err, config.ErrObserved) {
			t.Errorf("%q: error %v, want one that wraps ErrObserved", span, err)
		}
	}
	for _, span := range []string{"", "a\x00b", long + "x", "\xff"} {
		if _, err := c.WithSpan(span, config.Scale{Bins: 1}); !errors.Is(err, config.ErrSpan) {
			t.Errorf("%q: error %v, want one that wraps ErrSpan", span, err)
		}
	}

	path := filepath.Join(t.TempDir(), "scope.yaml")
	if err := c.Save(path); err != nil {
		t.Fatal(err)
	}
	loaded, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c.Outcomes, loaded.Outcomes); diff != "" {
		t.Errorf("saved and loaded, -want +got:\n%s", diff)
	}
}

// The number of names on one label is limited.
func TestWithSpansOnOneLabel(t *testing.T) {
	c := config.Default()
	added := 0
	for i := 0; added <= bpf.NamesPerLabel; i++ {
		span := fmt.Sprintf("span_%d", i)
		if bpf.Label(span) != 1 {
			continue
		}
		with, err := c.WithSpan(span, config.Scale{Bins: 1})
		if full := added == bpf.NamesPerLabel; errors.Is(err, config.ErrSpan) != full {
			t.Fatalf("name %d on a label: error %v", added+1, err)
		}
		c = with
		added++
	}
}

// A configuration with the largest number of outcomes accepts no more.
func TestFull(t *testing.T) {
	c := config.Default()
	for i := range config.MaxOutcomes {
		name := fmt.Sprint("o", i)
		c.Outcomes = append(c.Outcomes, config.Outcome{Name: name, Span: name, Scale: config.Scale{Bins: 1}})
	}
	if s := system(t, c); len(s.Outcomes) != config.MaxOutcomes {
		t.Errorf("%d probes", len(s.Outcomes))
	}
	if _, err := c.WithSpan("one more", config.Scale{Bins: 1}); !errors.Is(err, config.ErrFull) {
		t.Errorf("spans: error %v", err)
	}
	if _, err := c.WithBuiltin("gc", config.Scale{Bins: 1}); !errors.Is(err, config.ErrFull) {
		t.Errorf("builtin: error %v", err)
	}
}

// The file of a configuration without outcomes shows that explicitly, and its system has no
// outcomes.
func TestNoOutcomes(t *testing.T) {
	c := config.Default()
	if text := string(c.Format()); text != "window: 1s\nbase: 1ms\noutcomes: {}\n" {
		t.Errorf("formatted:\n%s", text)
	}
	again := parse(t, string(c.Format()))
	again.Dir = c.Dir
	if diff := cmp.Diff(c, again); diff != "" {
		t.Errorf("formatted and parsed, -want +got:\n%s", diff)
	}
	if s := system(t, c); len(s.Outcomes) != 0 {
		t.Errorf("%d probes", len(s.Outcomes))
	}
}

// The setting for all outcomes applies to all outcomes of spans, except those with their own
// setting.
func TestExplainedNames(t *testing.T) {
	const file = "explain: %v\ndiagram: p = a -> b\noutcomes: {on: {explain: true}, off: {explain: false}, tcp: {wrapper: x}, gc: {vm: gc}, as_all: {}}\n"
	for explain, want := range map[bool][]string{
		false: {"on"},
		true:  {"on", "as_all", "p", "a", "b"},
	} {
		c, err := config.Parse("scope.yaml", fmt.Appendf(nil, file, explain))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, c.Explained()); diff != "" {
			t.Errorf("explain: %v: %s", explain, diff)
		}
	}
}
