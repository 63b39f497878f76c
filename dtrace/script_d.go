package dtrace

import (
	"fmt"
	"strings"
)

// dtraceD is the language of dtrace(1).
type dtraceD struct{}

// number has the type that the provider declares, so sizes are unsigned.
func (dtraceD) number(p Probe, arg int) string {
	if p.Args[arg].Type.Unit() != "" {
		return "(uint32_t)" + p.register(arg, dResult)
	}
	return "(int32_t)" + p.register(arg, dResult)
}

// term is a variable that termClause sets.
func (dtraceD) term(p Probe, arg int) string { return "this->" + p.Args[arg].Name }

func (dtraceD) text(p Probe, arg int) string { return "copyinstr(" + p.register(arg, dResult) + ")" }

// dResult is the result of a function. In its return probe, arg0 is the place of the return.
const dResult = "arg1"

// termClause returns the clause that sets the variables for a probe's terms. The clauses after it
// use them.
func termClause(p Probe) string {
	var b strings.Builder
	for arg := range p.Args {
		if !p.isTerm(arg) {
			continue
		}
		value := p.register(arg, dResult)
		if p.Function.Params[arg].Deref {
			value = fmt.Sprintf("%s != 0 ? *(uint64_t *)copyin(%s, sizeof (uint64_t)) : 0", value, value)
		}
		fmt.Fprintf(&b, "\tthis->%s = %s;\n", p.Args[arg].Name, value)
	}
	return fmt.Sprintf("\n%s\n{\n%s}\n", dtraceProbe(p), b.String())
}

func (dtraceD) compare(text, with string, prefix bool) (string, error) {
	if prefix {
		text = fmt.Sprintf("substr(%s, 0, %d)", text, len(with))
	}
	return text + " == " + cString(with), nil
}

func (dtraceD) integer() string { return "%d" }

func (dtraceD) time() string { return "timestamp" }

// scriptD returns a script for dtrace(1). Its clauses run in order.
func scriptD(lines []scriptLine, target ScriptTarget) (string, error) {
	pid := "PID"
	if target.PID > 0 {
		pid = fmt.Sprint(target.PID)
	}
	s := scriptor{dtraceD{}, target.Terms}
	var b strings.Builder
	fmt.Fprintf(&b, "/* Run it with: dtrace -s SCRIPT -p %s */\n\n", pid)
	b.WriteString("#pragma D option quiet\n#pragma D option switchrate=10hz\n\n")
	fmt.Fprintf(&b, "BEGIN { printf(\"%s\\n\"); }\n\ntick-100ms { printf(\"t %%d\\n\", timestamp); }\n", scriptVersion)
	prepared := make(map[string]bool) // probes that have a clause to set their variables
	for _, l := range lines {
		if p := l.event.Probe; p.Function != nil && !prepared[p.Name] {
			b.WriteString(termClause(p))
			prepared[p.Name] = true
		}
		text, err := clauses(s, l)
		if err != nil {
			return "", fmt.Errorf("%s: %w", l.outcome, err)
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// clauses returns the clauses that write a line if the event matches: one for events with a
// seq_trace token and one for those without it, or a single one.
func clauses(s scriptor, l scriptLine) (string, error) {
	condition, err := s.condition(l)
	if err != nil || !l.token {
		return clause(l.event.Probe, condition, s.print(l, false)), err
	}
	label, serial := s.token(l.event.Probe)
	with := fmt.Sprintf("(%s != 0 || %s != 0)", label, serial)
	without := fmt.Sprintf("%s == 0 && %s == 0", label, serial)
	if condition != "" {
		with, without = condition+" && "+with, condition+" && "+without
	}
	return clause(l.event.Probe, with, s.print(l, true)) + clause(l.event.Probe, without, s.print(l, false)), nil
}

func clause(p Probe, condition, action string) string {
	if condition != "" {
		condition = "/ " + condition + " /\n"
	}
	return fmt.Sprintf("\n%s\n%s{\n\t%s\n}\n", dtraceProbe(p), condition, action)
}

// dtraceProbe returns a probe of dtrace(1)'s target process.
func dtraceProbe(p Probe) string {
	switch {
	case p.Function == nil:
		return Provider + "$target:::" + p.DTraceName()
	case p.Function.Return:
		return "pid$target::" + p.Function.Symbol + ":return"
	}
	return "pid$target::" + p.Function.Symbol + ":entry"
}
