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
	w.field(0, "target", flow(c.target()))
	w.diagram(c)
	w.field(0, "window", FormatDuration(c.Window))
	w.field(0, "base", FormatDuration(c.Base))
	for _, f := range c.changed() {
		w.field(0, f.key, f.value)
	}
	w.field(0, "wrapper", flow(c.Wrapper.fields()))
	w.field(0, "snapshots", flow(c.Snapshots.changed()))
	if len(c.Outcomes) > 0 {
		w.WriteString("outcomes:\n")
	} else if all, _, err := c.outcomes(); err == nil && len(all) == 0 {
		w.field(0, "outcomes", "{}")
	}
	for _, o := range c.Outcomes {
		w.outcome(o, notes[o.Name])
	}
	return w.Bytes()
}

// A field is a key and its value in written form.
type field struct{ key, value string }

func (c Config) target() []field {
	var fields []field
	switch {
	case c.Target.PID != 0:
		fields = append(fields, field{"pid", strconv.Itoa(c.Target.PID)})
	case c.Target.Node != "":
		fields = append(fields, field{"node", quote(c.Target.Node)})
	case c.Target.Exe != "":
		fields = append(fields, field{"exe", quote(c.Target.Exe)})
	}
	if c.Target.User != "" {
		fields = append(fields, field{"user", quote(c.Target.User)})
	}
	return fields
}

// changed returns the fields that differ from the defaults.
func (c Config) changed() []field {
	d := Default()
	return differing(
		[]field{
			{"history", strconv.Itoa(c.History)},
			{"confidence", formatNumber(c.Confidence)},
			{"standard_errors", formatNumber(c.StandardErrors)},
			{"samples", strconv.FormatUint(c.Samples, 10)},
			{"hold_off", FormatDuration(c.HoldOff)},
			{"explain", strconv.FormatBool(c.Explain)},
		},
		c.History != d.History, c.Confidence != d.Confidence, c.StandardErrors != d.StandardErrors, c.Samples != d.Samples, c.HoldOff != d.HoldOff, c.Explain != d.Explain)
}

func (s Snapshots) changed() []field {
	d := defaultSnapshots()
	return differing(
		[]field{
			{"dir", quote(s.Dir)},
			{"before", strconv.Itoa(s.Before)},
			{"after", FormatDuration(s.After)},
			{"keep", strconv.Itoa(s.Keep)},
			{"size", formatSize(s.Size)},
		},
		s.Dir != d.Dir, s.Before != d.Before, s.After != d.After, s.Keep != d.Keep, s.Size != d.Size)
}

// differing returns those fields that differ from a default.
func differing(fields []field, differ ...bool) []field {
	var out []field
	for i, f := range fields {
		if differ[i] {
			out = append(out, f)
		}
	}
	return out
}

func (w Wrapper) fields() []field {
	if w.Listen == "" {
		return nil
	}
	fields := []field{{"listen", quote(w.Listen)}}
	if len(w.Connect) > 0 {
		words := make([]string, len(w.Connect))
		for i, address := range w.Connect {
			words[i] = quote(address)
		}
		fields = append(fields, field{"connect", "[" + strings.Join(words, ", ") + "]"})
	}
	if w.Remote {
		fields = append(fields, field{"remote", "true"})
	}
	return fields
}

// origin returns the fields for the source of an outcome's instances.
func (o Outcome) origin() []field {
	var fields []field
	switch {
	case o.VM.Builtin != "":
		fields = []field{{"vm", quote(o.VM.Builtin)}}
	case o.ofVM():
		fields = []field{{"start", quote(o.VM.Start)}, {"end", quote(o.VM.End)}}
		if key := keyField(o.VM); key != "" {
			fields = append(fields, field{"key", key})
		}
		if o.VM.Pairing != defaultPairing {
			fields = append(fields, field{"pair", o.VM.Pairing.String()})
		}
	case o.Wrapper != "":
		fields = []field{{"wrapper", quote(o.Wrapper)}}
	default:
		fields = []field{{"span", quote(o.Span)}}
	}
	if o.Group != "" {
		fields = append(fields, field{"group", quote(o.Group)})
	}
	return fields
}

