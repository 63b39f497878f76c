package dashboard

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/gdamore/tcell/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/explain/trace"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/files/recording"
	"github.com/beamscope/beamscope/internal/files/snapshot"
)

// explainedScope has an outcome that is explained, others that are not, and one over TCP.
const explainedScope = `
wrapper: {listen: '127.0.0.1:8080'}
outcomes:
  order: {span: order, dmax: 100ms, bins: 50, explain: true, triggers: {load: 100}}
  quick: {span: quick}
  request: {wrapper: request}
`

// slowWindow is the window of the explained system that the tests look at. The system has been
// slow for five windows then.
const slowWindow = 14

// explaining feeds windows of explained orders. In the last windows the orders wait for a queue,
// and a trigger fires.
func explaining(t *testing.T, h *harness) {
	t.Helper()
	c, err := config.Parse("scope.yaml", []byte(explainedScope))
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
	for n := range slowWindow + 1 {
		f, err := e.Step(explainedBatch(system, n))
		if err != nil {
			t.Fatal(err)
		}
		r.frames = append(r.frames, f.Clone())
	}
	h.feed(r)
}

// explainedBatch is a window of the explained system.
func explainedBatch(system *scope.System, n int) *outcome.Batch {
	vm := outcome.VM{PID: 1801, Node: "shop@host"}
	b := &outcome.Batch{Time: time.Date(2026, 11, 21, 12, 2, 57+n, 0, time.UTC)}
	b.Window = outcome.Window{From: int64(n) * 1e9, To: int64(n+1) * 1e9}
	orders, wait, whole := uint64(60), 1*time.Millisecond, 40*time.Millisecond
	if n > slowWindow-5 { // long enough to be shown
		orders, wait, whole = 160, 30*time.Millisecond, 40*time.Millisecond
	}
	if n == slowWindow {
		wait, whole = 77*time.Millisecond, 100*time.Millisecond
	}
	for _, p := range system.Outcomes {
		c := outcome.Counts{Outcome: p.Spec.Name, VM: vm, Bins: make([]uint64, p.Spec.Bins), Successes: orders}
		c.Bins[p.Spec.Bins-1] = orders
		b.Counts = append(b.Counts, c)
	}
	for id := range 3 {
		b.Instances = append(b.Instances, slowOrder(vm, b.Window.From, uint64(100*n+id), wait+time.Duration(id)*time.Millisecond, whole))
	}
	b.Instances[1].Status = outcome.Failure
	return b
}

// slowOrder returns an instance that waited in the mailbox of queue_2, which then asked a store.
func slowOrder(vm outcome.VM, start int64, id uint64, wait, whole time.Duration) outcome.Instance {
	const client, queue, store = 85, 123, 140
	const ms = int64(time.Millisecond)
	took := start + ms + int64(wait)
	end := start + int64(whole)
	link := trace.Link{From: client, To: queue, Sent: start + ms, Received: took, Mark: trace.Inferred}
	return outcome.Instance{Outcome: "order", VM: vm, ID: id, Start: start, End: end, Process: client, Trace: &trace.Trace{Spans: []trace.Span{
		{Parent: -1, Start: start, End: end, Process: client, Name: "shop:order/1"},
		{Parent: 0, Kind: trace.Running, Start: start, End: start + ms, Process: client, Name: "shop:order/1"},
		{Parent: 0, Kind: trace.Waiting, Start: start + ms, End: end, Process: queue, Name: "queue_2", Mark: trace.Inferred, Link: link},
		{Parent: 2, Kind: trace.Mailbox, Start: start + ms, End: took, Process: queue, Name: "queue_2", Behind: 812, Mark: trace.Inferred, Link: link},
		{Parent: 2, Kind: trace.GC, Start: took, End: took + 2*ms, Process: queue, Name: "queue_2", Mark: trace.Inferred},
		{Parent: 2, Kind: trace.Running, Start: took + 2*ms, End: end - ms, Process: store, Mark: trace.Inferred},
		{Parent: 2, Kind: trace.Unexplained, Start: end - ms, End: end, Process: queue, Name: "queue_2", Reason: "woken by a timer", Mark: trace.Inferred},
	}}}
}

// explanations shows the explained system in the overview.
func explanations(t *testing.T, width, height int, change ...func(*Options)) *harness {
	t.Helper()
	h := dark(t, "mm1k", slowWindow, 256, append(change, func(o *Options) { o.Overview = true })...)
	explaining(t, h)
	h.run(width, height)
	h.key(tcell.KeyHome)
	return h
}

const shifted = "since 12:03:07 UTC waiting in the mailbox of queue_2 (inferred) grew from 5 % to 78 %"

