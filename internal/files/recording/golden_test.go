package recording_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the recording of this version")

// The encoding of version 3 does not change.
func TestVersion3(t *testing.T) {
	path := filepath.Join("testdata", "version3.bsr")
	data, want := everything(t)
	if *update {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, golden) {
		t.Error("the encoding differs, which requires another version")
	}
	got, err := readAll(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := diff(want, got); diff != "" {
		t.Error(diff)
	}
}
