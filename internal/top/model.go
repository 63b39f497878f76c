package top

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/beamscope/beamscope/internal/modname"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/price"
)

// A Model keeps what was seen, and makes tables of it. It knows no terminal, no clock and
// no source: the same plans and batches give the same tables. It is not safe for use by
// several goroutines at once.
type Model struct {
	live   *history
	frozen *history // that is shown, nil: the live one
	guard  price.Guard
	want   Level  // that was asked for
	wantBy string // likewise
	begun  bool   // what is wanted was observed in the window before
	gaveUp string // why the level is not Everything, "" where it is

	// leave leaves out a VM, and says so; ok is false where it cannot be left out. Where next is
	// true the VM pays until the next plan. nil: no VM can be left out.
	leave   func(loud *price.Loud, why string) (notice string, next, ok bool)
	leaving bool // a VM is left out from the next plan on

	most Level  // that can be observed
	lack string // why that is not Everything, "" where it is

	surveys []*Survey // that are of no window yet
	ages    ages
	growth  growth
	pending []Used // by the VMs, in the window before and in the one to come

	sort    Column // or Automatic
	reverse bool
	average int // windows
	filter  string
	pattern *regexp.Regexp // of the filter, nil where that is none
}

// NewModel returns a model that observes everything, within a limit, and has seen
// nothing yet.
func NewModel(by string, l price.Limit) *Model {
	return &Model{
		live: &history{by: by}, guard: price.Guard{Limit: l, Patience: price.Patience},
		want: Everything, most: Everything, wantBy: by, sort: Automatic, average: 1,
	}
}

// Wanted returns what should be observed: at which level, and by what its rows are.
func (m *Model) Wanted() (l Level, by string) { return m.want, m.wantBy }

// Configure notes what the batches from now on are of. Rows of another sort begin anew.
func (m *Model) Configure(p outcome.Plan) {
	next := *m.live
	next.level, next.accounts = 0, [kinds]bool{}
	for _, s := range p.Specs {
		if k, ok := kindOf(s.Name); ok {
			next.level = max(next.level, Level(k)+1)
			next.dmax[k], next.accounts[k] = s.DMax(), s.Accounts
			if next.by != s.Group {
				next.by, next.windows, next.survey = s.Group, nil, nil
				m.surveys, m.ages, m.growth = nil, ages{}, growth{}
			}
		}
	}
	m.live = &next
	m.guard.Forget()
	m.begun, m.leaving = false, false
	if m.sort != Automatic && m.sort.info().value != nil && !next.level.Has(m.sort.info().kind) {
		m.sort = Automatic
	}
}

// Add takes over a batch, of which it keeps nothing. Where observing has cost too much it
// says what is given up, "" otherwise; [Model.Wanted] is another one then. The error says
// that even the least costs too much: it wraps [ErrLimit].
func (m *Model) Add(b *outcome.Batch) (notice string, err error) {
	m.extend(b)
	if m.live.level != m.want || m.live.by != m.wantBy || m.leaving || b.Strangers {
		return "", nil // what is wanted has not begun yet
	}
	if !m.begun {
		m.begun = true
		return "", nil // what was given up may have been attached to still
	}
	why, loud := m.guard.Judge(b.Cost, b.Loads, b.Window.Duration())
	if why == "" {
		return "", nil
	}
	if loud != nil && m.leave != nil {
		if notice, next, ok := m.leave(loud, why); ok {
			m.leaving, m.begun = next, false
			return notice, nil
		}
	}
	if m.want == 1 {
		return "", fmt.Errorf("%w, even of %s alone: %s. Detached; --rate allows more", ErrLimit, GC, why)
	}
	m.want--
	m.gaveUp = why
	return fmt.Sprintf("gave up %s: %s", Kind(m.want), why), nil
}

// Lack notes that no more than a level can be observed, and why.
func (m *Model) Lack(most Level, why string) {
	m.most, m.lack = most, why
	m.Retry()
}

// Retry wants everything to be observed again that can be.
func (m *Model) Retry() { m.want, m.gaveUp = m.most, m.lack }

// Refused notes that what is wanted cannot be had: it goes on with what there is.
func (m *Model) Refused() { m.want, m.wantBy, m.leaving = m.live.level, m.live.by, false }

// GroupBy wants other rows: [outcome.GroupPID] or [outcome.GroupMFA].
func (m *Model) GroupBy(by string) { m.wantBy = by }

// surveysMost is how many surveys wait for their window at most.
const surveysMost = 16

// Survey takes over a survey. It is shown with the window in which it was made, and as that of
// an earlier time with the windows after it until there is another one.
func (m *Model) Survey(s *Survey) {
	if s.By != m.live.by {
		return // it was on its way when the rows became others
	}
	m.surveys = append(m.surveys[max(0, len(m.surveys)+1-surveysMost):], s)
}

// Use takes over what the VMs used of the processors since it was called before: about in the
// window after the one that is added next. The first figure covers all time since top attached:
// the first two windows have it.
func (m *Model) Use(u Used) { m.pending = append(m.pending[max(0, len(m.pending)-1):], u) }

