package dashboard

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/export"
	"github.com/beamscope/beamscope/internal/files/recording"
	"github.com/beamscope/beamscope/internal/files/snapshot"
	"github.com/beamscope/beamscope/internal/ui/tui"
)

// A shelf is the list of snapshots in a folder. It reads them in the background whenever the
// folder has changed.
type shelf struct {
	d       *Dashboard
	infos   []snapshot.Info // the newest first
	err     error           // of reading the snapshots
	seen    string          // names and sizes of the files that were read
	looking bool
	looked  time.Time
}

// lookPause is the least time between two looks at the folder.
const lookPause = time.Second

// look checks whether the folder has changed, and lists its snapshots if it has.
func (s *shelf) look() {
	dir := s.d.opts.Snapshots
	if dir == "" || s.looking || time.Since(s.looked) < lookPause {
		return
	}
	s.looking = true
	seen := s.seen
	go func() {
		defer tui.Restore(s.d.app.Screen)
		now := filesIn(dir)
		if now == seen {
			s.d.update(func() { s.looking, s.looked = false, time.Now() })
			return
		}
		infos, err := snapshot.List(dir)
		s.d.update(func() {
			s.looking, s.looked = false, time.Now()
			s.seen, s.infos, s.err = now, infos, err
			s.d.refresh()
		})
	}()
}

// filesIn returns the names and sizes of the files in a folder, which identify its contents.
func filesIn(dir string) string {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, file := range files {
		if info, err := file.Info(); err == nil {
			fmt.Fprintf(&b, "%s %d\n", file.Name(), info.Size())
		}
	}
	return b.String()
}

// A firing is something that fired: the causes of a snapshot, or a single cause without a
// snapshot.
type firing struct {
	time   time.Time
	causes []recording.Cause
	more   uint64         // number of further causes
	info   *snapshot.Info // nil if there is no snapshot
	frame  uint64         // number of the window
	seen   bool           // it fired in this session
	lasts  bool           // it is still going on
}

// fired returns all firings, the newest first.
func (s *shelf) fired() []firing {
	var all []firing
	for i := range s.infos {
		info := &s.infos[i]
		all = append(all, firing{time: info.Time, causes: info.Causes, more: info.Omitted, info: info})
	}
	kept := len(all)
	for _, e := range s.d.live.Events() {
		if e.notice.Text != "" {
			continue
		}
		if f := keptIn(all[:kept], e); f != nil {
			f.seen, f.frame = true, e.frame
			continue
		}
		all = append(all, firing{
			time: time.Unix(0, e.clock), frame: e.frame, seen: true,
			causes: []recording.Cause{{Number: e.frame, Trigger: e.fired.Trigger, Setting: e.fired.Setting, Outcome: e.fired.Outcome, VM: e.fired.VM, Text: e.fired.Cause, Explanation: e.fired.Explanation}},
		})
	}
	slices.SortStableFunc(all, func(a, b firing) int { return b.time.Compare(a.time) })
	s.mark(all)
	return all
}

// keptIn returns the snapshot that has an event among its causes, or nil.
func keptIn(snapshots []firing, e event) *firing {
	for i := range snapshots {
		f := &snapshots[i]
		for _, c := range f.causes {
			// Each session numbers its windows from the start, so the time must match too.
			at := f.time.Add(time.Duration(c.Time - f.causes[0].Time))
			apart := time.Unix(0, e.clock).Sub(at).Abs()
			if c.Number == e.frame && c.Trigger == e.fired.Trigger && c.Outcome == e.fired.Outcome && c.VM == e.fired.VM && apart < 50*time.Millisecond {
				return f
			}
		}
	}
	return nil
}

// mark marks firings that still go on in the last window: the last one of each trigger, outcome and
// VM.
func (s *shelf) mark(all []firing) {
	last := s.d.live.Last()
	if last == nil {
		return
	}
	marked := make(map[string]bool)
	for i := range all {
		for _, c := range all[i].causes {
			key := fmt.Sprint(c.Outcome, c.VM, c.Trigger)
			p := outcomeOf(last, outcomeKey{c.Outcome, c.VM})
			if all[i].seen && p != nil && slices.Contains(p.Active, c.Trigger) && !marked[key] {
				marked[key], all[i].lasts = true, true
			}
		}
	}
}

