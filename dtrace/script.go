package dtrace

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// A Format is a language of scripts.
type Format uint8

// The languages of scripts.
const (
	FormatD        Format = iota // of dtrace(1)
	FormatBPFtrace               // of bpftrace(8), version 0.17 or later
)

// String returns the format as the command line has it: d or bpftrace.
func (f Format) String() string { return name(f, "d", "bpftrace") }

// ParseFormat returns the format of a name.
func ParseFormat(text string) (Format, error) {
	for _, f := range []Format{FormatD, FormatBPFtrace} {
		if f.String() == text {
			return f, nil
		}
	}
	return 0, fmt.Errorf("there is no script format %q: take %s or %s", text, FormatD, FormatBPFtrace)
}

// A ScriptOutcome is an outcome whose events a script prints.
type ScriptOutcome struct {
	Name string // of letters, digits and underscores
	Rule *Rule
}

// A ScriptTarget is the VM that a script observes.
type ScriptTarget struct {
	Exe string // path of the executable, which holds the probes
	PID int    // of the operating system

	// Releases are the possible releases of the VM's Erlang/OTP: its own, or all [Releases] if the
	// script is for any VM that it is started with. A script contains only probes that are harmless
	// on each of them.
	Releases []int

	// Stepped means that the kernel must single-step the first instructions of the VM's functions.
	// A tracer can set probes only there, so the script mentions the cost.
	Stepped bool

	// Terms describes how to read the pids in the terms of the VM. Rules with probes that functions
	// stand in for need them.
	Terms Terms
}