// surveyAge is for how long a survey is shown where no other one comes, and at least for so
// many windows.
const (
	surveyAge     = 10 * time.Second
	surveyWindows = 3
)

// extend has the history go on with a window, and with the last survey that was made before
// its end.
func (m *Model) extend(b *outcome.Batch) {
	w := windowOf(b, m.live.accounts)
	for _, u := range m.pending {
		if !w.used.Known {
			w.used = u
		}
	}
	next := m.live.add(w)
	if next.survey != nil && w.To-next.survey.To > max(int64(surveyAge), surveyWindows*int64(w.Duration())) {
		next.survey, next.growing = nil, false
	}
	m.ages.pass(next)
	for len(m.surveys) > 0 && m.surveys[0].To <= w.To {
		s := m.surveys[0]
		m.surveys = m.surveys[1:]
		m.growth.add(s)
		if len(m.surveys) > 0 && m.surveys[0].To <= w.To {
			continue
		}
		next.survey, next.growing = s, m.growth.some
		if s.To > w.From {
			m.ages.age(next, s)
			w.see(s)
		}
	}
	m.live = next
}

// SortBy sorts by a column, or as [Automatic] says.
func (m *Model) SortBy(c Column) { m.sort = c }

// sortedBy returns the column that a history is sorted by.
func (m *Model) sortedBy(h *history) Column {
	switch {
	case m.sort != Automatic:
		return m.sort
	case h.growing:
		return ByWaiting
	case h.level.Has(Run) && h.accounts[Run]:
		return ByCPU
	case h.level.Has(Run):
		return BySlices
	}
	return ByGC
}

// Reverse sorts the other way round.
func (m *Model) Reverse() { m.reverse = !m.reverse }

// Average has the figures be those of the last n windows together, 1 to [MaxAverage].
func (m *Model) Average(n int) { m.average = min(max(n, 1), MaxAverage) }

// MaxAverage is how many windows an average is over at most.
const MaxAverage = 30

// Filter has only rows shown whose process, name or VM has the text in it, or matches it
// as a regular expression; case does not matter. "" shows all.
func (m *Model) Filter(text string) {
	m.filter = text
	m.pattern, _ = regexp.Compile("(?i)" + text) // nil for a text that is none
}

// Freeze has what is shown stay as it is, or follow the present again. What comes in
// meanwhile is counted all the same.
func (m *Model) Freeze(on bool) {
	switch {
	case !on:
		m.frozen = nil
	case m.frozen == nil:
		m.frozen = m.live
	}
}

// A Table is what a model shows.
type Table struct {
	Window  outcome.Window
	Time    time.Time // wall time of the window's end
	Windows int       // that the figures are of, the last of them is Window; 0: there are none yet
	By      string    // what the rows are
	Level   Level     // what is observed
	Most    Level     // what can be
	GaveUp  string    // why not everything is
	DMax    [kinds]time.Duration
	VMs     []outcome.VM
	Rows    []Row // in their order
	All     int   // how many there are without the filter
	Others  Cells
	Total   Cells
	Used    Used // of the processors by the VMs, as the operating system says

	// Stale is how long before the end of Window the VMs' memory was read, where that was
	// before Window began; otherwise 0.
	Stale time.Duration

	Lost     [kinds]outcome.Loss
	Partial  bool // something was not observed for all of the time
	Cost     outcome.Cost
	Sort     Column
	Auto     bool // Sort was chosen by what is going on
	Reverse  bool
	Filter   string
	Frozen   bool
	Since    int           // windows that came since it was frozen
	Duration time.Duration // of the last window

	shown *history
}

// Table returns what is to be shown.
func (m *Model) Table() *Table {
	h := m.live
	if m.frozen != nil {
		h = m.frozen
	}
	t := &Table{
		By: h.by, Level: m.live.level, Most: m.most, DMax: h.dmax, VMs: h.vms(),
		Sort: m.sortedBy(h), Auto: m.sort == Automatic, Reverse: m.reverse, Filter: m.filter, Frozen: m.frozen != nil, shown: h,
	}
	if t.Level < Everything {
		t.GaveUp = m.gaveUp
	}
	windows := h.last(m.average)
	t.Windows = len(windows)
	if t.Windows == 0 {
		return t
	}
	newest := windows[len(windows)-1]
	t.Window, t.Time, t.Cost, t.Duration = newest.Window, newest.time, newest.cost, newest.Duration()
	for _, w := range m.live.windows {
		if w.From >= newest.To {
			t.Since++
		}
	}
	t.losses(windows)
	for k := range Kind(h.level) { // what was given up is not known any more
		t.Others.Kinds[k], t.Total.Kinds[k] = othersOf(k, windows), totalOf(k, windows)
	}
	if h.survey != nil {
		if h.survey.To <= newest.From {
			t.Stale = time.Duration(newest.To - h.survey.To)
		}
		t.Others.Seen, t.Total.Seen = t.seen(h.survey.Rest), t.seen(h.survey.Total)
		t.Others.Seen.Function, t.Total.Seen.Function = "", ""
	}
	t.Used = usedIn(windows)
	t.rows(m, windows)
	return t
}

