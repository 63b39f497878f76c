package trace

import (
	"fmt"
	"strings"

	"github.com/beamscope/beamscope/internal/beam/modname"
	"github.com/beamscope/beamscope/internal/host/safetext"
)

// second is the least share that a sentence mentions in addition to the first one.
const second = 0.2

// Sentence describes in one sentence where the time of the instance went. The caller gives the
// instance's name: "91 % of probe #4711 was mailbox wait of <0.123.0> (queue_2), behind 812
// messages". It is "" for an instance without a duration.
func (t *Trace) Sentence(instance string) string {
	shares := t.Shares()
	if len(shares) == 0 {
		return ""
	}
	whole := t.Spans[0].Duration()
	text := Percent(shares[0].Duration, whole) + " of " + safetext.Line(instance) + " " + shares[0].Clause()
	if len(shares) > 1 && float64(shares[1].Duration) >= second*float64(whole) {
		text += "; " + Percent(shares[1].Duration, whole) + " " + shares[1].Clause()
	}
	return text
}

// Percent returns a part of a whole that is greater than 0, such as "91 %". A part that is nearly
// the whole is ">99 %", and one that is nearly nothing "<1 %".
func Percent(part, whole int64) string {
	p := fmt.Sprintf("%.0f", 100*float64(part)/float64(whole))
	switch {
	case p == "100" && part < whole:
		return ">99 %"
	case p == "0" && part > 0:
		return "<1 %"
	}
	return p + " %"
}

// Clause describes a part of the time, with its verb and all known details: "was mailbox wait of
// <0.123.0> (queue_2), behind 812 messages, as far as the order of messages tells".
func (s *Share) Clause() string {
	var b strings.Builder
	b.WriteString("was ")
	if s.Kind == Unexplained {
		b.Reset()
		b.WriteString("is ")
	}
	b.WriteString(s.What())
	switch {
	case s.Kind == Ready && s.Other != 0:
		fmt.Fprintf(&b, ", while %s ran on the scheduler", ProcessName(s.Other, s.OtherName))
	case s.Kind == Suspended && s.Other != 0:
		fmt.Fprintf(&b, ", by %s", ProcessName(s.Other, s.OtherName))
	case s.Kind == Mailbox:
		b.WriteString(s.queue())
	}
	if s.Via != 0 {
		fmt.Fprintf(&b, ", through %s", ProcessName(s.Via, s.ViaName))
	}
	switch s.Mark {
	case Inferred:
		b.WriteString(", inferred")
		if s.Reason == "" {
			b.WriteString(" from the order of messages")
		}
	case Ambiguous:
		b.WriteString(", ambiguous: more than one message may be the one")
	}
	if s.Reason != "" {
		b.WriteString(": " + safetext.Line(s.Reason))
	}
	return b.String()
}

// queue describes the messages that the receiver took before the waiting one: those that were there
// before it, and those that overtook it. It returns "" if there were none.
func (s *Share) queue() string {
	switch {
	case s.Behind > 0 && s.Overtaken > 0:
		return fmt.Sprintf(", behind %s, overtaken by %d", messages(s.Behind), s.Overtaken)
	case s.Behind > 0:
		return ", behind " + messages(s.Behind)
	case s.Overtaken > 0:
		return ", overtaken by " + messages(s.Overtaken)
	}
	return ""
}

// messages returns a number of messages as text, such as "1 message".
func messages(n int) string {
	if n == 1 {
		return "1 message"
	}
	return fmt.Sprintf("%d messages", n)
}

// Brief describes a part of the time in a few words, with the reason if it is not certain: "mailbox
// wait of <0.123.0> (queue_2) (inferred)".
func (s *Share) Brief() string {
	var doubts []string
	if s.Mark != Exact {
		doubts = append(doubts, s.Mark.String())
	}
	if s.Reason != "" {
		doubts = append(doubts, safetext.Line(s.Reason))
	}
	if len(doubts) == 0 {
		return s.What()
	}
	return s.What() + " (" + strings.Join(doubts, ": ") + ")"
}

// What describes a part of the time in short: "mailbox wait of <0.123.0> (queue_2)".
func (s *Share) What() string {
	whose := ProcessName(s.Process, s.Name)
	of := " of " + whose
	switch {
	case s.Own:
		whose, of = "its own process", " of its own process"
	case s.Process == 0 && s.Name == "":
		whose, of = "another process", ""
	}
	switch s.Kind {
	case Ready:
		if s.Own {
			return s.Kind.String()
		}
	case NIF:
		if s.Detail != "" {
			return "the dirty function " + safetext.Line(modname.Readable(s.Detail)) + of
		}
	case Port:
		if s.Detail != "" {
			return s.Kind.String() + of + " at " + safetext.Line(modname.Readable(s.Detail))
		}
	case VMWait:
		if s.Own {
			of = ""
		}
		text := "waiting" + of + " for the VM"
		if s.Detail != "" {
			text += ": " + safetext.Line(modname.Readable(s.Detail))
		}
		return text
	case Waiting:
		return "waiting for " + whose
	case Mailbox:
		return "waiting in the mailbox" + of
	case Timer:
		return s.who() + "waiting for a timer"
	case External:
		if s.Detail != "" {
			return s.who() + "waiting for " + safetext.Line(modname.Readable(s.Detail))
		}
		return s.who() + s.Kind.String()
	case OSWait:
		return s.who() + "waiting for a processor of the machine"
	case Blocked:
		if s.Own {
			of = ""
		}
		text := "the scheduler's thread" + of + " being blocked"
		if s.Detail != "" {
			text += " in " + safetext.Line(modname.Readable(s.Detail))
		}
		return text
	case Stopped:
		text := "the VM being stopped"
		if s.Detail != "" {
			text += " " + safetext.Line(modname.Readable(s.Detail))
		}
		return text
	case Unexplained:
		if s.Own || s.Process == 0 && s.Name == "" {
			return s.Kind.String()
		}
		return s.Kind.String() + " time" + of
	}
	return s.Kind.String() + of
}

// who returns the process and a space, or "" for the instance's own process and without a process.
func (s *Share) who() string {
	if s.Own || s.Process == 0 && s.Name == "" {
		return ""
	}
	return ProcessName(s.Process, s.Name) + " "
}

// ProcessName names a process for people: <0.123.0> (queue_2). Modules of Elixir have their Elixir
// names.
func ProcessName(p PID, name string) string {
	switch {
	case p == 0 && name == "":
		return "an unknown process"
	case p == 0:
		return safetext.Line(modname.Readable(name))
	case name == "":
		return p.String()
	}
	return p.String() + " (" + safetext.Line(modname.Readable(name)) + ")"
}
