package probes

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/beamscope/beamscope/dtrace"
)

// A Listing is what is known of the probes of one executable.
type Listing struct {
	Exe    string // its name for people
	PIDs   []int  // of the VMs that run it; none where it was only read
	Probes []Probe
}

// argumentColumns is how many columns arguments get before they are continued on
// the next line. The table then has about 100.
const argumentColumns = 42

// Text writes a listing as a table for people.
func Text(w io.Writer, l Listing) error {
	var table strings.Builder
	cells := tabwriter.NewWriter(&table, 0, 8, 2, ' ', 0)
	fmt.Fprintln(cells, l.row("PROBE", "ARGUMENTS", "SITES", "STATE", "HOT", "ATTACHED"))
	for _, p := range l.Probes {
		arguments := wrap(arguments(p), argumentColumns)
		fmt.Fprintln(cells, l.row(label(p), arguments[0], count(len(p.Sites)), p.State.String(), heat(p), p.attachedText()))
		for _, more := range arguments[1:] {
			fmt.Fprintln(cells, l.row("", more, "", "", "", ""))
		}
	}
	if err := cells.Flush(); err != nil {
		return err
	}
	var text strings.Builder
	fmt.Fprintln(&text, l.title())
	for line := range strings.Lines(table.String()) {
		fmt.Fprintln(&text, strings.TrimRight(line, " \n"))
	}
	text.WriteString(l.footer())
	_, err := io.WriteString(w, text.String())
	return err
}

// title says whose probes they are.
func (l Listing) title() string {
	if len(l.PIDs) == 0 {
		return l.Exe
	}
	var pids []string
	for _, pid := range l.PIDs {
		pids = append(pids, strconv.Itoa(pid))
	}
	return fmt.Sprintf("%s, running as pid %s", l.Exe, strings.Join(pids, ", "))
}

// row joins the cells of a row. Nobody can be attached to what does not run.
func (l Listing) row(cells ...string) string {
	if len(l.PIDs) == 0 {
		cells = cells[:len(cells)-1]
	}
	return strings.Join(cells, "\t")
}

func label(p Probe) string {
	if p.Family > 0 {
		return fmt.Sprintf("%s0…%d", p.DTraceName(), p.Family-1)
	}
	return p.DTraceName()
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

// wrap puts words into lines of at most so many columns, separated by spaces.
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

// footer sums up, and warns of probes that are dangerous.
func (l Listing) footer() string {
	var names, sites, taps int
	var out strings.Builder
	for _, p := range l.Probes {
		names += p.Members
		sites += len(p.Sites)
		taps += p.Taps
	}
	fmt.Fprintf(&out, "\n%d probes at %d sites", names, sites)
	if len(l.PIDs) > 0 {
		fmt.Fprintf(&out, ", %d attached", taps)
	}
	out.WriteString(". Arguments are name:type, or just the name where that is the type.\n")
	for _, p := range l.Probes {
		if p.Hazard != "" && len(p.Sites) > 0 {
			fmt.Fprintf(&out, "\nDanger: %s\n", strings.Join(wrap(strings.Fields(p.DTraceName()+": "+p.Hazard), 92), "\n  "))
		}
	}
	return out.String()
}
