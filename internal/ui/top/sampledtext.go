package top

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/price"
	"github.com/beamscope/beamscope/internal/host/safetext"
	"github.com/beamscope/beamscope/internal/sources/sampled"
)

// A SampledText printer writes tables of samples for people.
type SampledText struct {
	w     io.Writer
	limit int
}

// NewSampledText returns a printer on w, of the first rows of each table up to a limit.
func NewSampledText(w io.Writer, limit int) *SampledText { return &SampledText{w, limit} }

// Table writes a table.
func (p *SampledText) Table(t *SampledTable) error {
	safetext.Fprintf(p.w, "%s  %s\n", t.Time.Local().Format("15:04:05.000"), t.title())
	tw := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', tabwriter.AlignRight)
	rows, parts := t.heads()
	fmt.Fprintf(tw, "cpu%%▼\tat least\tat most\tn\t  %s (%s)\n", rows, parts)
	line := func(r *SampledRow, text string) {
		safetext.Fprintf(tw, "%s\t%s\t%s\t%d\t  %s\n", figures.Share(r.Share), figures.ShareDown(r.AtLeast), figures.ShareUp(r.AtMost), r.N, text)
	}
	line(&t.Total, "everything")
	for i := range t.Rows[:min(len(t.Rows), p.limit)] {
		r := &t.Rows[i]
		line(r, fmt.Sprintf("%s (%s)", t.nameOf(r), t.mostly(r)))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if more := len(t.Rows) - p.limit; more > 0 {
		safetext.Fprintf(p.w, "and %d more\n", more)
	}
	for _, remark := range t.remarks() {
		safetext.Fprintln(p.w, remark)
	}
	_, err := fmt.Fprintln(p.w)
	return err
}

// heads returns the heads of the rows and of their parts.
func (t *SampledTable) heads() (rows, parts string) {
	if t.By == outcome.GroupMFA {
		return "function", "mostly of process"
	}
	return "process", "mostly in function"
}

// nameOf returns the displayed name of a row, with its VM if there are several.
func (t *SampledTable) nameOf(r *SampledRow) string {
	if len(t.VMs) < 2 {
		return t.rowText(r)
	}
	return t.rowText(r) + " of " + safetext.Line(r.VM.String())
}

// title describes the table.
func (t *SampledTable) title() string {
	text := fmt.Sprintf("sampled by %s, window of %v", t.By, t.Duration)
	if t.Windows > 1 {
		text = fmt.Sprintf("sampled by %s, last %d windows of %v", t.By, t.Windows, t.Duration)
	}
	text += ": " + vmsText(t.VMs)
	if used := t.Used.text(); used != "" {
		text += ", " + used
	}
	return text
}

// remarks returns the lines below the table.
func (t *SampledTable) remarks() []string {
	var lines []string
	if t.Stale {
		lines = append(lines, "some windows were read too late: nothing is known of them")
	}
	return append(lines, t.samplesText()+"; bounds of 95%", t.costText())
}

// samplesText describes the samples.
func (t *SampledTable) samplesText() string {
	return fmt.Sprintf("samples: %d a second on each of %d processors, %d taken, %d idle or lost", t.Rate, t.Processors, t.Taken, t.Missing)
}

// costText describes the cost of the samples in the last window.
func (t *SampledTable) costText() string { return price.Text(t.Cost, t.Duration, "samples") }

// The lines by type.
type (
	sampledRow struct {
		Type string `json:"type"` // row
		jsonHead
		VM       jsonVM         `json:"vm"`
		Kind     string         `json:"kind"`
		Key      *string        `json:"key"`
		Name     *string        `json:"name"`
		Sampled  sampledFigures `json:"sampled"`
		Function []sampledPart  `json:"functions,omitempty"`
		Process  []sampledPart  `json:"processes,omitempty"`
	}
	sampledTotal struct {
		Type string `json:"type"` // total
		jsonHead
		VMs        []jsonVM       `json:"vms"`
		Rows       int            `json:"rows"`
		Sampled    sampledFigures `json:"sampled"`
		Rate       int            `json:"rate_hz"`
		Processors int            `json:"processors"`
		Taken      uint64         `json:"taken"`
		Missing    uint64         `json:"idle_or_lost"`
		Stale      bool           `json:"unobserved,omitempty"`
		Used       *float64       `json:"os_processor_share"`
		Cores      *int           `json:"os_processors"`
		Cost       jsonCost       `json:"cost"`
	}
	sampledFigures struct {
		N       uint64  `json:"n"`
		Share   float64 `json:"processor_share"`
		AtLeast float64 `json:"at_least"`
		AtMost  float64 `json:"at_most"`
	}
	sampledPart struct {
		Kind string  `json:"kind,omitempty"`
		Key  *string `json:"key"`
		Name *string `json:"name,omitempty"`
		N    uint64  `json:"n"`
	}
)

// partsMost is the largest number of parts of a row in JSON.
const partsMost = 10

// SampledTable writes the lines of a table of samples: its rows, and the total.
func (p *JSON) SampledTable(t *SampledTable) error {
	rows := t.Rows
	if p.limit > 0 {
		rows = rows[:min(len(rows), p.limit)]
	}
	head := jsonHead{t.Time, jsonWindow{t.Window.From, t.Window.To}, t.By}
	for i := range rows {
		r := &rows[i]
		line := sampledRow{Type: "row", jsonHead: head, VM: jsonVM{r.VM.PID, r.VM.Node}, Sampled: sampledFiguresOf(r)}
		parts := make([]sampledPart, 0, partsMost)
		for _, part := range r.Parts[:min(len(r.Parts), partsMost)] {
			parts = append(parts, part.json(t.By))
		}
		if t.By == outcome.GroupMFA {
			line.Kind, line.Key, line.Process = functionKind(r.Function), functionKey(r.Function), parts
		} else {
			line.Kind, line.Key, line.Name, line.Function = r.Who.Kind.String(), whoKey(r.Who), some(r.Name), parts
		}
		if err := p.enc.Encode(line); err != nil {
			return err
		}
	}
	vms := jsonVMs(t.VMs)
	total := sampledTotal{
		Type: "total", jsonHead: head, VMs: vms, Rows: t.All, Sampled: sampledFiguresOf(&t.Total), Rate: t.Rate, Processors: t.Processors,
		Taken: t.Taken, Missing: t.Missing, Stale: t.Stale, Cost: costOf(t.Cost, t.Duration),
	}
	if t.Used.Known {
		total.Used, total.Cores = &t.Used.Share, &t.Used.Processors
	}
	return p.enc.Encode(total)
}

func (p SampledPart) json(by string) sampledPart {
	if by == outcome.GroupMFA {
		return sampledPart{Kind: p.Who.Kind.String(), Key: whoKey(p.Who), Name: some(p.Name), N: p.N}
	}
	return sampledPart{Key: functionKey(p.Function), N: p.N}
}

func sampledFiguresOf(r *SampledRow) sampledFigures {
	return sampledFigures{r.N, r.Share, r.AtLeast, r.AtMost}
}

// whoKey returns the pid of a process, or its term if the pid is unknown. It returns nil if there
// is no process.
func whoKey(w sampled.Who) *string {
	switch w.Kind {
	case sampled.Process:
		return some(w.String())
	case sampled.Term:
		return some(fmt.Sprintf("%#x", w.Term))
	}
	return nil
}

// functionKey returns the name of a function in Erlang syntax, or nil if there is no function.
func functionKey(name string) *string {
	if sampled.IsFunction(name) {
		return &name
	}
	return nil
}

// functionKind returns the kind of a function's row as a word for JSON.
func functionKind(name string) string {
	switch name {
	case sampled.InC:
		return "in_c"
	case sampled.Changed:
		return "replaced_code"
	case sampled.NoCode:
		return "not_known"
	}
	return "function"
}

// some returns a pointer to a text, or nil for "".
func some(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
