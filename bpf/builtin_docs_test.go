package bpf_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/files/config"
)

// The reference agrees with the code about each built-in outcome, in the same order, and its scope
// files are valid.
func TestBuiltinsAreDocumented(t *testing.T) {
	document, err := os.ReadFile("../docs/reference/vm-outcomes.md")
	if err != nil {
		t.Fatal(err)
	}
	rest := string(document)
	for _, b := range dtrace.Builtins() {
		section := fmt.Sprintf("### %s\n%s", b.Name, reference(b))
		_, after, ok := strings.Cut(rest, section)
		if !ok {
			t.Errorf("docs/reference/vm-outcomes.md lacks, or has too early:\n%s", section)
			continue
		}
		rest = after
		next, _, _ := strings.Cut(after, "\n### ")
		if !strings.Contains(next, "{vm: "+b.Name) {
			t.Errorf("%s: the reference has no example", b.Name)
		}
	}
	for _, block := range regexp.MustCompile("(?s)```yaml (\\S+)\n(.*?)```").FindAllStringSubmatch(string(document), -1) {
		c, err := config.Parse(block[1], []byte(block[2]))
		if err == nil {
			_, err = c.System()
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// reference returns the reference's lines about a built-in outcome, made from the code.
func reference(b dtrace.Builtin) string {
	return fmt.Sprintf("| | |\n|---|---|\n| starts | %s |\n| ends | %s |\n| cannot see | %s |\n| scale | dMax %v, %d bins |\n",
		b.Starts, b.Ends, b.Blind, b.DMax, b.Bins)
}
