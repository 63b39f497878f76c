package dtrace

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// bpftraceText is the default maximum size of a text in bpftrace, in bytes, including the
// terminating zero.
const bpftraceText = 64

// bpftrace is the language of bpftrace(8).
type bpftrace struct{}

// number is a variable, like term: the kernel refuses programs in which bpftrace uses the same
// argument several times. See declarations.
func (bpftrace) number(p Probe, arg int) string { return "$" + p.Args[arg].Name }

func (bpftrace) term(p Probe, arg int) string { return "$" + p.Args[arg].Name }

func (bpftrace) text(p Probe, arg int) string { return "str(" + p.register(arg, "retval") + ")" }

// declarations returns the statements that set the variables of lines.
func declarations(lines []scriptLine) string {
	var args []int
	for _, l := range lines {
		args = append(args, l.args()...)
	}
	slices.Sort(args)
	var b strings.Builder
	p := lines[0].event.Probe
	for _, arg := range slices.Compact(args) {
		if p.isTerm(arg) || !p.Args[arg].Type.IsText() {
			fmt.Fprintf(&b, "\t$%s = %s;\n", p.Args[arg].Name, bpftraceValue(p, arg))
		}
	}
	return b.String()
}

// bpftraceValue returns the expression for an argument that is not text. It has the width and
// signedness of the site. At a function, it has those of a C int, because the rest of the register
// is undefined.
func bpftraceValue(p Probe, arg int) string {
	register := p.register(arg, "retval")
	switch {
	case p.Function == nil:
		return "(int64)" + register
	case p.Function.Params[arg].Deref:
		return "*(uint64 *)" + register
	case p.isTerm(arg):
		return register
	}
	return "(int64)(int32)" + register
}

func (bpftrace) compare(text, with string, prefix bool) (string, error) {
	length := len(with)
	if !prefix {
		length++ // the terminating zero
	}
	if length >= bpftraceText {
		return "", fmt.Errorf("bpftrace looks at %d bytes of a text, and %q is longer: compare with its beginning", bpftraceText-2, with)
	}
	return fmt.Sprintf(`strncmp(%s, %s, %d) == 0`, text, cString(with), length), nil
}

func (bpftrace) integer() string { return "%lld" }

func (bpftrace) time() string { return "$now" }

// cString returns a text as a C string constant. The text has no control characters.
func cString(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// scriptBPFtrace returns a script for bpftrace. It has one action for each probe: with several,
// each event would cost the VM several hits, in an undefined order.
func scriptBPFtrace(lines []scriptLine, target ScriptTarget) (string, error) {
	path, err := bpftracePath(target.Exe)
	if err != nil {
		return "", err
	}
	if target.PID <= 0 {
		return "", errors.New("a bpftrace script is for one process: its pid is needed, for the probes of others stay off")
	}
	s := scriptor{bpftrace{}, target.Terms}
	var b strings.Builder
	fmt.Fprintf(&b, "#!/usr/bin/env bpftrace\n// Run it with: bpftrace -q -p %d SCRIPT\n", target.PID)
	b.WriteString("// Where it says that events are lost, BPFTRACE_PERF_RB_PAGES=1024 in its environment gives them more room.\n")
	if target.Stepped && slices.ContainsFunc(lines, func(l scriptLine) bool { return l.event.Probe.Function != nil }) {
		b.WriteString("// The kernel single-steps the first instruction of this VM's functions: a hit of uprobe or uretprobe costs ten times one of usdt, or more.\n")
	}
	fmt.Fprintf(&b, "\nBEGIN { printf(\"%s\\n\"); }\n\ninterval:ms:100 { printf(\"t %%lld\\n\", nsecs); }\n", scriptVersion)
	for _, action := range actions(lines) {
		fmt.Fprintf(&b, "\n%s\n/ pid == %d /\n{\n\t$now = nsecs;\n%s", bpftraceProbe(action[0].event.Probe, path), target.PID, declarations(action))
		for _, l := range action {
			text, err := bpftraceAction(s, l)
			if err != nil {
				return "", fmt.Errorf("%s: %w", l.outcome, err)
			}
			b.WriteString(text)
		}
		b.WriteString("}\n")
	}
	return b.String(), nil
}

// actions groups the lines by probe, in order.
func actions(lines []scriptLine) [][]scriptLine {
	var list [][]scriptLine
	index := make(map[string]int) // by probe
	for _, l := range lines {
		i, ok := index[l.event.Probe.Name]
		if !ok {
			i = len(list)
			index[l.event.Probe.Name] = i
			list = append(list, nil)
		}
		list[i] = append(list[i], l)
	}
	return list
}

func bpftraceProbe(p Probe, path string) string {
	switch {
	case p.Function == nil:
		return fmt.Sprintf("usdt:%s:%s:%s", path, Provider, p.Name)
	case p.Function.Return:
		return fmt.Sprintf("uretprobe:%s:%s", path, p.Function.Symbol)
	}
	return fmt.Sprintf("uprobe:%s:%s", path, p.Function.Symbol)
}

// bpftraceFields checks that no field of a line can be truncated: different texts may have the same
// beginning.
func bpftraceFields(l scriptLine) error {
	for _, f := range l.fields {
		if f.kind != fieldArg {
			continue
		}
		if arg := l.event.Probe.Args[f.arg]; arg.Type == MFA || arg.Type == Node {
			return fmt.Errorf("bpftrace cuts texts behind %d bytes, where %s of %s may be another one: take a key that is a process, a port, an integer or %s, or a script for dtrace", bpftraceText-1, arg.Name, l.event.Probe.DTraceName(), Thread)
		}
	}
	return nil
}

// bpftraceAction returns the statements that write a line if the event matches.
func bpftraceAction(s scriptor, l scriptLine) (string, error) {
	if err := bpftraceFields(l); err != nil {
		return "", err
	}
	condition, err := s.condition(l)
	if err != nil {
		return "", err
	}
	indent, end := "\t", ""
	var b strings.Builder
	if condition != "" {
		fmt.Fprintf(&b, "\tif (%s) {\n", condition)
		indent, end = "\t\t", "\t}\n"
	}
	if l.token {
		label, serial := s.token(l.event.Probe)
		fmt.Fprintf(&b, "%sif (%s != 0 || %s != 0) {\n%s\t%s\n%s} else {\n%s\t%s\n%s}\n",
			indent, label, serial, indent, s.print(l, true), indent, indent, s.print(l, false), indent)
	} else {
		fmt.Fprintf(&b, "%s%s\n", indent, s.print(l, false))
	}
	return b.String() + end, nil
}

// bpftracePath returns the path of an executable in the syntax of probes.
func bpftracePath(path string) (string, error) {
	const special = "\"\\:*?[],{}"
	if path == "" {
		return "", errors.New("a bpftrace script needs the path of the VM's executable")
	}
	if strings.ContainsAny(path, special) || strings.ContainsFunc(path, unicode.IsControl) {
		return "", fmt.Errorf("bpftrace does not take the path %q as it is: link it to one without any of %s", path, special)
	}
	if strings.ContainsFunc(path, unicode.IsSpace) {
		return cString(path), nil
	}
	return path, nil
}
