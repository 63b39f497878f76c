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

	"github.com/beamscope/beamscope/internal/export"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/recording"
	"github.com/beamscope/beamscope/internal/scope"
	"github.com/beamscope/beamscope/internal/snapshot"
	"github.com/beamscope/beamscope/internal/tui"
)

// A shelf is where the snapshots are. They are read in the background, when there are
// others than before.
type shelf struct {
	d       *Dashboard
	infos   []snapshot.Info // the newest first
	err     error           // of reading them
	seen    string          // names and sizes of what was read
	looking bool
	looked  time.Time
}

// lookPause is the least time between two looks at the folder.
const lookPause = time.Second

// look looks whether there are other snapshots, and lists them.
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

// filesIn tells one content of a folder from another.
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

// A firing is something that fired: the causes of a snapshot, or one of which there is
// none.
type firing struct {
	time   time.Time
	causes []recording.Cause
	more   uint64         // causes besides
	info   *snapshot.Info // nil where there is no snapshot
	frame  uint64         // number of the window
	seen   bool           // it fired here and now, not at some other time
	lasts  bool           // it is still going on
}

// fired returns what has fired, the newest first.
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
			causes: []recording.Cause{{Number: e.frame, Trigger: e.fired.Trigger, Setting: e.fired.Setting, Probe: e.fired.Probe, VM: e.fired.VM, Text: e.fired.Cause, Explanation: e.fired.Explanation}},
		})
	}
	slices.SortStableFunc(all, func(a, b firing) int { return b.time.Compare(a.time) })
	s.mark(all)
	return all
}

// keptIn returns the snapshot that has an event among its causes, nil where there is
// none.
func keptIn(snapshots []firing, e event) *firing {
	for i := range snapshots {
		f := &snapshots[i]
		for _, c := range f.causes {
			// Numbers of windows begin anew with each session, so that the time counts too.
			at := f.time.Add(time.Duration(c.Time - f.causes[0].Time))
			apart := time.Unix(0, e.clock).Sub(at).Abs()
			if c.Number == e.frame && c.Trigger == e.fired.Trigger && c.Probe == e.fired.Probe && c.VM == e.fired.VM && apart < 50*time.Millisecond {
				return f
			}
		}
	}
	return nil
}

// mark marks what is still going on in the last window: of each trigger, what fired
// last.
func (s *shelf) mark(all []firing) {
	last := s.d.live.Last()
	if last == nil {
		return
	}
	marked := make(map[string]bool)
	for i := range all {
		for _, c := range all[i].causes {
			key := fmt.Sprint(c.Probe, c.VM, c.Trigger)
			p := probeOf(last, probeKey{c.Probe, c.VM})
			if all[i].seen && p != nil && slices.Contains(p.Active, c.Trigger) && !marked[key] {
				marked[key], all[i].lasts = true, true
			}
		}
	}
}

// rows lists what has fired.
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

// row shows what has fired in a line.
func (s *shelf) row(f *firing, at string, clock, width int) row {
	state, n := s.state(f)
	probe, trigger, cause := "?", "?", ""
	if len(f.causes) > 0 {
		probe, trigger, cause = cmp.Or(f.causes[0].Probe, "-"), f.causes[0].Trigger, export.Why(f.causes[0].Explanation, f.causes[0].Text)
	}
	if more := len(f.causes) - 1 + int(f.more); more > 0 {
		trigger += fmt.Sprintf(" +%d", more)
	}
	r := row{key: s.key(f), detail: s.detail(f), open: func() { s.open(f) }}
	r.cells = []cell{{text: at, width: clock}, {text: probe, tone: strong}, {text: trigger, width: 13}, {text: state, width: 10, tone: n}}
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
	return fmt.Sprintf("fired %d %s %s %v", f.frame, f.causes[0].Trigger, f.causes[0].Probe, f.causes[0].VM)
}

// state says in a word how it stands with what has fired.
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

// inTheMaking reports whether a snapshot may still come: until so long after it fired.
func (s *shelf) inTheMaking(f *firing) bool {
	last := s.d.live.Last()
	if last == nil || s.d.ended || s.d.attached() == nil || s.d.opts.Snapshots == "" {
		return false
	}
	c := s.d.control.Config()
	return last.Time.Sub(f.time) <= c.Snapshots.After+2*c.Window
}

// detail says all that is known of what has fired.
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

// shownCauses is how many causes are shown in full.
const shownCauses = 4

// causeLines says what fired, in tags: first where the time went.
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
		lines = append(lines, t.Tag(strong)+tview.Escape(c.Trigger+" of "+causeOf(c.Probe, c.VM))+"[-:-:-]: "+tview.Escape(c.Text))
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return lines
}

// causeOf names a probe of a VM.
func causeOf(probe string, vm outcome.VM) string {
	if vm == (outcome.VM{}) {
		return cmp.Or(probe, "everything")
	}
	return probe + " of " + vm.String()
}

// errGone says that a window cannot be looked at again.
var errGone = errors.New("that window is not kept any more")

// open shows the snapshot of what has fired, or the window in which it did.
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

// worstRows says why the snapshot that is shown was made, and lists the worst instances
// of its window that is shown.
func (d *Dashboard) worstRows(width int) []row {
	f := d.frame()
	shot := d.scene.shot
	rows := []row{heading(d.scene.title)}
	for i, c := range shot.causes {
		if text := export.Explanation(shot.causes, i); text != "" {
			rows = append(rows, paragraph(doubtful, text, width)...)
		}
		rows = append(rows, paragraph(plain, "▶ "+c.Trigger+" of "+causeOf(c.Probe, c.VM)+": "+c.Text, width)...)
	}
	if shot.Omitted > 0 {
		rows = append(rows, paragraph(plain, fmt.Sprintf("and %d more", shot.Omitted), width)...)
	}
	if !shot.Complete {
		rows = append(rows, paragraph(doubtful, "The observation ended before the snapshot did.", width)...)
	}
	rows = append(rows, blank(), row{cells: []cell{
		{text: "worst instances, " + shot.position(f.Number), tone: strong},
		{text: ", . step", width: 8, tone: dim, right: true},
	}})
	some := false
	for i := range f.Probes {
		lines := export.Worst(f, &f.Probes[i])
		if len(lines) == 0 {
			continue
		}
		some = true
		rows = append(rows, d.instances(f, &f.Probes[i], lines, width)...)
	}
	if !some {
		rows = append(rows, paragraph(dim, "None is known of this window.", width)...)
	}
	return rows
}

// instances lists the worst instances of a probe: as many columns as there is room for,
// and all of the one that is selected below.
func (d *Dashboard) instances(f *scope.Frame, p *scope.Probe, lines [][]string, width int) []row {
	probe, vm := p.Name, p.VM
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
	rows := []row{{cells: []cell{{text: causeOf(probe, vm), tone: strong}}}, {cells: cellsOf(head, dim)}}
	for i, line := range lines {
		r := row{key: fmt.Sprintf("instance %d of %s", i, causeOf(probe, vm)), cells: cellsOf(line, plain)}
		r.detail = fmt.Sprintf("%s: %s after %s\nstarted %s by %s\nspan %s", tview.Escape(probe), tview.Escape(line[0]), line[1], line[2], tview.Escape(line[5]), line[3])
		if line[4] != "0" {
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
