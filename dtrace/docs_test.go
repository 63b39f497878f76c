package dtrace_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/dtrace"
)

// docs is the page that documents expressions and built-in outcomes.
const docs = "../docs/reference/probes.md"

// The documentation of the built-in outcomes matches the code. With UPDATE_GOLDEN set, the test
// writes it.
func TestBuiltinDocs(t *testing.T) {
	const begin, end = "<!-- The built-in outcomes as the code has them. -->\n", "<!-- End of the built-in outcomes. -->\n"
	text, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the built-in outcomes", docs)
	}
	want := builtinDocs()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(docs, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", docs, diff)
	}
}

// The documentation of the builds without probes matches the code. With UPDATE_GOLDEN set, the test
// writes it.
func TestBuildDocs(t *testing.T) {
	const page = "../docs/reference/vm-outcomes.md"
	const begin, end = "<!-- The builds as the code has them. -->\n", "<!-- End of the builds. -->\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the builds", page)
	}
	want := buildDocs()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", page, diff)
	}
}

func buildDocs() string {
	var b strings.Builder
	all := dtrace.Builds()
	for i, build := range all {
		fmt.Fprintf(&b, "%s, build ID `%s`", build.Package, build.ID)
		if i+1 < len(all) && slices.EqualFunc(build.Places, all[i+1].Places, samePlace) {
			b.WriteString(", and\n") // the next build has the same table
			continue
		}
		b.WriteString(":\n\n| event | at | differs from the probe |\n|---|---|---|\n")
		for _, p := range dtrace.Catalogue() {
			var at []string
			for _, place := range build.Places {
				if where := placeText(place); (place.Probe == p.Name || place.Other == p.Name) && !slices.Contains(at, where) {
					at = append(at, where)
				}
			}
			if len(at) > 0 {
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", p.DTraceName(), strings.Join(at, ", "), p.StandIn.Doc)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// samePlace reports whether two places look the same in the documentation.
func samePlace(p, q dtrace.Place) bool {
	return p.Probe == q.Probe && p.Other == q.Other && placeText(p) == placeText(q)
}

func placeText(p dtrace.Place) string {
	if p.Return {
		return "return of `" + p.Function + "`"
	}
	return "`" + p.Function + "`"
}

func builtinDocs() string {
	var b strings.Builder
	b.WriteString("| outcome | from, by way of, to | key | pairing | dMax, bins |\n|---|---|---|---|---|\n")
	for _, o := range dtrace.Builtins() {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s | %s | %s | %v, %d |\n", o.Name, o.Name, path(o.Rule), key(o.Rule), pairing(o.Rule), o.DMax, o.Bins)
	}
	for _, o := range dtrace.Builtins() {
		fmt.Fprintf(&b, "\n#### %s\n", o.Name)
		for _, part := range [][2]string{{"Starts", o.Starts}, {"Ends", o.Ends}, {"Does not see", o.Blind}, {"Costs", o.Cost}} {
			b.WriteString(fold(fmt.Sprintf("- *%s:* %s", part[0], part[1])))
		}
	}
	return b.String()
}

func path(r dtrace.Rule) string {
	if r.RunQueue {
		return "the operating system's scheduler"
	}
	steps := []string{code(r.Start)}
	if r.Arm != nil {
		steps[0] += " after " + code(r.Arm)
	}
	if r.Via != nil {
		steps = append(steps, code(r.Via))
	}
	steps = append(steps, code(r.End))
	if r.Sync != nil {
		steps[len(steps)-1] += " synced by " + code(r.Sync)
	}
	return strings.Join(steps, " → ")
}

func code(e dtrace.Expr) string { return "`" + e.String() + "`" }

func key(r dtrace.Rule) string {
	switch {
	case r.RunQueue:
		return "thread"
	case r.Key.Start == r.Key.End:
		return r.Key.Start
	}
	return r.Key.Start + ", " + r.Key.End
}

func pairing(r dtrace.Rule) string {
	if r.RunQueue {
		return "-"
	}
	return r.Pairing.String()
}

// fold wraps a list item.
func fold(text string) string {
	const columns = 118
	var b strings.Builder
	width := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case width+1+n > columns:
			b.WriteString("\n  ")
			width = 2
		default:
			b.WriteByte(' ')
			width++
		}
		b.WriteString(word)
		width += n
	}
	return b.String() + "\n"
}

// Every expression in the documentation is valid, and each example of an error is an error.
func TestExpressionDocs(t *testing.T) {
	text, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	_, text1, _ := strings.Cut(string(text), "## Expressions\n")
	section, _, _ := strings.Cut(text1, "\n## ")
	blocks := regexp.MustCompile("(?s)```(\\w*)\n(.*?)```").FindAllStringSubmatch(section, -1)
	if len(blocks) != 2 {
		t.Fatalf("%d examples, want expressions and an error", len(blocks))
	}
	for line := range strings.Lines(blocks[0][2]) {
		if _, err := dtrace.ParseExpr(strings.TrimSpace(line)); err != nil {
			t.Error(err)
		}
	}
	_, wrong, _ := strings.Cut(blocks[1][2], "\n")
	wrong, _, _ = strings.Cut(wrong, "\n")
	_, err = dtrace.ParseExpr(wrong)
	if err == nil || err.Error()+"\n" != blocks[1][2] {
		t.Errorf("%v, want\n%s", err, blocks[1][2])
	}
}
