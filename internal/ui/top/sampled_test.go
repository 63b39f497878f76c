package top

import (
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/sources/sampled"
	"github.com/beamscope/beamscope/internal/ui/tui"
	"github.com/beamscope/beamscope/internal/ui/tui/tuitest"
)

// A script is a source of prepared windows of samples.
type script struct{ windows []*sampled.Window }

func (s *script) Next(ctx context.Context) (*sampled.Window, error) {
	if len(s.windows) == 0 {
		return nil, sampled.ErrEnded
	}
	w := s.windows[0]
	s.windows = s.windows[1:]
	return w, nil
}

func (*script) Close() error { return nil }

// sampledWindows returns windows of one second with samples of two VMs.
func sampledWindows(n int) []*sampled.Window {
	process := func(number uint32) sampled.Who { return sampled.Who{Number: number} }
	var all []*sampled.Window
	for i := range n {
		from := int64(i) * 1e9
		all = append(all, &sampled.Window{
			Window: outcome.Window{From: from, To: from + 1e9}, Time: time.Unix(1795000000+int64(i), 0).UTC(),
			VMs: []outcome.VM{shop, store}, Taken: 196, Missing: 2, Processors: 2,
			Cells: []sampled.Cell{
				{VM: shop, Who: process(83), Name: "worker_1", Function: "lists:seq/2", N: 40},
				{VM: shop, Who: process(83), Name: "worker_1", Function: "'Elixir.MyApp.Worker':handle_call/3", N: 21},
				{VM: shop, Who: process(84), Function: sampled.InC, N: 9},
				{VM: shop, Who: sampled.Who{Kind: sampled.Nobody}, Function: sampled.InC, N: 4},
				{VM: store, Who: sampled.Who{Kind: sampled.Term, Term: 0x2993}, Function: "lists:seq/2", N: uint64(3 + i)},
				{VM: store, Who: sampled.Who{Kind: sampled.Unknown}, Function: sampled.InC, N: 2},
				{VM: store, Who: sampled.Who{Kind: sampled.NoRoom}, Function: sampled.NoCode, N: 1},
			},
			Cost: outcome.Cost{Events: uint64(80 + i), PerEvent: 14 * time.Microsecond, Collector: 3 * time.Millisecond},
		})
	}
	return all
}

// tableOf returns the table of some windows.
func tableOf(by, filter string, average int, windows []*sampled.Window) *SampledTable {
	m := SampledModel{by: by, filter: filter, rate: 99, average: average}
	for _, w := range windows {
		m.add(w, Used{})
	}
	return m.Table()
}

// Each sample is in one row, whatever the rows are, and the other figures add up too.
func TestSampledAddsUp(t *testing.T) {
	for _, by := range []string{outcome.GroupPID, outcome.GroupMFA} {
		for _, average := range []int{1, 3, 30} {
			table := tableOf(by, "", average, sampledWindows(3))
			var rows, parts uint64
			for _, r := range table.Rows {
				rows += r.N
				for _, p := range r.Parts {
					parts += p.N
				}
				if want := 2 * float64(r.N) / float64(table.Taken+table.Missing); r.Share != want || r.AtLeast > r.Share || r.AtMost < r.Share || r.AtLeast < 0 || r.AtMost > 2 {
					t.Errorf("%+v", r)
				}
			}
			windows := min(average, 3)
			want := uint64([]int{0, 82, 0, 243}[windows])
			if rows != want || parts != want || table.Total.N != want || table.Taken != uint64(196*windows) || table.Missing != uint64(2*windows) {
				t.Errorf("%s of %d windows: %d in rows, %d in parts, %d in all, want %d", by, average, rows, parts, table.Total.N, want)
			}
		}
	}
}

// Rows that do not match the filter are left out. The total includes them.
func TestSampledFilter(t *testing.T) {
	for filter, want := range map[string]int{"worker": 1, "WORKER_1": 1, "<0.8[34]": 2, "store": 0, "pid 1802": 3, "": 6, "(": 0} {
		if table := tableOf(outcome.GroupPID, filter, 1, sampledWindows(1)); len(table.Rows) != want && filter != "(" || table.All != 6 || table.Total.N != 80 {
			t.Errorf("%q: %d rows", filter, len(table.Rows))
		}
	}
	if table := tableOf(outcome.GroupMFA, "MyApp.Worker.handle", 1, sampledWindows(1)); len(table.Rows) != 1 {
		t.Errorf("%d rows of a function of Elixir", len(table.Rows))
	}
}

// Without a window or without samples there are no figures.
func TestSampledNothing(t *testing.T) {
	if table := tableOf(outcome.GroupPID, "", 5, nil); table.Windows != 0 {
		t.Errorf("%+v", table)
	}
	table := tableOf(outcome.GroupPID, "", 5, []*sampled.Window{{Stale: true, Window: outcome.Window{To: 1e9}}})
	var text strings.Builder
	if err := NewJSON(&text, 0).SampledTable(table); err != nil {
		t.Error(err)
	}
	if err := NewSampledText(&text, 10).Table(table); err != nil || !strings.Contains(text.String(), "read too late") {
		t.Errorf("%v %s", err, text.String())
	}
}