// rows lists the firings.
func (s *shelf) rows(width int) []row {
	all := s.fired()
	rows := []row{heading("fired")}
	if s.err != nil {
		rows = append(rows, paragraph(alert, s.err.Error(), width)...)
	}
	if len(all) == 0 {
		text := "Nothing has fired."
		if s.d.opts.Snapshots != "" {
			text += " Snapshots are kept in " + s.d.opts.Snapshots + "."
		}
		return append(rows, paragraph(dim, text, width)...)
	}
	layout, clock := "15:04:05", 8
	for _, f := range all {
		if f.time.Local().YearDay() != all[0].time.Local().YearDay() {
			layout, clock = "01-02 15:04", 11
		}
	}
	for i := range all {
		rows = append(rows, s.row(&all[i], all[i].time.Local().Format(layout), clock, width))
	}
	return rows
}

// row shows a firing in one line.
func (s *shelf) row(f *firing, at string, clock, width int) row {
	state, n := s.state(f)
	outcome, trigger, cause := "?", "?", ""
	if len(f.causes) > 0 {
		outcome, trigger, cause = cmp.Or(f.causes[0].Outcome, "-"), f.causes[0].Trigger, export.Why(f.causes[0].Explanation, f.causes[0].Text)
	}
	if more := len(f.causes) - 1 + int(f.more); more > 0 {
		trigger += fmt.Sprintf(" +%d", more)
	}
	r := row{key: s.key(f), detail: s.detail(f), open: func() { s.open(f) }}
	r.cells = []cell{{text: at, width: clock}, {text: outcome, tone: strong}, {text: trigger, width: 13}, {text: state, width: 10, tone: n}}
	if width > 60 {
		r.cells[1].width = 14
		r.cells = append(r.cells, cell{text: cause, tone: dim})
	}
	return r
}

func (s *shelf) key(f *firing) string {
	if f.info != nil {
		return f.info.Path
	}
	return fmt.Sprintf("fired %d %s %s %v", f.frame, f.causes[0].Trigger, f.causes[0].Outcome, f.causes[0].VM)
}

// state returns the state of a firing in a word.
func (s *shelf) state(f *firing) (string, tone) {
	switch {
	case f.info != nil && f.info.Err != nil:
		return "damaged", alert
	case f.lasts:
		return "▶ going on", bad
	case f.info != nil:
		return export.Windows(*f.info), dim
	case s.inTheMaking(f):
		return "being made", doubtful
	}
	return "no file", dim
}

// inTheMaking reports whether the snapshot of a firing may still be completed.
func (s *shelf) inTheMaking(f *firing) bool {
	last := s.d.live.Last()
	if last == nil || s.d.ended || s.d.attached() == nil || s.d.opts.Snapshots == "" {
		return false
	}
	c := s.d.control.Config()
	return last.Time.Sub(f.time) <= c.Snapshots.After+2*c.Window
}

// detail returns all that is known about a firing.
func (s *shelf) detail(f *firing) string {
	t := s.d.theme
	lines := causeLines(t, f.causes, f.more)
	switch {
	case f.info == nil && s.inTheMaking(f):
		lines = append(lines, "The snapshot is being made. Enter shows the window.")
	case f.info == nil:
		lines = append(lines, "No snapshot. Enter shows the window.")
	case f.info.Err != nil:
		lines = append(lines, t.Tag(alert)+tview.Escape(unreadable(f.info.Path, f.info.Err).Error())+"[-:-:-]")
	default:
		lines = append(lines, fmt.Sprintf("%d windows before, %d after. Enter opens the snapshot.", f.info.Before, f.info.After))
	}
	if f.lasts {
		lines = append(lines, t.Tag(bad)+"It is still going on.[-:-:-]")
	}
	return strings.Join(lines, "\n")
}

// shownCauses is the number of causes that are shown in full.
const shownCauses = 4

