package probes

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/engine/seen"
)

// A Listing contains the probes of one executable.
type Listing struct {
	Exe     string // its name for people
	Release int    // of Erlang/OTP; 0: not known
	PIDs    []int  // of the VMs that run it; none if the executable was only read
	Probes  []Probe

	// Build is the build of the executable, if functions stand in for its missing probes; otherwise
	// its ID is "". ByCode means that the executable is another build with the same code.
	Build  dtrace.Build
	ByCode bool

	// Unknown is the reason why the build of an executable without probes is unknown, if functions
	// stand in for probes all the same.
	Unknown string

	// NoProbes is the reason why no probe or function of the VM reports events, if its executable
	// has no probes and its build is not known; otherwise "".
	NoProbes string

	// Recording are the pids of the VMs that record spans in their memory.
	Recording []int

	// Unseen are the built-in outcomes that cannot be observed, and why not.
	Unseen map[string]string

	// Sights says how the events of built-in outcomes are seen; nil if that is not known.
	Sights map[string]seen.Sight
}

// argumentColumns is the number of columns for arguments before they continue on the next line. The
// table then has about 110.
const argumentColumns = 34

// Text writes a listing as tables for people.
func Text(w io.Writer, l Listing) error {
	text := l.title() + "\n" + l.probeTable() + l.standIns() + l.recorded() + l.unseen() + "\n" + l.builtinTable()
	_, err := io.WriteString(w, text)
	return err
}

// probeTable is the table of the probes, with a summary. It is empty if there are none.
func (l Listing) probeTable() string {
	if l.NoProbes != "" {
		return ""
	}
	rows := []string{l.row("PROBE", "ARGUMENTS", "SITES", "STATE", "HOT", "TRACE", "ATTACHED")}
	for _, p := range l.Probes {
		arguments := wrap(arguments(p), argumentColumns)
		rows = append(rows, l.row(label(p), arguments[0], count(len(p.Sites)), p.state(), heat(p), traced(p), p.attachedText()))
		for _, more := range arguments[1:] {
			rows = append(rows, l.row("", more, "", "", "", "", ""))
		}
	}
	return table(rows) + l.footer()
}

// table aligns rows whose cells are separated by tabs.
func table(rows []string) string {
	var aligned strings.Builder
	cells := tabwriter.NewWriter(&aligned, 0, 8, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(cells, row)
	}
	_ = cells.Flush() // builders have no errors
	var text strings.Builder
	for line := range strings.Lines(aligned.String()) {
		fmt.Fprintln(&text, strings.TrimRight(line, " \n"))
	}
	return text.String()
}

// standIns lists the functions that stand in for the probes of an executable without any.
func (l Listing) standIns() string {
	if l.Build.ID == "" && l.Unknown == "" {
		return ""
	}
	rows := []string{"EVENT\tSEEN"}
	for _, p := range l.Probes {
		if p.Seen.Unseen == "" && p.Members > 0 {
			rows = append(rows, p.DTraceName()+"\t"+p.Seen.String())
		}
	}
	known := "Its build is that of"
	if l.ByCode {
		known = "It has the same code as"
	}
	text := fmt.Sprintf("\nThis VM has no probes. %s %s, and its functions stand in for some:\n\n", known, l.Build.Package)
	if l.Unknown != "" {
		text = "\n" + strings.Join(wrap(strings.Fields("This VM has no probes, and "+l.Unknown+". These functions stand in on all builds:"), 92), "\n") + "\n\n"
	}
	text += table(rows)
	for _, p := range l.Probes {
		if p.Members > 0 && p.StandIn.Doc != "" {
			text += "\n" + strings.Join(wrap(strings.Fields(p.DTraceName()+": "+p.StandIn.Doc), 92), "\n  ") + "\n"
		}
	}
	return text
}

// recorded tells of VMs that record spans in their memory.
func (l Listing) recorded() string {
	if len(l.Recording) == 0 {
		return ""
	}
	rows := []string{"EVENT\tSEEN"}
	for _, event := range spanEvents() {
		rows = append(rows, event+"\t"+string(seen.Ring))
	}
	return fmt.Sprintf("\nThe application beamscope records spans in the memory of pid %s:\n\n", joined(l.Recording)) + table(rows)
}

// unseen lists the events that are not seen, each reason once.
func (l Listing) unseen() string {
	var reasons []string
	events := make(map[string][]string)
	add := func(why, event string) {
		if events[why] == nil {
			reasons = append(reasons, why)
		}
		events[why] = append(events[why], event)
	}
	if l.NoProbes != "" && len(l.Recording) == 0 {
		for _, event := range spanEvents() {
			add(l.noSpans(), event)
		}
	}
	for _, p := range l.Probes {
		if p.Seen.Unseen != "" && p.Refused == "" { // the reasons of refusals are in the footer
			add(p.Seen.Unseen, name(p))
		}
	}
	var out strings.Builder
	for _, why := range reasons {
		names := strings.Fields(strings.Join(events[why], ", "))
		fmt.Fprintf(&out, "\n%s:\n  %s\n", strings.Join(wrap(strings.Fields(seen.Unseen(why)), 92), "\n  "), strings.Join(wrap(names, 90), "\n  "))
	}
	return out.String()
}

// noSpans returns why spans of a VM without probes are not seen.
func (l Listing) noSpans() string {
	if len(l.PIDs) == 0 {
		return "no VM was looked at; VMs record spans in their memory"
	}
	return "the VM has recorded no spans yet; they are seen in its memory as soon as one starts"
}

// spanEvents returns the names of the events of spans that a VM records in its memory.
func spanEvents() []string { return []string{"span-start", "span-end"} }