// The bounds contain the real share in at least 95 of 100 cases, as far as 4000 cases each can
// show.
func TestSampledBoundsCover(t *testing.T) {
	const cases = 4000
	random := rand.New(rand.NewPCG(1, 2))
	for _, p := range []float64{0.005, 0.03, 0.2, 0.5, 0.97} {
		for _, of := range []uint64{99, 990} {
			missed := 0
			for range cases {
				var n uint64
				for range of {
					if random.Float64() < p {
						n++
					}
				}
				if lo, hi := binomialBounds(n, of); p < lo || p > hi {
					missed++
				}
			}
			if most := cases*0.05 + 4*math.Sqrt(cases*0.05*0.95); float64(missed) > most {
				t.Errorf("of %d samples at %v, %d of %d bounds do not contain it", of, p, missed, cases)
			}
		}
	}
}

func TestSampledBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		of := rapid.Uint64Range(1, 1<<40).Draw(t, "of")
		n := rapid.Uint64Range(0, of).Draw(t, "n")
		lo, hi := binomialBounds(n, of)
		if p := float64(n) / float64(of); !(0 <= lo && lo <= p && p <= hi && hi <= 1) {
			t.Fatalf("%v is not between %v and %v", p, lo, hi)
		}
	})
}

// Text, lines of JSON and the screen equal their golden files.
func TestSampledGolden(t *testing.T) {
	var text strings.Builder
	for _, by := range []string{outcome.GroupPID, outcome.GroupMFA} {
		for _, limit := range []int{3, 20} {
			if err := NewSampledText(&text, limit).Table(tableOf(by, "", 1, sampledWindows(2))); err != nil {
				t.Fatal(err)
			}
		}
	}
	tuitest.Golden(t, *update, filepath.Join("testdata", "sampled.txt"), text.String())
	var lines strings.Builder
	for _, by := range []string{outcome.GroupPID, outcome.GroupMFA} {
		if err := NewJSON(&lines, 0).SampledTable(tableOf(by, "", 1, sampledWindows(2))); err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(lines.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("%s", line)
		}
	}
	tuitest.Golden(t, *update, filepath.Join("testdata", "sampled.json"), lines.String())
}

// The view shows the table, and its keys do what the help describes.
func TestSampledView(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	screen := tcell.NewSimulationScreen("UTF-8")
	v := NewSampledView(tuitest.Colored{SimulationScreen: screen})
	s := NewSampled(&script{}, SampledOptions{By: outcome.GroupPID, Rate: 99})
	ctx, cancel := context.WithCancel(t.Context())
	app, err := tui.NewApp(ctx, v.screen)
	if err != nil {
		t.Fatal(err)
	}
	screen.SetSize(120, 16)
	v.app, v.sampled = app, s
	s.Do(func(m *SampledModel) { m.Average(v.average) })
	v.build()
	work, done := make(chan error, 1), make(chan error, 1)
	go func() {
		done <- app.Run(tui.Show{Work: func(ctx context.Context) error {
			select {
			case err := <-work:
				return err
			case <-ctx.Done():
				return nil
			}
		}, Changed: s.changed, Refresh: v.refresh, Ended: v.end})
	}()
	var screens strings.Builder
	show := func(what string) {
		app.Update(v.refresh)
		app.Update(func() {
			screens.WriteString("--- " + what + "\n" + tuitest.Text(screen))
		})
	}
	press := func(keys string) {
		for _, r := range keys {
			app.Update(func() { v.press(tcell.NewEventKey(tcell.KeyRune, r, tcell.ModNone)) })
		}
	}
	show("before the first window")
	for _, w := range sampledWindows(3) {
		s.Do(func(m *SampledModel) { m.add(w, Used{Known: true, Share: 0.83, Processors: 2}) })
	}
	show("by process")
	press("g")
	show("g: by function")
	press("gaa")
	show("aa: the last window")
	press("f")
	s.Do(func(m *SampledModel) { m.add(sampledWindows(4)[3], Used{}) })
	v.Notify(outcome.Notice{Text: "something is to be said"})
	show("f: frozen")
	press("f?")
	show("?: help")
	press("q")
	app.Update(func() { screen.SetSize(60, 10) })
	show("narrow")
	tuitest.Golden(t, *update, filepath.Join("testdata", "screens/sampled.txt"), screens.String())
	press("q")
	if err := <-done; err != nil {
		t.Error(err)
	}
	cancel()
}

// Run ends when no VM is left, and after its time limit.
func TestSampledRun(t *testing.T) {
	tables, notices := 0, 0
	o := SampledOptions{By: outcome.GroupPID, Tabled: func(*SampledTable) error { tables++; return nil }, Noticed: func(outcome.Notice) { notices++ }}
	if err := NewSampled(&script{sampledWindows(5)}, o).Run(t.Context(), 0); err != nil || tables != 5 || notices != 1 {
		t.Errorf("%v, %d tables, %d notices", err, tables, notices)
	}
	tables = 0
	if err := NewSampled(&script{sampledWindows(5)}, o).Run(t.Context(), 2*time.Second); err != nil || tables != 2 {
		t.Errorf("%v, %d tables", err, tables)
	}
}