// causeLines describes the causes in tagged text. Each begins with where the time went, if that
// is known.
func causeLines(t *theme, causes []recording.Cause, more uint64) []string {
	var lines []string
	for i, c := range causes {
		if i == shownCauses {
			more += uint64(len(causes) - i)
			break
		}
		if text := export.Explanation(causes, i); text != "" {
			lines = append(lines, t.Tag(doubtful)+tview.Escape(text)+"[-:-:-]")
		}
		lines = append(lines, t.Tag(strong)+tview.Escape(c.Trigger+" of "+causeOf(c.Outcome, c.VM))+"[-:-:-]: "+tview.Escape(c.Text))
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return lines
}

// causeOf returns the name of an outcome and its VM.
func causeOf(name string, vm outcome.VM) string {
	if vm == (outcome.VM{}) {
		return cmp.Or(name, "everything")
	}
	return name + " of " + vm.String()
}

// errGone means that a window is no longer kept.
var errGone = errors.New("that window is not kept any more")

// open shows the snapshot of a firing, or else its window.
func (s *shelf) open(f *firing) {
	if f.info != nil {
		s.d.openSnapshot(f.info.Path)
		return
	}
	if frame := s.d.live.Frame(f.frame); frame == nil || frame.Number != f.frame {
		s.d.fail(errGone)
		return
	}
	s.d.live.following, s.d.live.at = false, f.frame
	s.d.say(plain, "the window in which it fired: f goes on with the present")
}

// worstRows explains why the shown snapshot was made, and lists the worst instances of the shown
// window.
func (d *Dashboard) worstRows(width int) []row {
	f := d.frame()
	shot := d.scene.shot
	rows := []row{heading(d.scene.title)}
	for i, c := range shot.causes {
		if text := export.Explanation(shot.causes, i); text != "" {
			rows = append(rows, paragraph(doubtful, text, width)...)
		}
		rows = append(rows, paragraph(plain, "▶ "+c.Trigger+" of "+causeOf(c.Outcome, c.VM)+": "+c.Text, width)...)
	}
	if shot.Omitted > 0 {
		rows = append(rows, paragraph(plain, fmt.Sprintf("and %d more", shot.Omitted), width)...)
	}
	if !shot.Complete {
		rows = append(rows, paragraph(doubtful, "The observation ended before the snapshot was complete.", width)...)
	}
	rows = append(rows, blank(), row{cells: []cell{
		{text: "worst instances, " + shot.position(f.Number), tone: strong},
		{text: ", . step", width: 8, tone: dim, right: true},
	}})
	some := false
	for i := range f.Outcomes {
		lines := export.Worst(f, &f.Outcomes[i])
		if len(lines) == 0 {
			continue
		}
		some = true
		rows = append(rows, d.instances(f, &f.Outcomes[i], lines, width)...)
	}
	if !some {
		rows = append(rows, paragraph(dim, "None is known of this window.", width)...)
	}
	return rows
}

// instances lists the worst instances of an outcome. It shows as many columns as fit, and below the
// list all columns of the selected one.
func (d *Dashboard) instances(f *scope.Frame, p *scope.Outcome, lines [][]string, width int) []row {
	outcome, vm := p.Name, p.VM
	head := export.WorstHead()
	widths := make([]int, len(head))
	for _, line := range append(lines, head) {
		for i, text := range line {
			widths[i] = max(widths[i], tui.Columns(text))
		}
	}
	shown, used := 0, 2
	for shown < len(widths) && used+widths[shown]+1 <= width {
		used += widths[shown] + 1
		shown++
	}
	cellsOf := func(line []string, n tone) []cell {
		cells := []cell{{width: 1}}
		for i, text := range line[:shown] {
			cells = append(cells, cell{text: text, width: widths[i], tone: n, right: i > 0 && i < 5})
		}
		return cells
	}
	rows := []row{{cells: []cell{{text: causeOf(outcome, vm), tone: strong}}}, {cells: cellsOf(head, dim)}}
	for i, line := range lines {
		r := row{key: fmt.Sprintf("instance %d of %s", i, causeOf(outcome, vm)), cells: cellsOf(line, plain)}
		r.detail = fmt.Sprintf("%s: %s after %s\nstarted %s", tview.Escape(outcome), tview.Escape(line[0]), line[1], line[2])
		if p.Instances[i].Process != 0 {
			r.detail += " by " + tview.Escape(line[5])
		}
		if r.detail += "\nspan " + line[3]; line[4] != "0" {
			r.detail += " in span " + line[4]
		}
		if x := p.Instances[i]; x.Trace != nil {
			r.open = func() { d.showExplained(&explainedInstance{x, f, p}) }
			r.detail = tview.Escape(x.Trace.Sentence(x.Name())) + ": Enter shows when.\n" + r.detail
		}
		rows = append(rows, r)
	}
	return rows
}
