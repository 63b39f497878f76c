package main

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var updateDocs = flag.Bool("update-docs", false, "write what commands print into the documents")

// The documents show the real output of commands. Blocks "```dq NAME" are files. In blocks
// "```console" the lines after a line "$ COMMAND" are the command's output. The commands run in a
// folder with the bundled recordings, and with one of explained spans and snapshots at the place
// that they have in the repository.
func TestDocs(t *testing.T) {
	for _, name := range []string{"diagrams.md", "eval.md", "explain.md", "export.md", "run.md", "scope-file.md", "scripts.md", "snapshots.md", "triggers.md"} {
		t.Run(name, func(t *testing.T) {
			path := documentPath(t, name)
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := rerun(t, string(source))
			if *updateDocs {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(source), got); diff != "" {
				t.Errorf("run go test -update-docs to write what is printed now:\n%s", diff)
			}
		})
	}
}

// documentPath returns the path of a document, in whichever folder of docs it is.
func documentPath(t *testing.T, name string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", "..", "docs", "*", name))
	if err != nil || len(paths) != 1 {
		t.Fatalf("documents named %s: %q, %v", name, paths, err)
	}
	return paths[0]
}

// rerun returns a document with the present output of its commands.
func rerun(t *testing.T, source string) string {
	dir := t.TempDir()
	copyInto(t, dir, "*.bsr")
	const testdata = "cmd/beamscope/testdata"
	copyInto(t, filepath.Join(dir, testdata), "testdata/explained.bsr")
	copyInto(t, filepath.Join(dir, testdata, "snapshots"), "testdata/snapshots/*.bsr")
	var out strings.Builder
	language, file, content := "", "", ""
	for line := range strings.Lines(source) {
		fence, isFence := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "```")
		switch {
		case isFence && language == "":
			language, file, _ = strings.Cut(fence+" ", " ")
			file, content = strings.TrimSpace(file), ""
		case isFence:
			if file != "" {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			language = ""
		case language == "console" && strings.HasPrefix(line, "$ "):
			out.WriteString(line)
			out.WriteString(shell(t, dir, strings.TrimSpace(line[2:])))
			continue
		case language == "console":
			continue
		}
		content += line
		out.WriteString(line)
		if isFence {
			content = ""
		}
	}
	return out.String()
}

// copyInto copies files into a folder that it creates.
func copyInto(t *testing.T, dir, pattern string) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: no such files: %v", pattern, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// shell runs a command and returns its output. It ignores the exit status, because documents show
// errors too.
func shell(t *testing.T, dir, command string) string {
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "TZ=UTC")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() > statusUsage {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// The JSON object that run.md describes is one that replay prints, with all its fields.
func TestDocsJSON(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/run.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n```json\n")
	block, _, ok := strings.Cut(rest, "```\n")
	var want, got map[string]any
	if err := json.Unmarshal([]byte(block), &want); !ok || err != nil {
		t.Fatalf("run.md has no JSON object: %v", err)
	}
	dir := t.TempDir()
	copyInto(t, dir, "mm1k.bsr")
	for line := range strings.Lines(shell(t, dir, "beamscope replay mm1k.bsr --json 2>/dev/null")) {
		got = nil
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(err)
		}
		if got["time"] == want["time"] && got["outcome"] == want["outcome"] {
			if diff := cmp.Diff(got, want); diff != "" {
				t.Errorf("run.md (+) does not show what is printed (-):\n%s", diff)
			}
			return
		}
	}
	t.Errorf("replay prints no object of %v, %v", want["time"], want["outcome"])
}

// The recordings and snapshots that the documents open exist. This runs the commands in blocks
// "```sh" that open one in a terminal. Without a terminal they print it instead.
func TestDocsToLookAt(t *testing.T) {
	dir := t.TempDir()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cmd", "docs"} {
		if err := os.Symlink(filepath.Join(root, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	copyInto(t, filepath.Join(dir, "snapshots"), "testdata/snapshots/*.bsr")
	for _, name := range []string{"dashboard.md", "experiments.md"} {
		source, err := os.ReadFile(documentPath(t, name))
		if err != nil {
			t.Fatal(err)
		}
		commands := toLookAt.FindAllStringSubmatch(string(source), -1)
		if len(commands) == 0 {
			t.Errorf("%s: nothing to look at", name)
		}
		for _, c := range commands {
			cmd := exec.Command("sh", "-c", c[1])
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %s: %v\n%s", name, c[1], err, out)
			}
		}
	}
}

var toLookAt = regexp.MustCompile(`(?m)^bin/(beamscope (?:replay|snapshots show) .*)$`)