// The dashboard shows where the time of the selected outcome went, below the table. A firing shows
// it too.
func TestExplainedLine(t *testing.T) {
	h := explanations(t, 140, 40)
	h.shows("order: "+shifted, "i why", "▶ 12:03:07 load of order: "+shifted+"; 78 % of order #1001")
	h.keys(",,,,,")
	h.shows("order: 85 % of the time of 3 instances was running of <0.140.0>, inferred")
	h.key(tcell.KeyDown)
	h.hides("i why", "order: 85 %")
	h.key(tcell.KeyEnter)
	h.keys("1")
	h.hides("i why")
}

// A window without explained instances reports that, and the plot does not move.
func TestExplainedLineOfNothing(t *testing.T) {
	h := explanations(t, 120, 40)
	_, before := h.find("─ order ")
	f := h.d.live.Frame(slowWindow).Clone()
	f.Number, f.Fired = slowWindow+1, nil
	f.Outcomes[0].Instances, f.Outcomes[0].Explained = nil, nil
	if err := h.d.Framed(nil, f); err != nil {
		t.Fatal(err)
	}
	h.keys(".")
	h.shows("order: nothing to explain in this window", "i why")
	if _, after := h.find("─ order "); after != before {
		t.Errorf("the plot moved from line %d to %d", before, after)
	}
	h.keys("i")
	h.shows("#1401") // from the windows before
}

// The key lists the instances of the last windows, and shows where the time of each went.
func TestExplainedInstances(t *testing.T) {
	h := explanations(t, 120, 50)
	h.keys("i")
	h.shows("worst of order", "12:03:10.000     #1401 failure   100ms 78 % waiting in the mailbox of queue_2",
		"#1 failure  40.0ms", "#1400 success", "78 % of order #1401 was waiting in the mailbox of <0.123.0> (queue_2), behind 812 messages, inferred",
		"Enter where its time went")
	text := h.text()
	if at := strings.Index(text, "#1 failure"); at < strings.Index(text, "#1401 failure") || at > strings.Index(text, "#0 success") {
		t.Errorf("the worst are not first:\n%s", text)
	}
	h.key(tcell.KeyEnter)
	h.shows("order #1401: failure after 100ms, start 12:03:10.000, shop@host (pid 1801), <0.85.0> (shop:order/1)",
		"   ├─ ~ waiting in the mailbox of <0.123.0> (queue_2)", "the shares of its time",
		"78 %   78.0ms  was waiting in the mailbox of <0.123.0> (queue_2), behind 812 messages",
		"all that is explained in the window of 12:03:11", shifted, "usually, in 10 quiet windows before",
		"78 % █████████▍      5 % ▋             waiting in the mailbox of queue_2 (inferred)")
	h.key(tcell.KeyEscape)
	h.shows("worst of order")
	h.hides("the shares of its time")
	h.mouse("#1400 success", tview.MouseLeftDown, tview.MouseLeftClick, tview.MouseLeftDoubleClick)
	h.shows("order #1400: success after 100ms")
	h.key(tcell.KeyEscape, tcell.KeyEscape)
	h.hides("worst of order")
}

// A long explanation scrolls.
func TestExplainedScrolls(t *testing.T) {
	h := explanations(t, 60, 20)
	h.keys("i")
	h.key(tcell.KeyEnter)
	h.hides("~ waiting in the mailbox of <0.123.0> (queue_2)", "usually")
	h.key(tcell.KeyEnd)
	h.shows("1 % ▏")
	h.key(tcell.KeyHome)
	for range 40 {
		h.key(tcell.KeyRight)
	}
	h.shows("~ waiting in the mailbox of <0.1")
	h.mouseAt(30, 10, tview.MouseScrollDown, tview.MouseScrollDown)
	h.hides("order #1401: failure")
}

