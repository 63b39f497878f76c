package fire

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/beamscope/beamscope/dtrace"
)

// checksColumns is the width of the checks before they continue on the next line. The table is then
// about 100 columns wide.
const checksColumns = 42

// Text writes a report for people: a table, the new knowledge, and the errors.
func Text(w io.Writer, r Report) error {
	var table strings.Builder
	cells := tabwriter.NewWriter(&table, 0, 8, 2, ' ', 0)
	fmt.Fprintln(cells, "PROBE\tCATALOGUE\tIN THIS VM\tCHECKED")
	for _, p := range r.Probes {
		lines := fill(p.checks(), checksColumns)
		fmt.Fprintf(cells, "%s\t%s\t%s\t%s\n", p.label(), p.catalogueText(), p.foundText(), lines[0])
		for _, more := range lines[1:] {
			fmt.Fprintf(cells, "\t\t\t%s\n", more)
		}
	}
	if err := cells.Flush(); err != nil {
		return err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s\nThe VM that was tested was started from a copy of it, and has ended.\n\n", r.title())
	for line := range strings.Lines(table.String()) {
		fmt.Fprintln(&text, strings.TrimRight(line, " \n"))
	}
	r.footer(&text)
	_, err := io.WriteString(w, text.String())
	return err
}

func (r Report) title() string {
	title := r.Exe + ", Erlang/OTP " + r.Version
	if r.Flavour != "" {
		title += ", " + string(r.Flavour)
	}
	return title
}

// label returns the probe's name, or the range of a family.
func (p Probe) label() string {
	if p.Family > 0 {
		return fmt.Sprintf("%s0…%d", p.DTraceName(), p.Family-1)
	}
	return p.DTraceName()
}

func (p Probe) catalogueText() string {
	if !p.Known {
		return "-"
	}
	return p.State.String()
}

func (p Probe) foundText() string {
	if p.Found == Fired {
		return fmt.Sprintf("fired %s", count(p.Hits))
	}
	return p.Found.String()
}

func count(n uint64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// checks returns the number of times that the probe fired in each scenario, or the reason why it
// was not tried.
func (p Probe) checks() []string {
	if len(p.Checks) == 0 {
		return strings.Fields(p.Why)
	}
	var out []string
	for _, c := range p.Checks {
		out = append(out, c.String())
	}
	return out
}

// String returns the scenario and the number of times that the probe fired in it: "messages=200" if
// the number must be exact, "start≥1" if it is a minimum. If the count is wrong, it stands before
// the required number: "messages:199≠200".
func (c Check) String() string {
	relation := "≥"
	if c.Exact {
		relation = "="
	}
	if c.OK() {
		return fmt.Sprintf("%s%s%d", c.Scenario, relation, c.Want)
	}
	relation = "<"
	if c.Exact {
		relation = "≠"
	}
	return fmt.Sprintf("%s:%d%s%d", c.Scenario, c.Got, relation, c.Want)
}

// fill wraps words into lines of at most columns columns. It returns at least one line.
func fill(words []string, columns int) []string {
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

// footer writes the conclusions of the test.
func (r Report) footer(w io.Writer) {
	paragraph(w, "Checked is how often a probe fired in a scenario: =100 exactly so often, ≥1 at least so often. For a family, the number is for each member.")
	for _, f := range r.Failed {
		fmt.Fprintf(w, "\nThe scenario %s failed: %v\n", f.Scenario, f.Err)
	}
	for _, p := range r.Probes {
		if p.Found == Dangerous {
			paragraph(w, fmt.Sprintf("%s was not attached to: %s.", p.label(), p.Refused))
		}
	}
	if settled := r.Settled(); len(settled) > 0 {
		var names []string
		for _, p := range settled {
			state := dtrace.Alive
			if p.Found == Silent {
				state = dtrace.Dead
			}
			names = append(names, fmt.Sprintf("%s is %s", p.label(), state))
		}
		paragraph(w, "Not in the catalogue: "+strings.Join(names, ", ")+".")
	}
	wrong := r.Wrong()
	for _, p := range wrong {
		paragraph(w, p.complaint())
	}
	switch {
	case len(wrong) == 0 && len(r.Failed) == 0:
		fmt.Fprintln(w, "\nThe catalogue and this VM agree.")
	case len(wrong) == 0:
		fmt.Fprintln(w, "\nAs far as it was tested, the catalogue and this VM agree.")
	}
}

// complaint describes the error in the catalogue's entry of the probe.
func (p Probe) complaint() string {
	if !p.Known {
		return fmt.Sprintf("%s %s.", p.label(), p.Wrong)
	}
	return fmt.Sprintf("%s: the catalogue says %s, and here it %s.", p.label(), p.State, p.Wrong)
}

// paragraph writes an empty line and then text in lines of about 100 columns.
func paragraph(w io.Writer, text string) {
	fmt.Fprintf(w, "\n%s\n", strings.Join(fill(strings.Fields(text), 100), "\n"))
}
