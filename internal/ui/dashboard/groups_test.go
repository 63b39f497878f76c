package dashboard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/config"
)

// ofVMScope has an outcome that arrives over TCP and some outcomes of the VM.
const ofVMScope = `
wrapper: {listen: '127.0.0.1:8080'}
outcomes:
  request: {wrapper: request}
  pause: {vm: gc, group: pid}
  hop: {vm: hop}
  served:
    start: 'message-receive[receiver="<0.123.0>"]'
    end: 'message-send[sender="<0.123.0>"]'
    key: sender
    pair: fifo
  os: {vm: os-wait}
`

// ofVM feeds windows of outcomes of the VM: pauses in groups, and hops that were paired by order.
func ofVM(t *testing.T, h *harness) {
	t.Helper()
	c, err := config.Parse("scope.yaml", []byte(ofVMScope))
	if err != nil {
		t.Fatal(err)
	}
	h.control.config = c
	system, err := c.System()
	if err != nil {
		t.Fatal(err)
	}
	e, err := scope.NewEngine(system)
	if err != nil {
		t.Fatal(err)
	}
	r := &replayed{system: system}
	for n := range 3 {
		b := outcome.Batch{Time: time.Date(2026, 11, 21, 6, 4, 50+n, 0, time.UTC)}
		b.Window = outcome.Window{From: int64(n) * 1e9, To: int64(n+1) * 1e9}
		for _, p := range system.Outcomes {
			b.Counts = append(b.Counts, countsOfVM(p.Spec, n))
		}
		f, err := e.Step(&b)
		if err != nil {
			t.Fatal(err)
		}
		r.frames = append(r.frames, f.Clone())
	}
	h.feed(r)
}

// countsOfVM returns the counts of one outcome in a window.
func countsOfVM(s outcome.Spec, n int) outcome.Counts {
	c := outcome.Counts{Outcome: s.Name, VM: outcome.VM{PID: 1801, Node: "shop@host"}, Bins: make([]uint64, s.Bins)}
	c.Successes = uint64(100 + n)
	c.Bins[20] = c.Successes
	switch s.Name {
	case "hop":
		c.Inferred = 90
	case "pause":
		c.Timeouts, c.Amount = 1, 1_234_567
		c.Groups = groupsOfVM(n)
	}
	return c
}

func groupsOfVM(n int) []outcome.Group {
	group := func(key, name string, n uint64, each time.Duration) outcome.Group {
		g := outcome.Group{Key: key, Name: name, Successes: n, Total: time.Duration(n) * each, Amount: n * 1000, Delays: make(outcome.Delays, outcome.DelayBuckets)}
		g.Delays[outcome.Bucket(each)] = uint32(n)
		return g
	}
	groups := []outcome.Group{group("<0.9.0>", "code_server:init/1", uint64(10+n), 9*time.Millisecond)}
	groups[0].Timeouts = 1
	for i := range 60 {
		groups = append(groups, group(fmt.Sprintf("<0.%d.0>", 100+i), "", uint64(60-i), 20*time.Microsecond))
	}
	groups[2].Name = "a_module_with_a_long_name:and_a_function_with_one_too/12"
	groups[3].Name = "'Elixir.MyApp.Worker':init/1"
	return append(groups, group("", "", 7, time.Microsecond))
}

// grouping shows outcomes of the VM in the overview and selects the grouped one.
func grouping(t *testing.T, width, height int, change ...func(*Options)) *harness {
	t.Helper()
	h := dark(t, "mm1k", 2, 256, append(change, func(o *Options) { o.Overview = true })...)
	ofVM(t, h)
	h.run(width, height)
	h.key(tcell.KeyDown)
	return h
}

// One key switches between the groupings and the plot: first the current grouping, then the other
// ones, then the plot.
func TestGroupKey(t *testing.T) {
	h := grouping(t, 120, 50)
	h.shows("pause «gc»", "g group", "─ pause «gc» · n=103 · log ─")
	h.hides("by process")
	h.keys("g")
	h.shows("by process", "<0.9.0> code_server:init/1", "others", "amount")
	if n := len(h.control.applied); n != 0 {
		t.Errorf("%d configurations were applied to show the present groups", n)
	}
	for _, want := range []struct{ group, said string }{
		{"mfa", "pause is grouped by function from the next window on"},
		{"", "pause is not grouped any more"},
		{"pid", "pause is grouped by process from the next window on"},
	} {
		h.keys("g")
		h.shows(want.said)
		if got := h.control.config.Outcome("pause").Group; got != want.group {
			t.Errorf("grouped by %q, want %q", got, want.group)
		}
	}
	h.do(func() {
		if what := h.d.loses(); what != "" {
			t.Errorf("after looking at groups, the message is %q", what)
		}
	})
	h.key(tcell.KeyEnter)
	h.shows("pause «gc» · n=103", "by process", "<0.9.0> code_server:init/1") // the plots show groups too
	h.keys("g")
	h.shows("by process", "pause is grouped by function from the next window on")
}

