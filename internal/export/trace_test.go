package export_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/internal/export"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
	"github.com/beamscope/beamscope/internal/trace"
)

// explained is an instance that waited for a server with a full mailbox.
func explained() *outcome.Instance {
	const ms = int64(time.Millisecond)
	client, server := trace.PID(10), trace.PID(1<<32|20)
	link := trace.Link{From: client, To: server, Sent: 1002 * ms, Received: 1072 * ms, Mark: trace.Inferred}
	return &outcome.Instance{
		Outcome: "probe", VM: outcome.VM{PID: 7, Node: "shop@db1"}, Status: outcome.Failure, Class: "badarg",
		Start: 1000 * ms, End: 1100 * ms, ID: 4711, Parent: 4000, Process: client,
		Trace: &trace.Trace{Spans: []trace.Span{
			{Parent: -1, Start: 1000 * ms, End: 1100 * ms, Process: client, Name: "client"},
			{Parent: 0, Kind: trace.Ready, Start: 1000 * ms, End: 1002 * ms, Process: client, Name: "client", Other: 99, OtherName: "neighbour"},
			{Parent: 0, Kind: trace.Waiting, Start: 1002 * ms, End: 1073 * ms, Process: server, Name: "queue_2", Mark: trace.Inferred, Link: link},
			{Parent: 2, Kind: trace.Mailbox, Start: 1002 * ms, End: 1072 * ms, Process: server, Name: "queue_2", Mark: trace.Inferred, Behind: 812, Link: link},
			{Parent: 2, Kind: trace.NIF, Start: 1072 * ms, End: 1073 * ms, Process: server, Name: "queue_2", Mark: trace.Inferred, Detail: "m:f/1"},
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
	if err := export.WriteTrace(&text, explained(), start, false); err != nil {
		t.Fatal(err)
	}
	if err := export.NewJSON(&object).Trace(explained(), start); err != nil {
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

// What is called something that a terminal would obey is not shown so.
func TestForeignTrace(t *testing.T) {
	const foreign = "a\x1b[2J\nb"
	i := explained()
	i.Outcome, i.VM.Node, i.Class = foreign, foreign, foreign
	var text bytes.Buffer
	if err := export.WriteTrace(&text, i, time.Time{}, false); err != nil {
		t.Fatal(err)
	}
	var tally scope.Tally
	tally.Add([]outcome.Instance{*i})
	if err := export.WriteTotal(&text, foreign, &tally); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(text.String(), "\n"); len(lines) != 12 || strings.ContainsRune(text.String(), '\x1b') {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
}
