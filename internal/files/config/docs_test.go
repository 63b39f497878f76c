package config_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/internal/files/config"
)

// The scope files in the documentation are valid, except those that are marked as wrong.
func TestDocs(t *testing.T) {
	document, err := os.ReadFile("../../../docs/reference/scope-file.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml (\\S+)\n(.*?)```").FindAllStringSubmatch(string(document), -1)
	if len(blocks) < 6 {
		t.Errorf("%d scope files in it", len(blocks))
	}
	for _, block := range blocks {
		name, text := block[1], block[2]
		c, err := config.Parse(name, []byte(text))
		if err == nil {
			_, err = c.System()
		}
		if wrong := strings.HasPrefix(name, "wrong"); wrong != (err != nil) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// The scope files for well-known systems are valid.
func TestScopes(t *testing.T) {
	files, err := filepath.Glob("../../../docs/scopes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scope files: %v", err)
	}
	for _, file := range files {
		c, err := config.Load(file)
		if err == nil {
			_, err = c.System()
		}
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

var updateDocs = flag.Bool("update-docs", false, "write the tables of keys in the reference page")

// The tables of keys in the reference page are those of the fields that read and write scope files.
func TestKeys(t *testing.T) {
	const file = "../../../docs/reference/scope-file.md"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, s := range config.Sections() {
		name := s.Name
		if name == "" {
			name = "the file"
		}
		before, rest, begins := strings.Cut(text, "<!-- keys of "+name+": made by `go test ./internal/files/config -run TestKeys -update-docs` -->\n")
		table, after, ends := strings.Cut(rest, "<!-- /keys -->\n")
		if !begins || !ends {
			t.Fatalf("%s has no table of the keys of %s", file, name)
		}
		begin := text[len(before) : len(text)-len(rest)]
		if want := keyTable(s.Keys); table != want {
			if text = before + begin + want + "<!-- /keys -->\n" + after; !*updateDocs {
				t.Errorf("the keys of %s are:\n%s", name, want)
			}
		}
	}
	if *updateDocs {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// keyTable returns the keys as a table in Markdown.
func keyTable(keys []config.Key) string {
	var b strings.Builder
	b.WriteString("| key | meaning | values | default |\n|---|---|---|---|\n")
	for _, k := range keys {
		name := "`" + k.Name + "`"
		if k.Section != "" {
			name = fmt.Sprintf("[%s](#%s)", name, k.Section)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", name, k.Help, k.Range, k.Default)
	}
	return b.String()
}
