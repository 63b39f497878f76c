package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// maxExpr is the largest length of an expression in bytes.
const maxExpr = 4096

// defaultPairing is the pairing of events for scope files without one.
const defaultPairing = dtrace.Last

// ofVM reports whether the instances start and end with events of the VM.
func (o Outcome) ofVM() bool { return o.VM != outcome.Events{} }

// OfSpans reports whether the instances are spans of VM probes.
func (o Outcome) OfSpans() bool { return o.Wrapper == "" && !o.ofVM() }

// firstOf returns the first of some keys that was given, or "".
func firstOf(given map[string]value, keys ...string) string {
	for _, key := range keys {
		if _, ok := given[key]; ok {
			return key
		}
	}
	return ""
}

// origin sets the source of an outcome's instances.
func (r *reader) origin(e entry, o *Outcome, given map[string]value) error {
	kinds := slices.DeleteFunc([]string{firstOf(given, "span"), firstOf(given, "wrapper"), firstOf(given, "vm"), firstOf(given, "start", "end", "key", "pair")},
		func(key string) bool { return key == "" })
	if len(kinds) > 1 {
		return r.errorf(e.value, "%s and %s contradict each other: give one of them", kinds[0], kinds[1])
	}
	kind := ""
	if len(kinds) == 1 {
		kind = kinds[0]
	}
	var err error
	switch kind {
	case "wrapper":
		o.Wrapper, err = r.span(given[kind])
	case "span":
		o.Span, err = r.span(given[kind])
	case "vm":
		o.VM.Builtin, err = r.builtin(given[kind])
	case "":
		o.Span = o.Name
	default:
		o.VM, err = r.events(e, given)
	}
	if err == nil && o.ofVM() {
		err = r.rule(e, o, given["key"])
	}
	if v, ok := given["group"]; ok && err == nil {
		o.Group, err = r.group(v, *o)
	}
	if v, ok := given["exit"]; ok && err == nil {
		o.ExitFails, err = r.exit(v, *o)
	}
	if v, ok := given["explain"]; ok && err == nil {
		o.Explain, err = r.explain(v, *o)
	}
	return err
}

// explain reads whether to explain the slow instances of an outcome.
func (r *reader) explain(v value, o Outcome) (Override, error) {
	on, err := r.boolean(v)
	switch {
	case err != nil:
		return AsAll, err
	case o.ofVM():
		return AsAll, r.errorf(v, "only spans are explained, and this is an outcome of the VM: leave explain out")
	case o.Wrapper != "":
		return AsAll, r.errorf(v, "spans that come over TCP do not name their processes: write span instead of wrapper, or leave explain out")
	case on:
		return On, nil
	}
	return Off, nil
}

// builtin reads the name of a built-in outcome.
func (r *reader) builtin(v value) (string, error) {
	name, err := r.text(v)
	if err != nil {
		return "", err
	}
	if _, ok := dtrace.LookupBuiltin(name); !ok {
		var names []string
		for _, b := range dtrace.Builtins() {
			names = append(names, b.Name)
		}
		return "", r.errorf(v, "%s is not a built-in outcome: use one of %s", shown(v.node), strings.Join(names, ", "))
	}
	return name, nil
}

// events reads the events that start and end instances. At least one of the keys is given.
func (r *reader) events(e entry, given map[string]value) (outcome.Events, error) {
	events := outcome.Events{Pairing: defaultPairing}
	start, hasStart := given["start"]
	end, hasEnd := given["end"]
	var err error
	switch {
	case !hasStart:
		return events, r.errorf(e.value, "no start: write which events of the VM are starts, as in start: message-send")
	case !hasEnd:
		return events, r.errorf(e.value, "no end: write which events of the VM are ends, as in end: message-receive")
	}
	if events.Start, err = r.expression(start); err != nil {
		return events, err
	}
	if events.End, err = r.expression(end); err != nil {
		return events, err
	}
	if v, ok := given["key"]; ok {
		if events.StartKey, events.EndKey, err = r.key(v); err != nil {
			return events, err
		}
	}
	if v, ok := given["pair"]; ok {
		events.Pairing, err = r.pairing(v)
	}
	return events, err
}

