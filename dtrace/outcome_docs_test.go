package dtrace_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/beamscope/beamscope/dtrace"
)

// Every built-in outcome and every probe that is mentioned in the documentation exists.
func TestNamesInDocs(t *testing.T) {
	known := map[string]bool{
		"systemtap-sdt-dev": true, "systemtap-sdt-devel": true, // packages
		"a-b":      true,                                       // a span, as an example
		"stand-in": true, "span-start": true, "span-end": true, // how and as what spans are seen
	}
	outcomes := make(map[string]bool)
	for _, o := range dtrace.Builtins() {
		known[o.Name], outcomes[o.Name] = true, true
	}
	for _, p := range dtrace.Catalogue() {
		known[dtrace.Hyphened(p.Name)] = true
	}
	var pages []string
	for _, pattern := range []string{"../README.md", "../docs/*/*.md", "../docs/scopes/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d pages, %v", pattern, len(found), err)
		}
		pages = append(pages, found...)
	}
	hyphened := regexp.MustCompile("`([a-z][a-z0-9]*(?:-[a-z0-9]+)+)`")
	used := regexp.MustCompile(`\bvm: ([a-z][a-z0-9-]*)`)
	linked := regexp.MustCompile("\\[`([a-z][a-z0-9-]*)`\\]\\((?:\\.\\./reference/)?(?:vm-outcomes|probes)\\.md#")
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range hyphened.FindAllSubmatch(text, -1) {
			if name := string(m[1]); !known[name] {
				t.Errorf("%s: `%s` is neither an outcome of the VM nor a probe", page, name)
			}
		}
		for _, names := range [][][][]byte{used.FindAllSubmatch(text, -1), linked.FindAllSubmatch(text, -1)} {
			for _, m := range names {
				if name := string(m[1]); !outcomes[name] {
					t.Errorf("%s: %s is no outcome of the VM", page, name)
				}
			}
		}
	}
}
