package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v4"

	"github.com/beamscope/beamscope/internal/engine/scope"
)

// A value is a place in a scope file.
type value struct {
	node *yaml.Node
	path string
}

// An entry is one key of a mapping with its value.
type entry struct {
	key     string
	keyNode *yaml.Node
	value
}

// at returns the place of the key.
func (e entry) at() value { return value{e.keyNode, e.path} }

// A reader turns values into a configuration.
type reader struct {
	file string
	dir  string // folder of the file
	open func(path string) ([]byte, error)

	composition composition // set once the diagram has been read
}

func (r *reader) errorf(v value, format string, args ...any) error {
	return &Error{File: r.file, Line: v.node.Line, Path: v.path, Text: printable(fmt.Sprintf(format, args...))}
}

// printable returns a text as one line that is safe for a terminal.
func printable(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return text
	}
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// mapping returns the entries of a mapping. Its keys must be different strings.
func (r *reader) mapping(v value) ([]entry, error) {
	node := v.node
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Kind != yaml.MappingNode {
		return nil, r.errorf(v, "%s where keys and values are expected, as in {key: value}", describe(node))
	}
	var entries []entry
	seen := make(map[string]int)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		path := keyName(key.Value)
		if v.path != "" {
			path = v.path + "." + path
		}
		e := entry{key: key.Value, keyNode: key, value: value{node.Content[i+1], path}}
		if key.Kind != yaml.ScalarNode || key.Value == "" {
			return nil, r.errorf(value{key, v.path}, "a key that is not a word")
		}
		if line, twice := seen[key.Value]; twice {
			do := "remove"
			if v.path == "outcomes" {
				do = "rename or remove"
			}
			return nil, r.errorf(e.at(), "is on line %d already: %s one of the two", line, do)
		}
		seen[key.Value] = key.Line
		entries = append(entries, e)
	}
	return entries, nil
}

// keyName formats a key for messages, as one line that is safe for a terminal.
func keyName(key string) string {
	if strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(key)
	}
	return key
}

// isText reports whether the value is a text.
func (v value) isText() bool { return v.node.Kind == yaml.ScalarNode && v.node.Tag != "!!null" }

// fields reads a mapping with known keys.
func (r *reader) fields(v value, known map[string]func(value) error) error {
	entries, err := r.mapping(v)
	if err != nil {
		return err
	}
	for _, e := range entries {
		read, ok := known[e.key]
		if !ok {
			return r.unknown(e, names(known))
		}
		if err := read(e.value); err != nil {
			return err
		}
	}
	return nil
}

func names(known map[string]func(value) error) []string {
	var names []string
	for name := range known {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (r *reader) unknown(e entry, known []string) error {
	return r.errorf(e.at(), "unknown key: use one of %s", strings.Join(known, ", "))
}

// list returns the values of a list.
func (r *reader) list(v value) ([]value, error) {
	if v.node.Kind != yaml.SequenceNode {
		return nil, r.errorf(v, "%s where a list is expected, as in [a, b]", describe(v.node))
	}
	var values []value
	for _, node := range v.node.Content {
		values = append(values, value{node, v.path})
	}
	return values, nil
}

func (r *reader) text(v value) (string, error) {
	if !v.isText() {
		return "", r.errorf(v, "%s where a text is expected", describe(v.node))
	}
	return v.node.Value, nil
}

func (r *reader) integer(v value, low, high int) (int, error) {
	n, err := strconv.Atoi(v.node.Value)
	if v.node.Kind != yaml.ScalarNode || err != nil || n < low || n > high {
		return 0, r.errorf(v, "%s is not a whole number from %d to %d", shown(v.node), low, high)
	}
	return n, nil
}

func (r *reader) boolean(v value) (bool, error) {
	switch v.node.Value {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, r.errorf(v, "%s is neither true nor false", shown(v.node))
}

// share reads a number from 0 to 1 that ok accepts.
func (r *reader) share(v value, ok func(float64) bool, want string) (float64, error) {
	x, isNumber := parseNumber(v.node.Value)
	if v.node.Kind != yaml.ScalarNode || !isNumber || !ok(x) {
		return 0, r.errorf(v, "%s is not a number %s%s", shown(v.node), want, scope.Meant(v.node.Value))
	}
	return x, nil
}

// duration reads a delay in whole nanoseconds.
func (r *reader) duration(v value, low, high time.Duration) (time.Duration, error) {
	d, ok := parseDuration(v.node.Value)
	what := "is out of range"
	if v.node.Kind != yaml.ScalarNode || !ok {
		what, ok = "is not a duration", false
		if _, err := time.ParseDuration(v.node.Value); err == nil && durationForm.MatchString(v.node.Value) {
			what = "is not a whole number of nanoseconds"
		}
	}
	if !ok || d < low || d > high {
		return 0, r.errorf(v, "%s %s: write a number and a unit (ns, us, ms, s, m, h), as in 500ms, from %s to %s",
			shown(v.node), what, FormatDuration(low), FormatDuration(high))
	}
	return d, nil
}

// describe describes a node for messages.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys and values"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	if n.Tag == "!!null" {
		return "nothing"
	}
	return shown(n)
}

// shown returns a node's value, quoted and shortened.
func shown(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return describe(n)
	}
	return strconv.Quote(shortened(n.Value))
}

// shortened cuts a text that is too long for a message.
func shortened(text string) string {
	const most = 40
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

var yamlLine = regexp.MustCompile(`line (\d+)`)

// syntaxError converts an error of the YAML parser to our form.
func syntaxError(file string, err error) error {
	text := strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " ")
	e := &Error{File: file, Text: "not YAML: " + text}
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		if line, err := strconv.Atoi(m[1]); err == nil {
			e.Line = line
		}
	}
	return e
}

// atLine adds the place of a value to an error without a place.
func (r *reader) atLine(v value, err error) error {
	if err == nil || errors.Is(err, ErrInvalid) {
		return err
	}
	return r.errorf(v, "%v", err)
}