// keyField returns the value of the key of events, or "" for the default.
func keyField(e outcome.Events) string {
	switch {
	case e.StartKey == "" && e.EndKey == "":
		return ""
	case e.StartKey == e.EndKey:
		return quote(e.StartKey)
	}
	return flow([]field{{"start", quote(e.StartKey)}, {"end", quote(e.EndKey)}})
}

func (s Scale) fields() []field {
	fields := []field{{"exponent", strconv.Itoa(s.Exponent)}, {"bins", strconv.Itoa(s.Bins)}}
	if s.DMax != 0 {
		fields[0] = field{"dmax", FormatDuration(s.DMax)}
	}
	if s.Fitted {
		fields = append(fields, field{"fitted", "true"})
	}
	return fields
}

// fields writes points as quantiles, unless one of them is for all executions, which has no name
// as a quantile.
func (q *QTA) fields() []field {
	var fields, points []field
	last := len(q.Points) - 1
	for _, p := range q.Points {
		if q.Points[last].P == 1 {
			points = append(points, field{formatNumber(p.P), FormatDuration(p.T)})
		} else {
			fields = append(fields, field{FormatQuantile(p.P), FormatDuration(p.T)})
		}
	}
	if points != nil {
		fields = append(fields, field{"points", flow(points)})
	}
	if q.Failure != 1 || fields == nil {
		fields = append(fields, field{"failure", formatNumber(q.Failure)})
	}
	return fields
}

func triggerFields(triggers []Trigger) []field {
	var fields []field
	for _, t := range triggers {
		fields = append(fields, field{t.Kind, quote(t.Setting)})
	}
	return fields
}

// flow writes fields on one line, or returns "" without fields.
func flow(fields []field) string {
	if len(fields) == 0 {
		return ""
	}
	words := make([]string, len(fields))
	for i, f := range fields {
		words[i] = f.key + ": " + f.value
	}
	return "{" + strings.Join(words, ", ") + "}"
}

// A writer writes YAML.
type writer struct{ bytes.Buffer }

// indent is the indentation below a key.
const indent = "  "

// field writes a line for a key, unless its value is "".
func (w *writer) field(depth int, key, value string) {
	if value != "" {
		fmt.Fprintf(w, "%s%s: %s\n", strings.Repeat(indent, depth), key, value)
	}
}

// outcome writes an outcome, with a note about it if there is one.
func (w *writer) outcome(o Outcome, note string) {
	fmt.Fprintf(w, "%s%s:\n", indent, quote(o.Name))
	if note != "" {
		fmt.Fprintf(w, "%s# %s\n", indent+indent, safetext.Line(strings.Join(strings.Fields(note), " ")))
	}
	for _, f := range o.origin() {
		w.field(2, f.key, f.value)
	}
	for _, f := range o.Scale.fields() {
		w.field(2, f.key, f.value)
	}
	if o.ExitFails {
		w.field(2, "exit", "failure")
	}
	if o.Explain != AsAll {
		w.field(2, "explain", strconv.FormatBool(o.Explain == On))
	}
	if o.QTA != nil {
		w.field(2, "qta", flow(o.QTA.fields()))
	}
	w.field(2, "triggers", flow(triggerFields(o.Triggers)))
}

func (w *writer) diagram(c Config) {
	switch {
	case c.DiagramFile != "":
		w.field(0, "diagram", quote(c.DiagramFile))
	case c.Diagram != "" && fitsBlock(c.Diagram):
		w.block("diagram", c.Diagram)
	case c.Diagram != "":
		w.field(0, "diagram", quote(c.Diagram))
	}
}

// fitsBlock reports whether a text can be read back unchanged from a block.
func fitsBlock(text string) bool {
	return strings.Trim(text, "\n") != "" &&
		!strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' })
}

// block writes a text unchanged, line by line.
func (w *writer) block(key, text string) {
	fmt.Fprintf(w, "%s: |%s\n", key, blockIndicators(text))
	for line := range strings.Lines(strings.TrimSuffix(text, "\n") + "\n") {
		if line != "\n" {
			w.WriteString(indent)
		}
		w.WriteString(line)
	}
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
