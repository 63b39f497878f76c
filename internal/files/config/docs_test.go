package config_test

import (
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
