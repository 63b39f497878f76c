package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/beamscope/beamscope/internal/beam/modname"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/host/safetext"
	"github.com/beamscope/beamscope/internal/sources/sampled"
)

// A Sampler takes samples of VMs, window by window, as [sampled.Source] does.
type Sampler interface {
	Next(context.Context) (*sampled.Window, error)
	Close() error
}

// SampledOptions configure a [Sampled].
type SampledOptions struct {
	By     string // kind of the rows: [outcome.GroupPID], or [outcome.GroupMFA] for the functions that ran
	Filter string // shows only rows that contain it, or match it as a regular expression
	Rate   int    // samples a second on each processor

	Processor Processor // returns the processor time of the VMs; nil: unknown

	// Tabled and Noticed are as in [Options].
	Tabled  func(*SampledTable) error
	Noticed func(outcome.Notice)
}

// A Sampled shows how VMs share processors, by samples.
type Sampled struct {
	opts       SampledOptions
	source     Sampler
	changed    chan struct{}
	processors processors

	mu    sync.Mutex
	model SampledModel
}

// NewSampled returns a Sampled that shows the samples of a source. It closes the source.
func NewSampled(s Sampler, o SampledOptions) *Sampled {
	return &Sampled{
		opts: o, source: s, changed: make(chan struct{}, 1), processors: processors{of: o.Processor},
		model: SampledModel{by: o.By, filter: o.Filter, rate: o.Rate, average: 1},
	}
}

// Close ends the sampling.
func (s *Sampled) Close() error { return s.source.Close() }

// Run takes samples until the context is done, for a time (0: without end), or until no VM is left.
// It is called once.
func (s *Sampled) Run(ctx context.Context, limit time.Duration) error {
	begin := int64(-1)
	for {
		w, err := s.source.Next(ctx)
		switch {
		case errors.Is(err, sampled.ErrEnded):
			s.notice(outcome.Notice{Time: monotonic.Now(), Text: err.Error()})
			return nil
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		used := s.processors.read(w.VMs, monotonic.Now())
		for _, n := range w.Notices {
			s.notice(n)
		}
		s.Do(func(m *SampledModel) { m.add(w, used) })
		if s.opts.Tabled != nil {
			if err := s.opts.Tabled(s.Table()); err != nil {
				return err
			}
		}
		if begin < 0 {
			begin = w.From
		}
		if limit > 0 && w.To-begin >= int64(limit) {
			return nil
		}
	}
}

func (s *Sampled) notice(n outcome.Notice) {
	if s.opts.Noticed != nil {
		s.opts.Noticed(n)
		signal(s.changed)
	}
}

// Do calls a function with the model. Any goroutine may call it.
func (s *Sampled) Do(do func(*SampledModel)) {
	s.mu.Lock()
	do(&s.model)
	s.mu.Unlock()
	signal(s.changed)
}

// Table returns the present table of the model. Any goroutine may call it.
func (s *Sampled) Table() *SampledTable {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.model.Table()
}

// A SampledModel keeps the samples of the last windows, and makes tables from them. Several
// goroutines must not use it at once.
type SampledModel struct {
	by, filter string
	rate       int
	average    int
	windows    []sampledWindow // the last [MaxAverage]
	frozen     []sampledWindow // the shown windows if frozen, or nil
}

type sampledWindow struct {
	*sampled.Window
	used Used
}

func (m *SampledModel) add(w *sampled.Window, used Used) {
	first := max(0, len(m.windows)+1-MaxAverage)
	m.windows = append(slices.Clone(m.windows[first:]), sampledWindow{w, used})
}

// GroupBy sets the kind of the rows: processes, [outcome.GroupPID], or functions,
// [outcome.GroupMFA].
func (m *SampledModel) GroupBy(by string) { m.by = by }

// Average makes the figures those of the last n windows together, 1 to [MaxAverage].
func (m *SampledModel) Average(n int) { m.average = min(max(n, 1), MaxAverage) }

// Freeze makes the table stay unchanged, or follow the present again.
func (m *SampledModel) Freeze(on bool) {
	m.frozen = nil
	if on {
		m.frozen = m.windows
	}
}

// A SampledTable is a table of samples.
type SampledTable struct {
	Window     outcome.Window // the last one
	Time       time.Time      // wall time of its end
	Duration   time.Duration  // of the last window
	Windows    int            // number of windows of the figures; 0: there are none yet
	By         string
	Rate       int // samples a second on each processor
	Processors int // number of sampled processors
	VMs        []outcome.VM
	Rows       []SampledRow // sorted by number of samples, the largest first
	All        int          // number of rows without the filter
	Total      SampledRow
	Taken      uint64 // samples on all processors, of VMs and of everything else
	Missing    uint64 // samples that were due but not taken; an idle processor gives none
	Stale      bool   // some windows were read too late
	Used       Used
	Cost       outcome.Cost // of the last window
	Filter     string
	Frozen     bool
}

// A SampledRow is a process or a function that used a processor.
type SampledRow struct {
	VM       outcome.VM
	Who      sampled.Who // if the rows are processes
	Name     string      // of a process
	Function string      // if the rows are functions

	N uint64 // number of samples

	// Share is the share of the time, where 1 is a processor. AtLeast and AtMost are its bounds
	// in 95 of 100 cases, by the binomial distribution of samples: Wilson's score interval with
	// the correction for continuity.
	Share, AtLeast, AtMost float64

	Parts []SampledPart // functions of a process, or processes of a function, sorted by number of samples
}

// A SampledPart is a part of a row.
type SampledPart struct {
	Who      sampled.Who
	Name     string
	Function string
	N        uint64
}

// Table returns the present table.
func (m *SampledModel) Table() *SampledTable {
	windows := m.windows
	if m.frozen != nil {
		windows = m.frozen
	}
	windows = windows[max(0, len(windows)-m.average):]
	t := &SampledTable{By: m.by, Rate: m.rate, Filter: m.filter, Frozen: m.frozen != nil, Windows: len(windows)}
	if t.Windows == 0 {
		return t
	}
	newest := windows[len(windows)-1]
	t.Window, t.Time, t.Duration, t.VMs, t.Cost = newest.Window.Window, newest.Time, newest.Duration(), newest.VMs, newest.Cost
	t.Processors, t.Used = newest.Processors, newest.used
	type id struct {
		vm       outcome.VM
		who      sampled.Who
		function string
	}
	rows := make(map[id]*SampledRow)
	for _, w := range windows {
		t.Taken += w.Taken
		t.Missing += w.Missing
		t.Stale = t.Stale || w.Stale
		for _, c := range w.Cells {
			key := id{vm: c.VM, who: c.Who}
			if m.by == outcome.GroupMFA {
				key = id{vm: c.VM, function: c.Function}
			}
			r := rows[key]
			if r == nil {
				r = &SampledRow{VM: key.vm, Who: key.who, Function: key.function}
				rows[key] = r
			}
			r.add(c, m.by)
			t.Total.N += c.N
		}
	}
	t.All = len(rows)
	t.share(&t.Total)
	pattern, _ := regexp.Compile("(?i)" + m.filter) // nil if the text is not a valid pattern
	for _, r := range rows {
		t.share(r)
		slices.SortFunc(r.Parts, func(a, b SampledPart) int {
			return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Function, b.Function), cmp.Compare(a.Who.String(), b.Who.String()))
		})
		text := t.rowText(r) + " " + r.Function + " " + r.VM.String()
		if strings.Contains(strings.ToLower(text), strings.ToLower(m.filter)) || pattern != nil && pattern.MatchString(text) {
			t.Rows = append(t.Rows, *r)
		}
	}
	slices.SortFunc(t.Rows, func(a, b SampledRow) int {
		return cmp.Or(cmp.Compare(b.N, a.N), compareVMs(a.VM, b.VM), cmp.Compare(a.Who.Kind, b.Who.Kind), cmp.Compare(a.Who.Number, b.Who.Number),
			cmp.Compare(a.Who.String(), b.Who.String()), cmp.Compare(a.Function, b.Function))
	})
	return t
}