// The key explains why an outcome cannot be grouped.
func TestGroupKeyRefuses(t *testing.T) {
	h := grouping(t, 120, 50)
	h.key(tcell.KeyHome)
	h.keys("g")
	h.shows("its events do not name a process")
	h.hides("g group")
	h.key(tcell.KeyEnd)
	h.keys("g")
	h.shows("its instances are of threads")
	h.key(tcell.KeyUp, tcell.KeyUp)
	h.control.refuse = errFull
	h.keys("g")
	h.shows("hop", errFull.Error())
	h.hides("by process")
	h.key(tcell.KeyUp, tcell.KeyEnter)
	h.do(func() { h.d.grid.panels[0].outcomes = append(h.d.grid.panels[0].outcomes, "hop") })
	h.keys("g")
	h.shows("there are several outcomes in this plot")
}

// recorded is a control that plays a recording.
type recorded struct{ *control }

func (recorded) Pause(bool)       {}
func (recorded) Speed() float64   { return 1 }
func (recorded) SetSpeed(float64) {}

func TestGroupsOfRecording(t *testing.T) {
	h := dark(t, "mm1k", 2, 256, func(o *Options) { o.Overview = true })
	ofVM(t, h)
	h.runOn(recorded{h.control}, 120, 50)
	h.key(tcell.KeyDown)
	h.keys("g")
	h.shows("by process", "<0.9.0> code_server:init/1")
	h.keys("g")
	h.hides("by process")
	h.key(tcell.KeyDown)
	h.keys("g")
	h.shows("it was recorded without groups")
	if n := len(h.control.applied); n != 0 {
		t.Errorf("%d configurations were applied to a recording", n)
	}
}

// A window without groups shows the curve, with a note that there are no groups.
func TestWindowWithoutGroups(t *testing.T) {
	h := grouping(t, 120, 50)
	h.key(tcell.KeyDown)
	h.keys("g")
	h.shows("hop is grouped by process")
	h.key(tcell.KeyEnter)
	h.shows("hop · n=~102 · ~ paired by their order", "no groups in this window", "dMax")
}

// If a change is still in progress when the key is pressed again, the dashboard names the change
// and gives advice.
func TestGroupKeyTwice(t *testing.T) {
	h := grouping(t, 120, 50)
	h.key(tcell.KeyDown)
	h.do(func() {
		h.d.busy = "grouping hop"
		h.d.press(tcell.NewEventKey(tcell.KeyRune, 'g', tcell.ModNone))
		h.d.busy = ""
	})
	h.shows("grouping hop is not finished: press the key again in a moment")
}

// The key reports that outcomes of the VM have no explanations.
func TestExplainOutcomeOfVM(t *testing.T) {
	h := grouping(t, 80, 24)
	h.keys("i")
	h.shows("beamscope explains spans only, and pause is an outcome of the VM")
}

// Inferred figures have a mark, which the help explains.
func TestInferredMark(t *testing.T) {
	h := grouping(t, 120, 50)
	h.shows("~102")
	h.key(tcell.KeyDown)
	h.shows("hop · n=~102 · ~ paired by their order")
	h.keys("?")
	h.key(tcell.KeyEnd)
	h.shows("~ before a figure: starts and ends were paired by their order")
}

// The parameters show which events an outcome of the VM consists of, read only.
func TestEventsInParameters(t *testing.T) {
	h := grouping(t, 120, 50)
	h.keys("m")
	h.shows("vm gc", "group pid")
	h.keys("m")
	h.key(tcell.KeyDown, tcell.KeyDown)
	h.keys("m")
	h.shows("start", `message-receive[receiver="<0.123.0>"]`, `end message-send[sender="<0.123.0>"]`, "key sender", "pair fifo")
}

// The rows of groups fill the available lines, including the head and one row for all others.
func TestGroupRows(t *testing.T) {
	h := grouping(t, 120, 50)
	p := h.d.live.Frame(2).Outcomes[1]
	for _, tt := range []struct{ height, want int }{{3, 3}, {10, 10}, {62, 62}, {63, 63}, {64, 63}, {100, 63}} {
		if n := len(groupRows(&p, 100, tt.height)); n != tt.want {
			t.Errorf("%d lines with room for %d, want %d", n, tt.height, tt.want)
		}
	}
	narrow, wide := len(groupColumns(&p, 40)), len(groupColumns(&p, 120))
	if narrow != 2 || wide != 9 {
		t.Errorf("%d columns in a narrow place, and %d in a wide one", narrow, wide)
	}
}

// If beamscope chose dMax, longer instances count as slower than dMax, not as timeouts.
func TestGroupsSlowerThanFitted(t *testing.T) {
	for _, fitted := range []bool{true, false} {
		p := &scope.Outcome{Fitted: fitted, Spec: outcome.Spec{Group: "pid", BinWidth: 46 * time.Millisecond, Bins: 2}, Window: outcome.Window{To: 1e9}}
		p.Counts.Groups = []outcome.Group{{Key: "a", Successes: 7, Timeouts: 48}}
		var text strings.Builder
		for _, r := range groupRows(p, 120, 5) {
			for _, c := range r.cells {
				text.WriteString(c.text + " ")
			}
		}
		want := map[bool][]string{true: {" slower ", " >92ms >92ms ≥0 48 "}, false: {" timeout ", " ∞ ∞ 0 48 "}}
		for _, w := range want[fitted] {
			if !strings.Contains(text.String(), w) {
				t.Errorf("fitted %v: no %q in %q", fitted, w, text.String())
			}
		}
	}
}
