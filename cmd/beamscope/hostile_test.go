package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/files/recording"
)

// hostile is a text that a terminal would interpret in many ways: it sets the title by escape
// sequences and by C1 controls, reverses the direction, clears the screen, returns to the
// beginning of the line, and forges a line.
const hostile = "x\x1b]0;owned\x07\u009b2J\u202e\u2066\r\nFORGED\tline \xff"

// For any content of a recording, only visible characters reach standard output, standard error or
// a text file, and no text of a recording begins a line.
func TestHostileRecordings(t *testing.T) {
	dir := t.TempDir()
	rewrite(t, "testdata/explained.bsr", filepath.Join(dir, "explained.bsr"))
	rewrite(t, "mm1k.bsr", filepath.Join(dir, "mm1k.bsr"))
	snapshots, err := filepath.Glob("testdata/snapshots/*.bsr")
	if err != nil || len(snapshots) == 0 {
		t.Fatal(err, snapshots)
	}
	for _, path := range snapshots {
		rewrite(t, path, filepath.Join(dir, filepath.Base(path)))
	}
	for _, line := range []string{
		"replay explained.bsr", "replay explained.bsr --json", "replay mm1k.bsr", "replay mm1k.bsr --json",
		"trace explained.bsr --all", "trace explained.bsr --json",
		"snapshots list --dir .", "snapshots show 1 --dir .", "snapshots show 1 --dir . --json", "snapshots show 1 --dir . --frames",
		"export mm1k.bsr --format csv -o out.csv", "export mm1k.bsr --format json -o out.json", "export mm1k.bsr --format svg -o out.svg",
	} {
		t.Run(line, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "beamscope", strings.Fields(line)...)
			cmd.Dir = dir
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			stdout, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, stderr.Bytes())
			}
			visible(t, "standard output", stdout)
			visible(t, "standard error", stderr.Bytes())
			if _, output, ok := strings.Cut(line, "-o "); ok {
				text, err := os.ReadFile(filepath.Join(dir, output))
				if err != nil {
					t.Fatal(err)
				}
				visible(t, output, text)
			} else if !strings.Contains(string(stdout)+stderr.String(), "owned") {
				t.Error("nothing of the recording's texts was printed: the test tests nothing")
			}
		})
	}
}

func visible(t *testing.T, what string, text []byte) {
	t.Helper()
	if !utf8.Valid(text) {
		t.Errorf("%s is not UTF-8", what)
	}
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte("FORGED")) {
			t.Errorf("%s has a forged line: %q", what, line)
		}
		for _, r := range string(bytes.TrimSuffix(line, []byte("\n"))) {
			if r != '\t' && !unicode.IsPrint(r) {
				t.Fatalf("%s has %U in %q", what, r, line)
			}
		}
	}
}

// rewrite copies a recording, and appends the hostile text to each text in it except the names of
// outcomes.
func rewrite(t *testing.T, from, to string) {
	t.Helper()
	in, err := recording.Open(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	h := in.Header
	spoil(reflect.ValueOf(&h).Elem())
	var e recording.Encoder
	file, err := e.AppendHeader(nil, &h)
	var blocks, batches uint64 = 1, 0
	for err == nil {
		var entry recording.Entry
		if entry, err = in.Next(); err != nil {
			break
		}
		if _, ok := entry.(*outcome.Batch); ok {
			batches++
		}
		blocks++
		file, err = put(&e, file, entry)
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if file, err = e.AppendEnd(file, blocks, batches); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, file, 0o600); err != nil {
		t.Fatal(err)
	}
}

// put encodes an entry with the hostile text in it.
func put(e *recording.Encoder, file []byte, entry recording.Entry) ([]byte, error) {
	switch entry := entry.(type) {
	case *recording.Config:
		return e.AppendConfig(file, entry)
	case *outcome.Batch:
		spoil(reflect.ValueOf(entry).Elem())
		return e.AppendBatch(file, entry)
	case *outcome.Notice:
		spoil(reflect.ValueOf(entry).Elem())
		return e.AppendNotice(file, entry)
	case *recording.Snapshot:
		return e.AppendSnapshot(file, entry)
	case *recording.Cause:
		spoil(reflect.ValueOf(entry).Elem())
		return e.AppendCause(file, entry)
	}
	return nil, errors.New("an unknown kind of entry")
}

// spoil appends the hostile text to all strings in a value except the names of outcomes.
func spoil(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			spoil(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			spoil(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "Outcome" && f.Name != "Probe" {
				spoil(v.Field(i))
			}
		}
	case reflect.String:
		v.SetString(v.String() + hostile)
	}
}