// add adds samples to a row.
func (r *SampledRow) add(c sampled.Cell, by string) {
	part := SampledPart{Function: c.Function}
	if by == outcome.GroupMFA {
		part = SampledPart{Who: c.Who, Name: c.Name}
	} else if c.Name != "" {
		r.Name = c.Name
	}
	r.N += c.N
	for i := range r.Parts {
		p := &r.Parts[i]
		if p.Who == part.Who && p.Function == part.Function {
			p.N += c.N
			p.Name = cmp.Or(part.Name, p.Name)
			return
		}
	}
	part.N = c.N
	r.Parts = append(r.Parts, part)
}

// share sets the share of a row and its bounds.
func (t *SampledTable) share(r *SampledRow) {
	due := t.Taken + t.Missing
	if due == 0 {
		return
	}
	lo, hi := binomialBounds(min(r.N, due), due)
	all := float64(t.Processors)
	r.Share, r.AtLeast, r.AtMost = all*float64(r.N)/float64(due), all*lo, all*hi
}

// binomialBounds returns bounds of a probability at a confidence of 95 %, if n out of this many
// samples were found. See R. G. Newcombe, "Two-sided confidence intervals for the single
// proportion: comparison of seven methods", Statistics in Medicine 17 (1998), method 4.
func binomialBounds(n, of uint64) (lo, hi float64) {
	const z = 1.959963984540054 // 2.5 % of the normal distribution lie above
	all, p := float64(of), float64(n)/float64(of)
	q := 1 - p
	lo, hi = 0, 1
	if n > 0 {
		lo = max(0, (2*all*p+z*z-1-z*math.Sqrt(z*z-2-1/all+4*p*(all*q+1)))/(2*(all+z*z)))
	}
	if n < of {
		hi = min(1, (2*all*p+z*z+1+z*math.Sqrt(z*z+2-1/all+4*p*(all*q-1)))/(2*(all+z*z)))
	}
	return lo, hi
}

// whoText returns the displayed name of a process.
func whoText(w sampled.Who, name string) string {
	return safetext.Line(modname.Readable(strings.TrimSpace(w.String() + " " + name)))
}

// functionText returns the displayed name of a function.
func functionText(name string) string { return safetext.Line(modname.Function(name)) }

// rowText returns the displayed name of a row.
func (t *SampledTable) rowText(r *SampledRow) string {
	if t.By == outcome.GroupMFA {
		return functionText(r.Function)
	}
	return whoText(r.Who, r.Name)
}

// mostly returns the function in which a process was most of the time, or the process for which a
// function mostly ran.
func (t *SampledTable) mostly(r *SampledRow) string {
	if len(r.Parts) == 0 || r.N == 0 {
		return "-"
	}
	p := r.Parts[0]
	name := functionText(p.Function)
	if t.By == outcome.GroupMFA {
		name = whoText(p.Who, p.Name)
	}
	return fmt.Sprintf("%.0f%% %s", 100*float64(p.N)/float64(r.N), name)
}