// If nothing can be listed, the dashboard explains why, and what to do.
func TestNothingExplained(t *testing.T) {
	h := explanations(t, 120, 40)
	h.key(tcell.KeyDown)
	h.keys("i")
	h.shows(`no instance of it is explained yet: turn "explain" on in the parameters (m)`)
	h.key(tcell.KeyDown)
	h.keys("i")
	h.shows("beamscope explains spans only, and ")
	h.keys("o")
	h.do(func() { h.d.grid.panels = nil })
	h.keys("i")
	h.shows("there is no outcome to explain")

	h = dark(t, "mm1k", slowWindow, 256, func(o *Options) { o.Overview = true })
	explaining(t, h)
	h.runOn(recorded{h.control}, 120, 40)
	h.key(tcell.KeyHome, tcell.KeyDown)
	h.keys("i")
	h.shows("it was recorded without explanations")

	// A recording explains what was explained when it was made, whatever the configuration requests
	// now.
	h = dark(t, "mm1k", slowWindow, 256, func(o *Options) { o.Overview = true })
	explaining(t, h)
	plan := h.d.live.System().Plan(0)
	at := slices.IndexFunc(plan.Specs, func(s outcome.Spec) bool { return s.Name == "quick" })
	plan.Specs[at].Explain = true
	if err := h.d.Configured(h.d.live.System(), plan); err != nil {
		t.Fatal(err)
	}
	h.runOn(recorded{h.control}, 120, 40)
	h.key(tcell.KeyHome, tcell.KeyDown)
	h.keys("i")
	h.shows("none of quick was explained in the last 60 windows")
	h.hides("without explanations")

	h = dark(t, "mm1k", 0, 256, func(o *Options) { o.Overview = true })
	h.run(120, 40)
	h.keys("i")
	h.shows("there is no outcome to explain")
}

// The parameters switch explanations on and off for outcomes that can be explained.
func TestExplainParameter(t *testing.T) {
	h := explanations(t, 120, 50)
	h.keys("m")
	h.shows("explain    ◂ on ▸")
	h.key(tcell.KeyEscape, tcell.KeyDown)
	h.keys("m")
	h.shows("explain    ◂ off ▸")
	h.choose(keyExplain)
	h.key(tcell.KeyRight)
	h.shows("! the VM pays for every switch, message", "edited: quick")
	h.keys("a")
	c := h.last(0)
	if got := c.Outcome("quick").Explain; got != config.On {
		t.Errorf("applied %v", got)
	}
	h.key(tcell.KeyLeft)
	h.keys("a")
	c = h.last(1)
	if got := c.Outcome("quick").Explain; got != config.Off {
		t.Errorf("applied %v", got)
	}
	h.key(tcell.KeyUp, tcell.KeyUp, tcell.KeyUp, tcell.KeyUp, tcell.KeyUp, tcell.KeyRight) // the outcome
	h.shows("◂ request ▸")
	h.hides("explain")
}

// The first explained outcome needs another collector. The dashboard describes what this
// interrupts before it applies the change, and only then.
func TestFirstExplainedOutcome(t *testing.T) {
	const cut = "! the first to be explained takes another"
	first := func(h *harness) {
		h.keys("m")
		h.choose(keyExplain)
		h.key(tcell.KeyRight)
		h.shows("! the VM pays for every switch, message")
	}
	h := start(t, "mm1k", 15, 120, 50, 256)
	first(h)
	h.shows(cut, "collector: what is open then is cut, of", "all outcomes: about 73 instances")
	h.do(func() {
		system := h.d.live.System()
		plan := system.Plan(0)
		plan.Specs[0].Explain = true
		_ = h.d.Configured(system, plan)
		_ = h.d.Configured(system, system.Plan(0)) // off again: the collector runs already
	})
	h.hides(cut)

	h = dark(t, "mm1k", 15, 256)
	h.feed(replay(t, "mm1k"))
	h.runOn(recorded{h.control}, 120, 50)
	first(h)
	h.hides(cut)
}

// flat returns the words of a screen in order, without borders and line breaks.
func flat(screen string) string {
	return strings.Join(strings.FieldsFunc(screen, func(r rune) bool { return unicode.IsSpace(r) || r == '║' }), " ")
}

// A firing first shows where the time went. Causes with the same explanation show it once.
func TestFiredExplanation(t *testing.T) {
	h := explanations(t, 80, 40)
	h.keys("t")
	h.do(func() {
		l := listingOf(h.d.open)
		l.table.Select(len(l.rows)-1, 0)
	})
	text := h.text()
	read := flat(text)
	first, then := strings.Index(read, shifted), strings.Index(read, "load of order of shop@host")
	if first < 0 || then < first {
		t.Errorf("the explanation is at %d, and the cause at %d:\n%s", first, then, text)
	}
	causes := []recording.Cause{{Trigger: "qta", Explanation: "because"}, {Trigger: "load", Explanation: "because"}, {Trigger: "loss"}}
	if lines := causeLines(h.d.theme, causes, 0); len(lines) != 4 || !strings.Contains(lines[0], "because") {
		t.Errorf("%q", lines)
	}
}

