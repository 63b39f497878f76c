package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// columns is how wide the text of a check gets; a word may be wider.
const columns = 100

// Text writes a report for people, the machine first.
func Text(w io.Writer, r Report) error {
	var out strings.Builder
	for _, c := range r.Checks {
		name := c.Name
		if c.PID != 0 {
			name = fmt.Sprintf("%s %d", c.Name, c.PID)
		}
		head := fmt.Sprintf("%-8s %-18s ", c.Status, name)
		paragraph(&out, head, strings.Repeat(" ", 28), c.Found)
		if c.Do != "" {
			paragraph(&out, strings.Repeat(" ", 25)+"-> ", strings.Repeat(" ", 28), c.Do)
		}
	}
	if r.Works {
		out.WriteString("\nbeamscope can work here.\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// paragraph writes text in lines: the first one begins with head, the others with
// margin.
func paragraph(w *strings.Builder, head, margin, text string) {
	line := head
	for i, word := range strings.Fields(text) {
		switch {
		case i > 0 && len(line)+1+len(word) > columns:
			fmt.Fprintln(w, line)
			line = margin + word
		case i > 0:
			line += " " + word
		default:
			line += word
		}
	}
	fmt.Fprintln(w, line)
}

// JSON writes a report for machines, one object a line: one for each check, then
// what comes of them.
func JSON(w io.Writer, r Report) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	for _, c := range r.Checks {
		if err := encoder.Encode(c); err != nil {
			return err
		}
	}
	return encoder.Encode(struct {
		Works bool   `json:"works"`
		Do    string `json:"do,omitempty"`
	}{r.Works, r.Do})
}