// expression reads an expression, and returns its text unchanged.
func (r *reader) expression(v value) (string, error) {
	text, err := r.text(v)
	if err != nil {
		return "", err
	}
	text = strings.TrimSpace(text)
	if len(text) > maxExpr {
		return "", r.errorf(v, "an expression has at most %d bytes", maxExpr)
	}
	_, err = dtrace.ParseExpr(text)
	return text, r.exprError(v, err)
}

// exprError converts an error of an expression to our form, and keeps its lines.
func (r *reader) exprError(v value, err error) error {
	var syntax *dtrace.SyntaxError
	if !errors.As(err, &syntax) {
		return r.atLine(v, err)
	}
	lines := strings.Split(syntax.Error(), "\n")
	for i, line := range lines {
		lines[i] = printable(line)
	}
	return &Error{File: r.file, Line: v.node.Line, Path: v.path, Text: strings.Join(lines, "\n"), Expr: syntax}
}

// key reads which arguments of starts and ends identify an instance.
func (r *reader) key(v value) (start, end string, err error) {
	if v.isText() {
		start, err = r.name(v)
		return start, start, err
	}
	err = r.fields(v, map[string]func(value) error{
		"start": func(v value) (err error) { start, err = r.name(v); return err },
		"end":   func(v value) (err error) { end, err = r.name(v); return err },
	})
	if err == nil && (start == "" || end == "") {
		err = r.errorf(v, "give both, as in {start: sender, end: receiver}")
	}
	return start, end, err
}

func (r *reader) pairing(v value) (dtrace.Pairing, error) {
	for _, p := range []dtrace.Pairing{dtrace.First, dtrace.Last, dtrace.FIFO} {
		if v.isText() && v.node.Value == p.String() {
			return p, nil
		}
	}
	return 0, r.errorf(v, "%s is not first, last or fifo", shown(v.node))
}

// rule checks that the starts of instances can be found from their ends. Built-in outcomes need
// no check.
func (r *reader) rule(e entry, o *Outcome, key value) error {
	rule, err := o.VM.Rule()
	if err != nil || o.VM.Builtin != "" {
		return r.atLine(e.value, err)
	}
	events := slices.Concat(rule.Start, rule.End)
	if key.node == nil {
		key = e.value
		if at := slices.IndexFunc(events, func(e dtrace.Event) bool { return e.Probe.Subject == "" }); at >= 0 {
			return r.errorf(key, "%s belongs to no process: write the argument by which an end finds its start, as in key: %s",
				events[at].Probe.DTraceName(), argNames(events[at])[0])
		}
	}
	for _, name := range []string{rule.Key.Start, rule.Key.End} {
		if name != "" && name != dtrace.Thread && !slices.ContainsFunc(events, has(name)) {
			return r.errorf(key, "no event has an argument %s: use one of %s", strconv.Quote(name), strings.Join(argNames(events...), ", "))
		}
	}
	return r.atLine(key, rule.Validate())
}

// has returns a function that reports whether an event has an argument with this name.
func has(name string) func(dtrace.Event) bool {
	return func(e dtrace.Event) bool {
		return slices.ContainsFunc(e.Probe.Args, func(a dtrace.Arg) bool { return a.Name == name })
	}
}

// argNames returns the possible keys of events, without repetitions.
func argNames(events ...dtrace.Event) []string {
	var names []string
	for _, e := range events {
		for _, a := range e.Probe.Args {
			if !slices.Contains(names, a.Name) {
				names = append(names, a.Name)
			}
		}
	}
	return append(names, dtrace.Thread)
}

// group reads the grouping of instances.
func (r *reader) group(v value, o Outcome) (string, error) {
	name, err := r.name(v)
	if err != nil {
		return "", err
	}
	if err := o.groupable(name); err != nil {
		return "", r.errorf(v, "%v", err)
	}
	return name, nil
}