// seen returns what a survey says of a row as what is known of the last window.
func (t *Table) seen(s Seen) Seen {
	if s.Known && t.Stale > 0 {
		return s.before()
	}
	return s
}

// losses adds up what was lost.
func (t *Table) losses(windows []*window) {
	for _, w := range windows {
		for _, vm := range w.vms {
			for k := range kinds {
				t.Lost[k] = t.Lost[k].Add(vm[k].lost)
				t.Partial = t.Partial || vm[k].partial
			}
		}
	}
}

// rows makes the rows, in their order.
func (t *Table) rows(m *Model, windows []*window) {
	ids := t.shown.ids()
	t.All = len(ids)
	for id, known := range ids {
		if !m.matches(id, known) {
			continue
		}
		r := Row{ID: id, Process: known.process, Name: known.name}
		if s := t.shown.survey; s != nil {
			r.Seen = t.seen(s.Rows[id])
		}
		for k := range Kind(t.shown.level) {
			r.Kinds[k] = figuresOf(id, k, windows)
		}
		t.Rows = append(t.Rows, r)
	}
	compare := comparer(t.Sort, m.reverse)
	slices.SortFunc(t.Rows, func(a, b Row) int { return compare(&a, &b) })
}

// matches tells whether a row is shown with the filter.
func (m *Model) matches(id ID, known name) bool {
	if m.filter == "" {
		return true
	}
	text := id.Key + " " + known.name + " " + id.VM.String()
	return m.found(text) || m.found(modname.Readable(text))
}

// found tells whether the filter finds a text.
func (m *Model) found(text string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(m.filter)) || m.pattern != nil && m.pattern.MatchString(text)
}

// comparer returns the order of rows by a column: the largest numbers and the first names
// come first, or last in reverse; what is not known comes after what is.
func comparer(c Column, reverse bool) func(a, b *Row) int {
	sign := 1
	if reverse {
		sign = -1
	}
	switch c {
	case ByProcess:
		return func(a, b *Row) int { return sign * compareIDs(a, b) }
	case ByVM:
		return func(a, b *Row) int { return cmp.Or(sign*compareVMs(a.VM, b.VM), compareIDs(a, b)) }
	case ByFunction:
		return func(a, b *Row) int {
			return cmp.Or(compareBools(a.Seen.Function == "", b.Seen.Function == ""), sign*cmp.Compare(a.Seen.Function, b.Seen.Function), compareIDs(a, b))
		}
	}
	return func(a, b *Row) int {
		x, y := c.value(&a.Cells), c.value(&b.Cells)
		if math.IsNaN(x) || math.IsNaN(y) {
			return cmp.Or(compareBools(math.IsNaN(x), math.IsNaN(y)), compareIDs(a, b))
		}
		return cmp.Or(sign*cmp.Compare(y, x), compareIDs(a, b))
	}
}

// compareIDs is the order of rows that are equal otherwise.
func compareIDs(a, b *Row) int {
	return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(a.Key, b.Key), compareVMs(a.VM, b.VM))
}

func compareVMs(a, b outcome.VM) int {
	return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Node, b.Node))
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// Trend returns the column of the trend, of a row, window by window, in the last n: NaN where
// it is not known, or there was no window. It is the column by which the table is sorted, and
// of columns of which nothing is kept [ByCPU].
func (t *Table) Trend(r *Row, n int) []float64 {
	return t.trend(n, func(c Column, w *window) Cells { return t.cellsIn(c, w, r.ID) })
}

// cellsIn returns what a column needs to know of a row in a window.
func (t *Table) cellsIn(c Column, w *window, id ID) (some Cells) {
	if i := c.info(); i.seen == nil {
		some.Kinds[i.kind] = figuresOf(id, i.kind, []*window{w})
	} else if w.waiting != nil {
		some.Seen = Seen{Known: true, Waiting: w.waiting[id]}
	}
	return some
}

// TotalTrend is the trend of the total.
func (t *Table) TotalTrend(n int) []float64 {
	return t.trend(n, func(c Column, w *window) (all Cells) {
		if i := c.info(); i.seen == nil {
			all.Kinds[i.kind] = totalOf(i.kind, []*window{w})
		} else if w.waiting != nil {
			all.Seen = Seen{Known: true, Waiting: w.waits}
		}
		return all
	})
}

func (t *Table) trend(n int, of func(Column, *window) Cells) []float64 {
	c := t.trendOf()
	values := make([]float64, n)
	windows := t.shown.last(n)
	for i := range values {
		values[i] = math.NaN()
		if at := i - n + len(windows); at >= 0 {
			cells := of(c, windows[at])
			values[i] = c.value(&cells)
		}
	}
	return values
}

// trendOf returns the column of the trend.
func (t *Table) trendOf() Column {
	switch t.Sort {
	case ByProcess, ByVM, ByFunction, ByOldest, ByMemory, ByReductions:
		return ByCPU
	}
	return t.Sort
}
