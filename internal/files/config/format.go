package config

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/safetext"
)

// Format writes the configuration as a scope file in canonical form: everything that differs from
// the defaults, and always the window, the base and the scales. Parse reads the result as the
// same configuration. Comments of the original file are lost, except those inside a diagram.
func (c Config) Format() []byte { return c.format(nil) }

// format is Format with notes about outcomes, by name, as comments.
func (c Config) format(notes map[string]string) []byte {
	var w writer
	for _, p := range written(fileFields(), c, Default()) {
		w.pair(0, p)
	}
	if len(c.Outcomes) > 0 {
		w.WriteString("outcomes:\n")
	}
	for _, o := range c.Outcomes {
		w.outcome(o, notes[o.Name])
	}
	return w.Bytes()
}

// A pair is a key and its value in written form.
type pair struct{ key, value string }

func (c Config) target() []pair {
	var pairs []pair
	switch {
	case c.Target.PID != 0:
		pairs = append(pairs, pair{"pid", strconv.Itoa(c.Target.PID)})
	case c.Target.Node != "":
		pairs = append(pairs, pair{"node", quote(c.Target.Node)})
	case c.Target.Exe != "":
		pairs = append(pairs, pair{"exe", quote(c.Target.Exe)})
	}
	if c.Target.User != "" {
		pairs = append(pairs, pair{"user", quote(c.Target.User)})
	}
	return pairs
}

// writtenOutcomes returns {} if no outcome is named. [Config.Format] writes the outcomes themselves.
func (c Config) writtenOutcomes() string {
	if all, _, err := c.outcomes(); len(c.Outcomes) == 0 && err == nil && len(all) == 0 {
		return "{}"
	}
	return ""
}

// pairs returns the keys of the section, or nothing without a connection.
func (w Wrapper) pairs() []pair {
	if w.Listen == "" {
		return nil
	}
	return written(wrapperFields(), w, Wrapper{})
}

// list writes texts as a list, or returns "" without texts.
func list(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	words := make([]string, len(texts))
	for i, text := range texts {
		words[i] = quote(text)
	}
	return "[" + strings.Join(words, ", ") + "]"
}

func (o Outcome) writtenSpan() string {
	if !o.OfSpans() {
		return ""
	}
	return quote(o.Span)
}

func (o Outcome) writtenPairing() string {
	if o.VM.Start == "" || o.VM.Pairing == defaultPairing {
		return ""
	}
	return o.VM.Pairing.String()
}

func (o Outcome) writtenExit() string {
	if !o.ExitFails {
		return ""
	}
	return "failure"
}

func (o Outcome) writtenExplain() string {
	if o.Explain == AsAll {
		return ""
	}
	return strconv.FormatBool(o.Explain == On)
}

// writtenKey returns the value of the key of events, or "" for the default.
func writtenKey(e outcome.Events) string {
	switch {
	case e.StartKey == "" && e.EndKey == "":
		return ""
	case e.StartKey == e.EndKey:
		return quote(e.StartKey)
	}
	return flow([]pair{{"start", quote(e.StartKey)}, {"end", quote(e.EndKey)}})
}

// pairs writes points as quantiles, unless one of them is for all executions, which has no name
// as a quantile. It returns nothing without a requirement.
func (q *QTA) pairs() []pair {
	if q == nil {
		return nil
	}
	var pairs, points []pair
	last := len(q.Points) - 1
	for _, p := range q.Points {
		if q.Points[last].P == 1 {
			points = append(points, pair{formatNumber(p.P), FormatDuration(p.T)})
		} else {
			pairs = append(pairs, pair{FormatQuantile(p.P), FormatDuration(p.T)})
		}
	}
	if points != nil {
		pairs = append(pairs, pair{"points", flow(points)})
	}
	if q.Failure != 1 || pairs == nil {
		pairs = append(pairs, pair{"failure", formatNumber(q.Failure)})
	}
	return pairs
}

func triggerPairs(triggers []Trigger) []pair {
	var pairs []pair
	for _, t := range triggers {
		pairs = append(pairs, pair{t.Kind, quote(t.Setting)})
	}
	return pairs
}

// flow writes pairs on one line, or returns "" without any.
func flow(pairs []pair) string {
	if len(pairs) == 0 {
		return ""
	}
	words := make([]string, len(pairs))
	for i, p := range pairs {
		words[i] = p.key + ": " + p.value
	}
	return "{" + strings.Join(words, ", ") + "}"
}

// A writer writes YAML.
type writer struct{ bytes.Buffer }

// indent is the indentation below a key.
const indent = "  "

// pair writes a line for a key.
func (w *writer) pair(depth int, p pair) {
	fmt.Fprintf(w, "%s%s: %s\n", strings.Repeat(indent, depth), p.key, p.value)
}

// outcome writes an outcome, with a note about it if there is one.
func (w *writer) outcome(o Outcome, note string) {
	fmt.Fprintf(w, "%s%s:\n", indent, quote(o.Name))
	if note != "" {
		fmt.Fprintf(w, "%s# %s\n", indent+indent, safetext.Line(strings.Join(strings.Fields(note), " ")))
	}
	for _, p := range written(outcomeFields(), o, Outcome{}) {
		w.pair(2, p)
	}
}

// writtenDiagram returns the diagram's file, or the diagram itself.
func (c Config) writtenDiagram() string {
	switch {
	case c.DiagramFile != "":
		return quote(c.DiagramFile)
	case c.Diagram != "" && fitsBlock(c.Diagram):
		return block(c.Diagram)
	}
	return quoted(c.Diagram)
}

// fitsBlock reports whether a text can be read back unchanged from a block.
func fitsBlock(text string) bool {
	return strings.Trim(text, "\n") != "" &&
		!strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' })
}

// block returns a text unchanged, line by line.
func block(text string) string {
	var b strings.Builder
	b.WriteString("|" + blockIndicators(text))
	for line := range strings.Lines(strings.TrimSuffix(text, "\n") + "\n") {
		if b.WriteByte('\n'); line != "\n" {
			b.WriteString(indent)
		}
		b.WriteString(strings.TrimSuffix(line, "\n"))
	}
	return b.String()
}

// blockIndicators returns indicators for what a block alone does not show: its indentation if its
// first line is indented, and the number of lines at its end.
func blockIndicators(text string) string {
	s := ""
	if strings.ContainsAny(text[:1], " \t\n") {
		s = strconv.Itoa(len(indent))
	}
	switch {
	case !strings.HasSuffix(text, "\n"):
		s += "-"
	case strings.HasSuffix(text, "\n\n"):
		s += "+"
	}
	return s
}

var plainForm = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_./@:+-]*[A-Za-z0-9_])?$`)

// quoted is quote, but leaves out an empty text.
func quoted(text string) string {
	if text == "" {
		return ""
	}
	return quote(text)
}

// quote quotes a text so that it is read back unchanged. YAML has the same escapes as Go.
func quote(text string) string {
	switch {
	case plainForm.MatchString(text) && !strings.EqualFold(text, "null"):
		return text
	case strings.ContainsRune(text, '"') && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "'" + strings.ReplaceAll(text, "'", "''") + "'" // easier to read
	}
	return strconv.Quote(text)
}