// joined lists numbers.
func joined(numbers []int) string {
	var words []string
	for _, n := range numbers {
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, ", ")
}

// builtinTable is the table of the built-in outcomes.
func (l Listing) builtinTable() string {
	rows := []string{"OUTCOME\tHERE\tFROM, BY WAY OF, TO"}
	for _, b := range Builtins(l.Probes, l.Unseen) {
		here := "yes"
		switch {
		case b.Unseen != "", len(b.Missing) > 0:
			here = "no"
		case b.Rule.RunQueue:
			here = "up to the kernel"
		}
		lines := path(b)
		rows = append(rows, b.Name+"\t"+here+"\t"+lines[0])
		for _, more := range lines[1:] {
			rows = append(rows, "\t\t"+more)
		}
	}
	return table(rows)
}

// path returns the events of an outcome, each on a line, or what is missing.
func path(b Builtin) []string {
	switch {
	case b.Unseen != "":
		return []string{b.Unseen}
	case len(b.Missing) > 0:
		return []string{"without " + strings.Join(b.Missing, ", ")}
	case b.Rule.RunQueue:
		return []string{"waits for a processor, where the kernel tells of its scheduler"}
	}
	lines := []string{b.Rule.Start.String()}
	if len(b.Rule.Arm) > 0 {
		lines[0] += ", after " + b.Rule.Arm.String()
	}
	if len(b.Rule.Via) > 0 {
		lines = append(lines, b.Rule.Via.String())
	}
	lines = append(lines, b.Rule.End.String())
	if len(b.Rule.Sync) > 0 {
		lines[len(lines)-1] += ", synced by " + b.Rule.Sync.String()
	}
	return lines
}

// title names the owner of the probes.
func (l Listing) title() string {
	exe := l.Exe + ", " + dtrace.ReleaseName(l.Release)
	if len(l.PIDs) == 0 {
		return exe
	}
	return fmt.Sprintf("%s, running as pid %s", exe, joined(l.PIDs))
}

// row joins the cells of a row. It leaves out the state of attachment if no VM runs the executable.
func (l Listing) row(cells ...string) string {
	if len(l.PIDs) == 0 {
		cells = cells[:len(cells)-1]
	}
	return strings.Join(cells, "\t")
}

// label returns the name of a line, with a mark if a function stands in for the probe.
func label(p Probe) string {
	if p.Family == 0 && (len(p.Seen.Functions) > 0 || p.Function != nil) {
		return name(p) + " *"
	}
	return name(p)
}

// name returns the name of a probe, or those of a family.
func name(p Probe) string {
	if p.Family > 0 {
		return fmt.Sprintf("%s0…%d", p.DTraceName(), p.Family-1)
	}
	return p.DTraceName()
}

// traced returns the name of the equivalent message of erlang:trace/3, which is its third element.
func traced(p Probe) string {
	elements := strings.SplitN(strings.Trim(p.Trace, "{}"), ", ", 4)
	if len(elements) < 3 {
		return "-"
	}
	return strings.Trim(elements[2], "'")
}

// arguments returns each argument with its type, unless that is its name too.
func arguments(p Probe) []string {
	if !p.Known {
		return []string{"not in the catalogue"}
	}
	var out []string
	for _, a := range p.Args {
		text := a.Name
		if a.Type.String() != a.Name {
			text += ":" + a.Type.String()
		}
		out = append(out, text)
	}
	return out
}

// wrap puts words, separated by spaces, into lines of a maximum width.
func wrap(words []string, columns int) []string {
	lines := []string{""}
	for _, word := range words {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case len(*last)+1+len(word) > columns:
			lines = append(lines, word)
		default:
			*last += " " + word
		}
	}
	return lines
}

func count(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

func heat(p Probe) string {
	if p.Hot == dtrace.HeatUnknown {
		return "-"
	}
	return p.Hot.String()
}

func (p Probe) attachedText() string {
	switch {
	case len(p.Sites) == 0:
		return "-"
	case p.Family > 0 && p.Attached != Unknown:
		return fmt.Sprintf("%d of %d", p.Taps, p.Members)
	}
	return p.Attached.String()
}

// state returns the state of the probe in this executable.
func (p Probe) state() string {
	if p.Refused != "" {
		return "refused"
	}
	return p.State.String()
}

// refusals lists the reasons why probes are refused.
func (l Listing) refusals() []string {
	if !dtrace.KnownRelease(l.Release) {
		return []string{fmt.Sprintf("All probes are refused: %s.", dtrace.Probe{}.Refusal(l.Release))}
	}
	var texts []string
	for _, p := range l.Probes {
		if p.Refused != "" {
			texts = append(texts, fmt.Sprintf("%s is refused: %s.", p.DTraceName(), p.Refused))
		}
	}
	return texts
}

// footer sums up, and warns of probes that are dangerous.
func (l Listing) footer() string {
	var names, sites, taps int
	var out strings.Builder
	for _, p := range l.Probes {
		if p.Function != nil || len(p.Seen.Functions) > 0 {
			continue
		}
		names += p.Members
		sites += len(p.Sites)
		taps += p.Taps
	}
	fmt.Fprintf(&out, "\n%d probes at %d sites", names, sites)
	if len(l.PIDs) > 0 {
		fmt.Fprintf(&out, ", %d attached", taps)
	}
	out.WriteString(". Arguments are name:type, or just the name where that is the type.\n")
	out.WriteString("* marks a function that stands in for a probe, if the VM exports it.\n")
	for _, text := range l.refusals() {
		fmt.Fprintf(&out, "\n%s\n", strings.Join(wrap(strings.Fields(text), 92), "\n  "))
	}
	return out.String()
}
