package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// columns is the width of a check's text. A longer word exceeds it.
const columns = 100

// A Printer writes checks one by one, and then the result.
type Printer interface {
	Check(Check) error
	Result(Report) error
}

// NewText returns a printer for people.
func NewText(w io.Writer) Printer { return paragraphs{w} }

type paragraphs struct{ w io.Writer }

// Check implements [Printer].
func (t paragraphs) Check(c Check) error {
	name := c.Name
	if c.PID != 0 {
		name = fmt.Sprintf("%s %d", c.Name, c.PID)
	}
	var out strings.Builder
	head := fmt.Sprintf("%-8s %-18s ", c.Status, name)
	paragraph(&out, head, strings.Repeat(" ", 28), c.Found)
	if c.Do != "" {
		paragraph(&out, strings.Repeat(" ", 25)+"-> ", strings.Repeat(" ", 28), c.Do)
	}
	_, err := io.WriteString(t.w, out.String())
	return err
}

// Result implements [Printer].
func (t paragraphs) Result(r Report) (err error) {
	switch {
	case r.OnlySpans:
		_, err = io.WriteString(t.w, "\nbeamscope can observe spans here.\n")
	case r.Works:
		_, err = io.WriteString(t.w, "\nbeamscope can work here.\n")
	}
	return err
}

// paragraph writes wrapped text. The first line begins with head, the others with margin.
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

// NewJSON returns a printer for machines, one object a line: one for each check, then the result.
func NewJSON(w io.Writer) Printer {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return lines{encoder}
}

type lines struct{ *json.Encoder }

// Check implements [Printer].
func (l lines) Check(c Check) error { return l.Encode(c) }

// Result implements [Printer].
func (l lines) Result(r Report) error {
	return l.Encode(struct {
		Works     bool   `json:"works"`
		OnlySpans bool   `json:"only_spans,omitempty"`
		Do        string `json:"do,omitempty"`
	}{r.Works, r.OnlySpans, r.Do})
}
