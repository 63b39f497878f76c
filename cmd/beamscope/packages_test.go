package main

import (
	"fmt"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The document about the architecture lists all packages, with the first sentence of their comments.
func TestPackageTable(t *testing.T) {
	const begin = "<!-- packages: made by `go test ./cmd/beamscope -run TestPackageTable -update-docs` -->\n"
	const end = "<!-- /packages -->\n"
	path := documentPath(t, "how-it-works.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), begin)
	table, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		t.Fatalf("%s has no table of packages", path)
	}
	want := packageTable(t)
	if *updateDocs {
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(table, want); diff != "" {
		t.Errorf("run go test -update-docs to write the table again:\n%s", diff)
	}
}

// packageTable returns a table of the packages in the repository that are no commands.
func packageTable(t *testing.T) string {
	t.Helper()
	root := filepath.Join("..", "..")
	lines := []string{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !e.IsDir():
			return nil
		case strings.HasPrefix(e.Name(), ".") && path != root, e.Name() == "testdata", path == filepath.Join(root, "bench"):
			return filepath.SkipDir
		}
		if sentence := packageSentence(t, path); sentence != "" {
			folder, _ := filepath.Rel(root, path)
			lines = append(lines, fmt.Sprintf("| `%s` | %s |\n", filepath.ToSlash(folder), sentence))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return "| folder | job |\n|---|---|\n" + strings.Join(lines, "")
}

// packageSentence returns what a package does: the first sentence of its comment, without its name. It
// returns "" for folders without a package, and for commands.
func packageSentence(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	library, sentence := "", ""
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "_test.go") || file.Name.Name == "main" {
			continue
		}
		library = file.Name.Name
		if file.Doc != nil && sentence == "" {
			sentence = new(doc.Package).Synopsis(file.Doc.Text())
		}
	}
	if library == "" {
		return ""
	}
	job, found := strings.CutPrefix(sentence, "Package "+library+" ")
	if !found {
		t.Errorf("%s: the comment of the package does not begin with its name: %q", dir, sentence)
	}
	return strings.NewReplacer("[", "`", "]", "`").Replace(strings.TrimSuffix(job, "."))
}
