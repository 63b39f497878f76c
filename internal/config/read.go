package config

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/vm"
)

// Bounds of the thesis's parameters, and of those beyond it.
const (
	minExponent, maxExponent = -10, 10
	maxBins                  = 65536
	maxDMax                  = time.Hour
	minWidth                 = time.Microsecond
)

func (r *reader) config(v value) (Config, error) {
	c := Config{Window: DefaultWindow, Base: DefaultBase}
	var outcomes value
	err := r.fields(v, map[string]func(value) error{
		"target":   func(v value) (err error) { c.Target, err = r.target(v); return err },
		"diagram":  func(v value) (err error) { c.Diagram, err = r.diagram(v); return err },
		"window":   func(v value) (err error) { c.Window, err = r.duration(v, MinWindow, MaxWindow); return err },
		"base":     func(v value) (err error) { c.Base, err = r.duration(v, minWidth, maxDMax); return err },
		"outcomes": func(v value) error { outcomes = v; return nil },
	})
	if err != nil {
		return Config{}, err
	}
	if outcomes.node == nil {
		return Config{}, r.errorf(value{node: v.node}, "no outcomes: name what to observe, as in outcomes: {worker_1: {span: worker_1}}")
	}
	// Read last, because they depend on base.
	if c.Outcomes, err = r.outcomes(outcomes, c.Base); err != nil {
		return Config{}, err
	}
	c.Later = r.later
	return c, nil
}

func (r *reader) target(v value) (vm.Target, error) {
	var t vm.Target
	given := 0
	err := r.fields(v, map[string]func(value) error{
		"pid":  func(v value) (err error) { given++; t.PID, err = r.integer(v, 1, math.MaxInt32); return err },
		"node": func(v value) (err error) { given++; t.Node, err = r.node(v); return err },
		"exe":  func(v value) (err error) { given++; t.Exe, err = r.text(v); return err },
	})
	if err == nil && given != 1 {
		err = r.errorf(v, "give one of exe, pid and node")
	}
	return t, err
}

func (r *reader) node(v value) (string, error) {
	name, err := r.text(v)
	if before, after, ok := strings.Cut(name, "@"); err == nil && (!ok || before == "" || after == "") {
		return "", r.errorf(v, "%s is not the name of a node: write name@host", shown(v.node))
	}
	return name, err
}

// diagram returns the source of the outcome diagram: the value, or the contents
// of the file that it names.
func (r *reader) diagram(v value) (string, error) {
	text, err := r.text(v)
	if err != nil {
		return "", err
	}
	r.keepForLater(v)
	if filepath.Ext(strings.TrimSpace(text)) != ".dq" || strings.Contains(text, "=") {
		return text, nil
	}
	path := strings.TrimSpace(text)
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.dir, path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", r.errorf(v, "%s cannot be read: %v", shown(v.node), reason(err))
	}
	return string(data), nil
}

// keepForLater notes a key that has no effect yet.
func (r *reader) keepForLater(v value) {
	r.later = append(r.later, fmt.Sprintf("%s:%d: %s", r.file, v.node.Line, v.path))
}

func (r *reader) outcomes(v value, base time.Duration) ([]Outcome, error) {
	entries, err := r.mapping(v)
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, r.errorf(v, "empty: name at least one outcome, as in {worker_1: {span: worker_1}}")
	}
	var out []Outcome
	spans := make(map[string]string)
	for _, e := range entries {
		o, err := r.outcome(e, base)
		if err != nil {
			return nil, err
		}
		if other, taken := spans[o.Span]; taken {
			return nil, r.errorf(e.value, "span %q is observed by %s already: an instance belongs to one outcome", o.Span, other)
		}
		spans[o.Span] = o.Name
		out = append(out, o)
	}
	return out, nil
}

var outcomeName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (r *reader) outcome(e entry, base time.Duration) (Outcome, error) {
	o := Outcome{Name: e.key, Span: e.key}
	if !outcomeName.MatchString(o.Name) {
		return Outcome{}, r.errorf(value{e.keyNode, e.path}, "a name is made of letters, digits and underscores, and begins with no digit")
	}
	if e.node.Kind == yaml.ScalarNode && e.node.Tag == "!!null" {
		var err error
		o.Grid, err = gridForm{}.grid(base)
		return o, r.atLine(e.value, err)
	}
	var form gridForm
	fields := map[string]func(value) error{
		"span":     func(v value) (err error) { o.Span, err = r.span(v); return err },
		"exit":     func(v value) (err error) { o.ExitFails, err = r.exit(v); return err },
		"exponent": func(v value) error { return r.optional(v, &form.exponent, minExponent, maxExponent) },
		"bins":     func(v value) error { return r.optional(v, &form.bins, 1, maxBins) },
		"dmax":     func(v value) (err error) { form.dMax, err = r.duration(v, minWidth, maxDMax); return err },
		"qta":      func(v value) error { r.keepForLater(v); _, err := r.mapping(v); return err },
		"triggers": func(v value) error { r.keepForLater(v); _, err := r.mapping(v); return err },
	}
	if err := r.fields(e.value, fields, "vm", "start", "end", "key"); err != nil {
		return Outcome{}, err
	}
	var err error
	o.Grid, err = form.grid(base)
	return o, r.atLine(e.value, err)
}

func (r *reader) optional(v value, to **int, low, high int) error {
	n, err := r.integer(v, low, high)
	*to = &n
	return err
}

func (r *reader) span(v value) (string, error) {
	name, err := r.text(v)
	if err == nil && (name == "" || len(name) > bpf.MaxNameLen || strings.ContainsRune(name, 0)) {
		return "", r.errorf(v, "a span's name has 1 to %d bytes and no NUL", bpf.MaxNameLen)
	}
	return name, err
}

func (r *reader) exit(v value) (bool, error) {
	switch v.node.Value {
	case "failure":
		return true, nil
	case "timeout":
		return false, nil
	}
	return false, r.errorf(v, "%s is neither timeout nor failure", shown(v.node))
}

// A gridForm is how a scope file gives dMax and bins: by exponent, as in the
// thesis, or by dMax itself.
type gridForm struct {
	exponent, bins *int
	dMax           time.Duration // 0 where it is not given
}

func (f gridForm) grid(base time.Duration) (dq.Grid, error) {
	bins := DefaultBins
	if f.bins != nil {
		bins = *f.bins
	}
	if f.dMax != 0 {
		if f.exponent != nil {
			return dq.Grid{}, fmt.Errorf("dmax and exponent contradict each other: give one of them")
		}
		return dq.DMaxGrid(f.dMax, bins)
	}
	exponent := 0
	if f.exponent != nil {
		exponent = *f.exponent
	}
	return dq.BaseGrid(base, exponent, bins)
}
