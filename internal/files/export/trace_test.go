package export_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/worst"
	"github.com/beamscope/beamscope/internal/explain/trace"
	"github.com/beamscope/beamscope/internal/files/export"
)

// explained returns an instance that waited for a server with a full mailbox.
func explained() *outcome.Instance {
	const ms = int64(time.Millisecond)
	client, server := trace.PID(10), trace.PID(1<<32|20)
	link := trace.Link{From: client, To: server, Sent: 1002 * ms, Received: 1072 * ms, Mark: trace.Inferred}
	return &outcome.Instance{
		Outcome: "probe", VM: outcome.VM{PID: 7, Node: "shop@db1"}, Status: outcome.Failure, Class: "error:'Elixir.ArgumentError'",
		Start: 1000 * ms, End: 1100 * ms, ID: 4711, Parent: 4000, Process: client,
		Trace: &trace.Trace{Spans: []trace.Span{
			{Parent: -1, Start: 1000 * ms, End: 1100 * ms, Process: client, Name: "client"},
			{Parent: 0, Kind: trace.Ready, Start: 1000 * ms, End: 1002 * ms, Process: client, Name: "client", Other: 99, OtherName: "neighbour"},
			{Parent: 0, Kind: trace.Waiting, Start: 1002 * ms, End: 1073 * ms, Process: server, Name: "queue_2", Mark: trace.Inferred, Link: link},
			{Parent: 2, Kind: trace.Mailbox, Start: 1002 * ms, End: 1072 * ms, Process: server, Name: "queue_2", Mark: trace.Inferred, Behind: 812, Link: link},
			{Parent: 2, Kind: trace.NIF, Start: 1072 * ms, End: 1073 * ms, Process: server, Name: "queue_2", Mark: trace.Inferred, Detail: "'Elixir.MyApp.Native':f/1"},
			{
				Parent: 0, Kind: trace.Waiting, Start: 1073 * ms, End: 1100 * ms, Reason: "two may have sent what it took", Mark: trace.Ambiguous,
				Link: trace.Link{From: client, To: 77, Sent: 900 * ms, Mark: trace.Ambiguous},
			},
		}},
	}
}

func TestTrace(t *testing.T) {
	start := time.Date(2026, 11, 21, 12, 3, 7, 123e6, time.UTC)
	var text, object, indented bytes.Buffer
	if err := export.WriteTrace(&text, explained(), false, start, false); err != nil {
		t.Fatal(err)
	}
	if err := export.NewJSON(&object).Trace(explained(), false, start); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(object.Bytes(), []byte("\n")); n != 1 {
		t.Errorf("an object on %d lines", n)
	}
	if err := json.Indent(&indented, object.Bytes(), "", " "); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string][]byte{"trace.txt": text.Bytes(), "trace.json": indented.Bytes()} {
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// If the sending or taking of a message was not seen, its time is null, not time 0 of the
// machine's clock.
func TestTraceTimesNotSeen(t *testing.T) {
	i := explained()
	i.Trace.Spans[2].Link.Sent, i.Trace.Spans[3].Link.Received = 0, 0
	var object bytes.Buffer
	if err := export.NewJSON(&object).Trace(i, false, time.Time{}); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Spans []struct {
			Link *struct {
				Sent     *int64 `json:"sent_ns"`
				Received *int64 `json:"received_ns"`
			}
		}
	}
	if err := json.Unmarshal(object.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if link := got.Spans[2].Link; link.Sent != nil || link.Received == nil || *link.Received != 72_000_000 {
		t.Errorf("not seen to be sent: %s", object.Bytes())
	}
	if link := got.Spans[3].Link; link.Sent == nil || *link.Sent != 2_000_000 || link.Received != nil {
		t.Errorf("not seen to be taken: %s", object.Bytes())
	}
}

// A span that took longer than a dMax that beamscope chose is not called a timeout.
func TestFittedTrace(t *testing.T) {
	for _, test := range []struct {
		fitted bool
		status outcome.Status
		text   string
		dmax   float64
	}{
		{true, outcome.Timeout, "probe #4711: took longer than 100ms, a limit that beamscope chose, start ", 0.1},
		{false, outcome.Timeout, "probe #4711: timeout after 100ms, start ", 0},
		{true, outcome.Success, "probe #4711: success after 100ms, start ", 0},
	} {
		i := explained()
		i.Class, i.Status = "", test.status
		var text, object bytes.Buffer
		if err := errors.Join(export.WriteTrace(&text, i, test.fitted, time.Time{}, false), export.NewJSON(&object).Trace(i, test.fitted, time.Time{})); err != nil {
			t.Fatal(err)
		}
		var got struct {
			DMax float64 `json:"fitted_dmax_s"`
		}
		if err := json.Unmarshal(object.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(text.String(), test.text) || got.DMax != test.dmax {
			t.Errorf("fitted %v, %v: dMax %v in\n%s", test.fitted, test.status, got.DMax, text.String())
		}
	}
}

// Names with characters that a terminal would interpret are shown safely.
func TestForeignTrace(t *testing.T) {
	const foreign = "a\x1b[2J\nb"
	i := explained()
	i.Outcome, i.VM.Node, i.Class = foreign, foreign, foreign
	var text bytes.Buffer
	if err := export.WriteTrace(&text, i, false, time.Time{}, false); err != nil {
		t.Fatal(err)
	}
	k := worst.Keeper{N: 1}
	k.Add([]outcome.Instance{*i}, func(int64) time.Time { return time.Time{} })
	if err := export.WriteTotals(&text, k.Totals()); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(text.String(), "\n"); len(lines) != 12 || strings.ContainsRune(text.String(), '\x1b') {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
}

// A total shows its VM if there are several.
func TestTotals(t *testing.T) {
	one, other := explained(), explained()
	other.VM = outcome.VM{PID: 8}
	k := worst.Keeper{N: 1}
	const went = ", 1 instance explained, 100ms: 70 % waiting in the mailbox of queue_2 (inferred), 27 % waiting for another process (ambiguous: two may have sent what it took), 2 % waiting to run, 1 % dirty function of queue_2 (inferred)\n"
	const shares = `,"n":1,"total_ns":100000000,"shares":[` +
		`{"kind":"mailbox","name":"queue_2","own":false,"mark":"inferred","share":0.7,"duration_ns":70000000},{"kind":"waiting","own":false,"mark":"ambiguous","reason":"two may have sent what it took","share":0.27,"duration_ns":27000000},` +
		`{"kind":"ready","own":true,"mark":"exact","share":0.02,"duration_ns":2000000},{"kind":"nif","name":"queue_2","own":false,"mark":"inferred","share":0.01,"duration_ns":1000000}]}` + "\n"
	const oneObject = `{"outcome":"probe","vm":{"pid":7,"node":"shop@db1"}` + shares
	for _, step := range []struct {
		added         *outcome.Instance
		text, objects string
	}{
		{one, "probe" + went, oneObject},
		{other, "probe of shop@db1 (pid 7)" + went + "probe of pid 8" + went, oneObject + `{"outcome":"probe","vm":{"pid":8,"node":""}` + shares},
	} {
		k.Add([]outcome.Instance{*step.added}, func(int64) time.Time { return time.Time{} })
		var text, objects bytes.Buffer
		if err := export.WriteTotals(&text, k.Totals()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.text, text.String()); diff != "" {
			t.Error(diff)
		}
		j := export.NewJSON(&objects)
		for _, total := range k.Totals() {
			if err := j.Total(total); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(step.objects, objects.String()); diff != "" {
			t.Error(diff)
		}
	}
}
