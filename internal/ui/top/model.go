package top

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/beamscope/beamscope/internal/beam/modname"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/price"
)

// A Model keeps the observed data, and makes tables from it. It has no terminal, clock or source:
// the same plans and batches give the same tables. Several goroutines must not use it at once.
type Model struct {
	live   *history
	frozen *history // the shown history if frozen; nil for the live one
	guard  price.Guard
	want   Level  // requested level
	wantBy string // requested kind of rows
	begun  bool   // the previous window already had what is wanted
	gaveUp string // why the level is not Everything; "" if it is

	// leave leaves out a VM, and returns a notice. ok is false if the VM cannot be left out. If
	// next is true, the VM pays until the next plan. If leave is nil, no VM can be left out.
	leave   func(exclude *price.Exclusion, why string) (notice string, next, ok bool)
	leaving bool // a VM is left out from the next plan on

	most Level  // highest possible level
	lack string // why most is not Everything; "" if it is

	surveys []*Survey // surveys that belong to no window yet
	ages    ages
	growth  growth
	pending []Used // processor time of the VMs, in the previous window and the next one

	sort    Column // or Automatic
	reverse bool
	average int // number of windows
	filter  string
	pattern *regexp.Regexp // the filter as a pattern; nil if it is not a valid one
}

// NewModel returns an empty model that observes everything, within a limit.
func NewModel(by string, l price.Limit) *Model {
	return &Model{
		live: &history{by: by}, guard: price.Guard{Limit: l, Patience: price.Patience},
		want: Everything, most: Everything, wantBy: by, sort: Automatic, average: 1,
	}
}

// Wanted returns the level to observe, and the kind of its rows.
func (m *Model) Wanted() (l Level, by string) { return m.want, m.wantBy }

// Configure sets the level and the kind of rows of the batches from now on. If the kind of rows
// changes, the rows begin anew.
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

// Add adds the data of a batch, and keeps no reference to it. If observing has cost too much, it
// returns what is given up, and then [Model.Wanted] changes. Otherwise it returns "". If even the
// lowest level costs too much, the error wraps [ErrLimit].
func (m *Model) Add(b *outcome.Batch) (notice string, err error) {
	m.extend(b)
	if m.live.level != m.want || m.live.by != m.wantBy || m.leaving {
		return "", nil // the wanted plan has not begun yet
	}
	if !m.begun {
		m.begun = true
		return "", nil // programs that were given up may still have been attached
	}
	m.guard.IncludeUnobserved(b.Strangers)
	why, exclude := m.guard.Judge(b.Cost, b.Loads, b.Users, b.Window.Duration())
	if why == "" {
		return "", nil
	}
	if exclude != nil && m.leave != nil {
		if notice, next, ok := m.leave(exclude, why); ok {
			m.leaving, m.begun = next, false
			return notice, nil
		}
	}
	if b.Strangers {
		return "", nil // the cost is not that of the VMs
	}
	if m.want == 1 {
		return "", fmt.Errorf("%w, even of %s alone: %s. Detached; --rate allows more", ErrLimit, GC, why)
	}
	m.want--
	m.gaveUp = why
	return fmt.Sprintf("gave up %s: %s", Kind(m.want), why), nil
}

// Lack sets the highest possible level, and the reason for it.
func (m *Model) Lack(most Level, why string) {
	m.most, m.lack = most, why
	m.Retry()
}

// Retry requests the highest possible level again.
func (m *Model) Retry() { m.want, m.gaveUp = m.most, m.lack }

// Refused means that the wanted level is not possible. The model continues with the present one.
func (m *Model) Refused() { m.want, m.wantBy, m.leaving = m.live.level, m.live.by, false }

// GroupBy requests another kind of rows: [outcome.GroupPID] or [outcome.GroupMFA].
func (m *Model) GroupBy(by string) { m.wantBy = by }

// surveysMost is the largest number of surveys that wait for their window.
const surveysMost = 16

// Survey adds a survey. It belongs to the window in which it was made. Later windows show it as
// older data until there is another one.
func (m *Model) Survey(s *Survey) {
	if s.By != m.live.by {
		return // it was made before the kind of rows changed
	}
	m.surveys = append(m.surveys[max(0, len(m.surveys)+1-surveysMost):], s)
}

// Use adds the processor time of the VMs since the last call. It belongs to the window after the
// next one that is added. The first figure covers all time since top attached, and the first two
// windows have it.
func (m *Model) Use(u Used) { m.pending = append(m.pending[max(0, len(m.pending)-1):], u) }

