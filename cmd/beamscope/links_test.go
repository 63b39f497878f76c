package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	fencedCode = regexp.MustCompile("(?ms)^\\s*```.*?^\\s*```")
	inlineCode = regexp.MustCompile("`[^`\n]*`")
	linkTarget = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headings   = regexp.MustCompile(`(?m)^#{1,6} +(.*)$`)
	ids        = regexp.MustCompile(`<a id="([^"]+)"></a>`)
)

// Each link of a document to a file of the repository leads to a file that exists, and if it names
// a heading or an id, to one of that file.
func TestLinks(t *testing.T) {
	root := filepath.Join("..", "..")
	listed, err := exec.Command("git", "-C", root, "ls-files", "*.md").Output()
	if err != nil {
		t.Skipf("the files of the repository are not known without git: %v", err)
	}
	for _, name := range strings.Fields(string(listed)) {
		from := filepath.Join(root, name)
		for _, link := range linkTarget.FindAllStringSubmatch(prose(t, from), -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			file, heading, _ := strings.Cut(link[1], "#")
			to := from
			if file != "" {
				to = filepath.Join(filepath.Dir(from), file)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, link[1])
			} else if heading != "" && !anchors(t, to)[heading] {
				t.Errorf("%s links to %s, but no heading there has that name", name, link[1])
			}
		}
	}
}

// prose returns a document without code.
func prose(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return inlineCode.ReplaceAllString(fencedCode.ReplaceAllString(string(text), ""), "")
}

// anchors returns the names by which links refer to places of a document: its ids, and its headings as
// GitHub names them.
func anchors(t *testing.T, path string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, id := range ids.FindAllStringSubmatch(string(text), -1) {
		names[id[1]] = true
	}
	for _, heading := range headings.FindAllStringSubmatch(fencedCode.ReplaceAllString(string(text), ""), -1) {
		names[strings.Map(anchorRune, strings.TrimSpace(heading[1]))] = true
	}
	return names
}

func anchorRune(r rune) rune {
	switch {
	case r == ' ':
		return '-'
	case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r):
		return unicode.ToLower(r)
	}
	return -1
}
