package dtrace_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/dtrace"
)

// docs is the documentation of expressions and built-in outcomes.
const docs = "../docs/probes.md"

// The documentation of the built-in outcomes is that of the code. With UPDATE_GOLDEN
// set it is written.
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

// fold breaks a list item into lines.
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

// Every expression in the documentation is one, and those that it calls wrong are.
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