// A survey without a successor is shown for surveyAge, and for at least surveyWindows windows.
const (
	surveyAge     = 10 * time.Second
	surveyWindows = 3
)

// extend adds a window to the history, together with the last survey that was made before its
// end.
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

// SortBy sorts by a column, or according to [Automatic].
func (m *Model) SortBy(c Column) { m.sort = c }

// sortedBy returns the column by which a history is sorted.
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

// Reverse reverses the sort order.
func (m *Model) Reverse() { m.reverse = !m.reverse }

// Average makes the figures those of the last n windows together, 1 to [MaxAverage].
func (m *Model) Average(n int) { m.average = min(max(n, 1), MaxAverage) }

// MaxAverage is the largest number of windows of an average.
const MaxAverage = 30

// Filter shows only rows whose process, name or VM contains the text or matches it as a regular
// expression, ignoring case. "" shows all rows.
func (m *Model) Filter(text string) {
	m.filter = text
	m.pattern, _ = regexp.Compile("(?i)" + text) // nil if the text is not a valid pattern
}

// Freeze makes the table stay unchanged, or follow the present again. New data is still added
// meanwhile.
func (m *Model) Freeze(on bool) {
	switch {
	case !on:
		m.frozen = nil
	case m.frozen == nil:
		m.frozen = m.live
	}
}

// A Table is the contents of the screen.
type Table struct {
	Window  outcome.Window
	Time    time.Time // wall time of the window's end
	Windows int       // number of windows of the figures, up to and including Window; 0: there are none yet
	By      string    // kind of the rows
	Level   Level     // level that is observed
	Most    Level     // highest possible level
	GaveUp  string    // why some kinds are not observed
	DMax    [kinds]time.Duration
	VMs     []outcome.VM
	Unseen  []outcome.VM // VMs without rows, because their events cannot be seen
	Rows    []Row        // in sort order
	All     int          // number of rows without the filter
	Others  Cells
	Total   Cells
	Used    Used // processor time of the VMs according to the operating system

	// Stale is the time between the last read of the VMs' memory and the end of Window, if that
	// read was before Window began; otherwise 0.
	Stale time.Duration

	Lost     [kinds]outcome.Loss
	Partial  bool // some kind was not observed for the whole time
	Cost     outcome.Cost
	Sort     Column
	Auto     bool // Sort was chosen automatically
	Reverse  bool
	Filter   string
	Frozen   bool
	Since    int           // number of windows since the table was frozen
	Duration time.Duration // of the last window

	shown *history
}

// Table returns the present table.
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
	for k := range Kind(h.level) { // figures of kinds that were given up are unknown
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

// seen returns a survey's data of a row, as data of the last window.
func (t *Table) seen(s Seen) Seen {
	if s.Known && t.Stale > 0 {
		return s.before()
	}
	return s
}

// losses adds up the losses.
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

// rows sets the sorted rows.
func (t *Table) rows(m *Model, windows []*window) {
	ids := t.shown.ids()
	maps.DeleteFunc(ids, func(id ID, _ name) bool { return t.shown.dead(id) && !activeIn(id, windows) })
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

// activeIn reports whether a row had any activity in some windows.
func activeIn(id ID, windows []*window) bool {
	return slices.ContainsFunc(windows, func(w *window) bool { return w.rows[id] != nil })
}

// matches reports whether the filter shows a row.
func (m *Model) matches(id ID, known name) bool {
	if m.filter == "" {
		return true
	}
	text := id.Key + " " + known.name + " " + id.VM.String()
	return m.found(text) || m.found(modname.Readable(text))
}

// found reports whether a text matches the filter.
func (m *Model) found(text string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(m.filter)) || m.pattern != nil && m.pattern.MatchString(text)
}

// comparer returns the order of rows by a column. The largest numbers and the first names come
// first, or last in reverse. Unknown values always come last.
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

// compareIDs is the order of otherwise equal rows.
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

// Trend returns the values of a row in the column of the trend for the last n windows. A value is
// NaN if it is unknown or there was no window. The column is the one by which the table is
// sorted, or [ByCPU] if that keeps no history.
func (t *Table) Trend(r *Row, n int) []float64 {
	return t.trend(n, func(c Column, w *window) Cells { return t.cellsIn(c, w, r.ID) })
}

// cellsIn returns the cells of a row in a window that a column needs.
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