// groupable returns the reason why instances cannot be grouped by something, or nil.
func (o Outcome) groupable(by string) error {
	switch {
	case o.Wrapper != "":
		return errors.New("spans that come over TCP do not name their processes: leave group out")
	case !o.ofVM() && by != outcome.GroupPID && by != outcome.GroupMFA:
		return fmt.Errorf("spans are grouped by %s, the process that starts them, or by %s, its function", outcome.GroupPID, outcome.GroupMFA)
	case !o.ofVM():
		return nil
	}
	rule, err := o.VM.Rule()
	if err != nil {
		return err
	}
	if rule.RunQueue {
		return errors.New("scheduler threads cannot be grouped: leave group out")
	}
	for _, event := range rule.Start {
		if _, ok := event.Probe.Operand(by); ok && by != dtrace.Thread {
			continue
		}
		return fmt.Errorf("%s, a start, has no %s: use one of %s", event.Probe.DTraceName(), strconv.Quote(by), groups(event))
	}
	if by != outcome.GroupPID && by != outcome.GroupMFA && !slices.ContainsFunc(rule.Start, has(by)) {
		return fmt.Errorf("no start has an argument %s: use one of %s", strconv.Quote(by), groups(rule.Start...))
	}
	return nil
}

// groups lists the possible groupings of instances that these events start.
func groups(events ...dtrace.Event) string {
	var names []string
	if !slices.ContainsFunc(events, func(e dtrace.Event) bool { return e.Probe.Subject == "" }) {
		names = []string{outcome.GroupPID, outcome.GroupMFA}
	}
	for _, name := range argNames(events...) {
		if name != dtrace.Thread && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// exit reads how the exit of a process affects its instances.
func (r *reader) exit(v value, o Outcome) (fails bool, err error) {
	switch v.node.Value {
	case "failure":
		if err := o.canFailByExit(); err != nil {
			return false, r.errorf(v, "%v", err)
		}
		return true, nil
	case "timeout":
		return false, nil
	}
	return false, r.errorf(v, "%s is neither timeout nor failure", shown(v.node))
}

// canFailByExit returns the reason why the exit of a process cannot be the failure of instances,
// or nil. It requires that each instance belongs to a process.
func (o Outcome) canFailByExit() error {
	if o.Wrapper != "" {
		return errors.New("exits of processes are not seen over TCP: write span instead of wrapper, or leave exit out")
	}
	if !o.ofVM() {
		return nil
	}
	rule, err := o.VM.Rule()
	if err != nil {
		return err
	}
	if rule.RunQueue || !ofProcess(rule.Start, rule.Key.Start) || !ofProcess(rule.End, rule.Key.End) {
		return errors.New("its key is not a process, so it cannot exit: leave exit out")
	}
	if slices.ContainsFunc(rule.End, func(e dtrace.Event) bool { return e.Probe.Name == processExit }) {
		return errors.New("an exit ends its instances already: leave exit out")
	}
	return nil
}

// processExit is the name of the VM's probe for exits.
const processExit = "process__exit"

// ofProcess reports whether the key of each of these events is a process.
func ofProcess(events dtrace.Expr, key string) bool {
	for _, e := range events {
		o, ok := e.Probe.Operand(key)
		if !ok || o.Kind != dtrace.OperandArg || e.Probe.Args[o.Arg].Type != dtrace.PID {
			return false
		}
	}
	return true
}

// Groupings returns the possible groups of an outcome's instances: the process and the function,
// and arguments of the start events with processes, ports and nodes. Outcomes over TCP have none.
func (o Outcome) Groupings() []string {
	names := []string{outcome.GroupPID, outcome.GroupMFA}
	var rule dtrace.Rule
	if o.ofVM() {
		r, err := o.VM.Rule()
		if err != nil {
			return nil // a scope file cannot contain it
		}
		rule = *r
	}
	for _, e := range rule.Start {
		for _, a := range e.Probe.Args {
			if a.Type <= dtrace.Node && a.Name != e.Probe.Subject && !slices.Contains(names, a.Name) {
				names = append(names, a.Name)
			}
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return o.groupable(name) != nil })
}
