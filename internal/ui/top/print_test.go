package top

import (
	"bufio"
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/ui/tui/tuitest"
)

// crowded returns a table with instances without room, with losses, and with a kind that is not
// observed.
func crowded(t *testing.T) *Table {
	t.Helper()
	m := fed(t, 11, shop, store)
	m.Configure(plan(2, outcome.GroupPID))
	m.gaveUp = "90.0k events/s = 13.5% of a core, limit 10.0%"
	b := batch(plan(2, outcome.GroupPID), 11, shop, store)
	for i := range b.Counts {
		c := &b.Counts[i]
		c.Loss.NoRoom = 3
		c.Groups[len(c.Groups)-1].Key = ""
	}
	if _, err := m.Add(b); err != nil {
		t.Fatal(err)
	}
	return m.Table()
}

func TestText(t *testing.T) {
	var out bytes.Buffer
	for _, table := range []*Table{fed(t, 12, shop).Table(), crowded(t)} {
		if err := NewText(&out, 5).Table(table); err != nil {
			t.Fatal(err)
		}
	}
	tuitest.Golden(t, *update, filepath.Join("testdata", "tables.txt"), out.String())
}

// Below the table is the name of the longest queue that it does not show.
func TestLongestQueueIsNamed(t *testing.T) {
	for waiting, want := range map[int64]string{growingLeast - 1: "and 2 more\n", 50_000: "and 2 more; 50.0k messages wait for <0.3.0> stuck (--sort waiting)\n"} {
		table := fed(t, 1, shop).Table()
		table.Rows = []Row{
			{ID: ID{shop, "<0.1.0>"}, Name: "busy"},
			{ID: ID{shop, "<0.2.0>"}, Name: "idle"},
			{ID: ID{shop, "<0.3.0>"}, Name: "stuck", Cells: Cells{Seen: Seen{Known: true, Waiting: waiting}}},
		}
		var out bytes.Buffer
		if err := NewText(&out, 1).Table(table); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("%d messages: no %q in\n%s", waiting, want, out.String())
		}
	}
}

func TestJSON(t *testing.T) {
	var out bytes.Buffer
	p := NewJSON(&out, 2)
	for _, table := range []*Table{fed(t, 12, shop).Table(), crowded(t)} {
		if err := p.Table(table); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Notice(time.Unix(1_800_000_000, 0).UTC(), "gave up run"); err != nil {
		t.Fatal(err)
	}
	tuitest.Golden(t, *update, filepath.Join("testdata", "lines.json"), out.String())
	var types []string
	for s := bufio.NewScanner(&out); s.Scan(); {
		var line struct{ Type string }
		if err := json.Unmarshal(s.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		types = append(types, line.Type)
	}
	if want := []string{"row", "row", "total", "row", "row", "others", "total", "notice"}; !slices.Equal(types, want) {
		t.Errorf("lines %v, want %v", types, want)
	}
}

// Without a limit all rows are printed.
func TestJSONHasAllRows(t *testing.T) {
	var out bytes.Buffer
	table := fed(t, 1, shop).Table()
	if err := NewJSON(&out, 0).Table(table); err != nil {
		t.Fatal(err)
	}
	if got := bytes.Count(out.Bytes(), []byte("\n")); got != len(table.Rows)+1 {
		t.Errorf("%d lines, want %d rows and the total", got, len(table.Rows))
	}
}