// WriteScript writes a script that prints the starts and ends of outcomes, as lines of text. The
// script selects the events of an outcome. It does not pair starts and ends: the reader of the
// lines does that.
//
//	beamscope events 1                      the first line
//	t NS                                    ten times a second
//	s OUTCOME PID KEY NS [ARMEDBY] [TOKEN]  a start
//	e OUTCOME PID KEY NS [=AMOUNT] [TOKEN]  an end
//	v OUTCOME PID KEY NS [TOKEN]            an event between them
//	y OUTCOME PID KEY NS                    a receiver works on what it has fetched
//	a OUTCOME PID KEY ARMED NS              an event that arms starts
//
// PID is the process id in the operating system. NS are nanoseconds of the clock that the tracer
// calls nsecs or timestamp. KEY is the text of a process or port, an integer or the thread. TOKEN
// is #LABEL.SERIAL of a seq_trace token, for the pairing [FIFO] only. Lines of different processors
// may be out of order.
//
// The error says what the language cannot do, or which outcome is wrong. It wraps [ErrRefused] if a
// script might harm the VM.
func WriteScript(w io.Writer, f Format, outcomes []ScriptOutcome, target ScriptTarget) error {
	if len(outcomes) == 0 {
		return errors.New("there is no outcome to write a script for")
	}
	if len(target.Releases) == 0 {
		return errors.New("the release of Erlang/OTP that the script is for is not known")
	}
	var lines []scriptLine
	for _, o := range outcomes {
		if err := target.refuse(o.Rule); err != nil {
			return fmt.Errorf("%s: %w", o.Name, err)
		}
		more, err := o.lines()
		if err != nil {
			return fmt.Errorf("%s: %w", o.Name, err)
		}
		lines = append(lines, more...)
	}
	for i := range lines {
		if p := &lines[i].event.Probe; p.Function != nil {
			function := *p.Function
			function.Symbol = target.symbol(p.Function)
			p.Function = &function
		}
	}
	var text string
	var err error
	switch f {
	case FormatD:
		text, err = scriptD(lines, target)
	case FormatBPFtrace:
		text, err = scriptBPFtrace(lines, target)
	default:
		err = fmt.Errorf("there is no script format %s", f)
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return err
}

// refuse returns an error if a rule needs a probe that may harm the VM, which wraps [ErrRefused],
// or a probe whose terms cannot be read.
func (t ScriptTarget) refuse(r *Rule) error {
	for _, p := range r.Probes() {
		if p.Function != nil && t.Terms.Form == TermsUnknown {
			return fmt.Errorf("%s tells pids as terms, and how to read those of the VM is not known: "+
				"up to OTP 25 it follows from the release, later from the running VM", p.DTraceName())
		}
		for _, release := range t.Releases {
			if p.Function != nil && p.Function.SymbolOn(release) != t.symbol(p.Function) {
				return fmt.Errorf("what %s stands for is another function on %s than on %s: a script is for one of them",
					p.DTraceName(), ReleaseName(release), ReleaseName(t.Releases[0]))
			}
			if err := Refuse(p.Name, release); err != nil {
				return err
			}
		}
	}
	return nil
}

// symbol returns the name of a function in the VM.
func (t ScriptTarget) symbol(f *Function) string { return f.SymbolOn(t.Releases[0]) }

// scriptVersion is the first line that scripts write.
const scriptVersion = "beamscope events 1"

// A scriptLine is the line that a script writes at an event.
type scriptLine struct {
	outcome string
	kind    byte // s, e, v, y or a
	event   Event
	fields  []scriptField // in order
	token   bool          // a field with the seq_trace token follows if there is one
}

// A scriptField is a field that depends on the event.
type scriptField struct {
	kind   fieldKind
	prefix string // text before the field
	arg    int    // index, for fieldArg
}

type fieldKind uint8

const (
	fieldArg     fieldKind = iota
	fieldProcess           // of the operating system
	fieldThread            // likewise
	fieldTime
)

// lines returns the lines that a script writes for an outcome. Ends come before starts, because an
// event may be both.
func (o ScriptOutcome) lines() ([]scriptLine, error) {
	r := o.Rule
	if o.Name == "" || strings.ContainsFunc(o.Name, func(c rune) bool { return c > unicode.MaxASCII || !isWord(byte(c)) }) {
		return nil, errors.New("scripts name outcomes with ASCII letters, digits and underscores: give it such a name")
	}
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if r.RunQueue {
		return nil, errors.New("scripts cannot tell the waits of scheduler threads, for no probe of the VM does")
	}
	var lines []scriptLine
	var err error
	add := func(kind byte, events Expr, fields func(*lineBuilder)) {
		for _, event := range events {
			b := lineBuilder{probe: event.Probe, fields: []scriptField{{kind: fieldProcess}}}
			fields(&b)
			err = cmp.Or(err, b.err)
			token := r.Pairing == FIFO && kind != 'a' && kind != 'y' && event.Probe.index(tokenLabel) >= 0
			lines = append(lines, scriptLine{o.Name, kind, event, b.fields, token})
		}
	}
	add('e', r.End, func(b *lineBuilder) {
		b.operand(r.Key.End, "")
		b.time()
		if r.Amount != "" {
			b.operand(r.Amount, "=")
		}
	})
	add('v', r.Via, func(b *lineBuilder) {
		b.operand(r.Key.End, "")
		b.time()
	})
	add('y', r.Sync, func(b *lineBuilder) {
		b.operand(r.Key.End, "")
		b.time()
	})
	add('s', r.Start, func(b *lineBuilder) {
		b.operand(r.Key.Start, "")
		b.time()
		if r.ArmedBy != "" {
			b.operand(r.ArmedBy, "")
		}
	})
	add('a', r.Arm, func(b *lineBuilder) {
		b.operand(r.Key.Start, "")
		b.operand(r.Armed, "")
		b.time()
	})
	return lines, err
}

// A lineBuilder collects the fields of a line. It keeps the first error.
type lineBuilder struct {
	probe  Probe
	fields []scriptField
	err    error
}

func (b *lineBuilder) time() { b.fields = append(b.fields, scriptField{kind: fieldTime}) }

// operand adds the field for an operand name of a valid rule.
func (b *lineBuilder) operand(name, prefix string) {
	o, _ := b.probe.Operand(name)
	if o.Kind == OperandThread {
		b.fields = append(b.fields, scriptField{kind: fieldThread})
		return
	}
	if arg := b.probe.Args[o.Arg]; b.err == nil && (arg.Type == Text || arg.Type == Reason) {
		b.err = fmt.Errorf("%s of %s may have spaces in it, and cannot be a field of a script's lines", arg.Name, b.probe.DTraceName())
	}
	b.fields = append(b.fields, scriptField{prefix: prefix, arg: o.Arg})
}