// snapshotOf stores the windows of the explained system in a snapshot, and returns its path.
func snapshotOf(t *testing.T, h *harness) string {
	t.Helper()
	system := h.d.live.System()
	paths := make(chan string, 1)
	k, err := snapshot.New(snapshot.Options{
		Dir: t.TempDir(), Before: snapshot.DefaultBefore, MaxFiles: 1, MaxBytes: 1 << 20,
		Written: func(path string, err error) {
			if err != nil {
				t.Error(err)
			}
			paths <- path
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	closing := sync.OnceFunc(k.Close)
	defer closing()
	config := &recording.Config{Files: []recording.File{{Name: "scope.yaml", Text: []byte(explainedScope)}}, Plan: system.Plan(0)}
	if err := k.Config(config); err != nil {
		t.Fatal(err)
	}
	for n := range slowWindow + 1 {
		if err := k.Batch(explainedBatch(system, n)); err != nil {
			t.Fatal(err)
		}
	}
	f := h.d.live.Frame(slowWindow - 4)
	x := f.Fired[0]
	if err := k.Fire(&recording.Cause{Time: f.Window.To, Number: f.Number, Trigger: x.Trigger, Setting: x.Setting, Outcome: x.Outcome, VM: x.VM, Text: x.Cause, Explanation: x.Explanation}, ""); err != nil {
		t.Fatal(err)
	}
	closing()
	return <-paths
}

// A snapshot first shows where the time went. Its windows and instances have the same
// explanations as in the live view.
func TestSnapshotExplanation(t *testing.T) {
	h := explanations(t, 80, 50)
	path := snapshotOf(t, h)
	h.do(func() { h.d.openSnapshot(path) })
	h.idle()
	h.keys("t")
	text := h.text()
	read := flat(text)
	first, then := strings.Index(read, shifted), strings.Index(read, "▶ load of order of shop@host")
	if first < 0 || then < first {
		t.Errorf("the explanation is at %d, and the cause at %d:\n%s", first, then, text)
	}
	for n := range uint64(slowWindow + 1) {
		live, kept := h.d.live.Frame(n), h.d.scene.Frame(n)
		for i := range live.Outcomes {
			if diff := cmp.Diff(live.Outcomes[i].Explained, kept.Outcomes[i].Explained); diff != "" {
				t.Errorf("window %d: %s", n, diff)
			}
		}
		if diff := cmp.Diff(live.Fired, kept.Fired); diff != "" {
			t.Errorf("window %d: %s", n, diff)
		}
	}
	h.mouse("failure      100ms", tview.MouseLeftDown, tview.MouseLeftClick)
	h.shows("78 % of order #1401 was waiting in the mailbox")
	h.key(tcell.KeyEnter)
	h.shows("order #1401: failure after 100ms", "the shares of its time")
	h.key(tcell.KeyEscape)
	h.keys("i")
	h.shows("worst of order", "#1402 success")
}

// The list is limited to one VM if the row is.
func TestExplainedVMs(t *testing.T) {
	h := dark(t, "mm1k", slowWindow, 256, func(o *Options) { o.Overview = true })
	explaining(t, h)
	f := h.d.live.Frame(slowWindow).Clone()
	f.Number, f.Fired = slowWindow+1, nil
	for _, p := range f.Outcomes {
		p.VM = outcome.VM{PID: 1802}
		p.Counts.VM = p.VM
		for i := range p.Instances {
			p.Instances[i].VM, p.Instances[i].ID = p.VM, 9000+uint64(i)
		}
		f.Outcomes = append(f.Outcomes, p)
	}
	if err := h.d.Framed(nil, f); err != nil {
		t.Fatal(err)
	}
	h.run(140, 50)
	h.keys(".")
	h.key(tcell.KeyHome)
	for range len(f.Outcomes) {
		h.key(tcell.KeyDown)
		var key outcomeKey
		h.do(func() { key, _ = h.d.overview.selected() })
		if key.name == "order" && key.vm.PID == 1802 {
			break
		}
	}
	h.keys("i")
	h.shows("#9001")
	h.hides("#1402", "of VM")

	// A list of all VMs names the VM of each instance.
	h.key(tcell.KeyEscape)
	h.do(func() { h.d.listExplained("order", h.d.explainedInstances("order", outcome.VM{})) })
	h.shows("of VM", "#9000 failure   100ms pid 1802", "#1401 failure   100ms shop@host (pid 1801) 78 % waiting in the mailbox of queue_2")
}

// The bar of a share has a resolution of an eighth of a column.
func TestBar(t *testing.T) {
	for share, want := range map[float64]string{-1: "", -0.01: "", 0: "", 0.001: "", 0.01: "▏", 0.5: "██████", 0.9999: "████████████", 1: "████████████", 1.1: "████████████"} {
		if got := bar(share); got != fmt.Sprintf("%-12s", want) {
			t.Errorf("%v is %q, want %q", share, got, want)
		}
	}
}
