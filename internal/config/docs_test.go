package config_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/internal/config"
)

// The scope files that the documentation shows are right, and those called wrong
// are not.
func TestDocs(t *testing.T) {
	document, err := os.ReadFile("../../docs/scope-file.md")
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
