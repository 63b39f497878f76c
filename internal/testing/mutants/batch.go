package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A batch is a set of mutants of a package that are compiled together. A mutated function contains
// all of its mutated bodies besides its own, and an environment variable selects one. A mutant
// outside of functions, such as one of a constant, is a batch by itself.
type batch struct {
	dir      string // temporary folder
	overlay  string
	replace  map[string]string // of the overlay
	target   *target
	mutants  []mutant
	binaries []*binary // of the target's tests
}

// mostTogether is the maximum number of mutants in a batch: compilers need memory.
const mostTogether = 250

// batches divides the mutants of a target.
func batches(t *target, mutants []mutant) []*batch {
	var all, alone []*batch
	var together []mutant
	for _, m := range mutants {
		if m.body == nil {
			alone = append(alone, &batch{target: t, mutants: []mutant{m}})
		} else {
			together = append(together, m)
		}
	}
	for some := range slices.Chunk(together, mostTogether) {
		all = append(all, &batch{target: t, mutants: some})
	}
	return append(all, alone...)
}

// compile drops the mutants that do not compile, and returns their number.
func (b *batch) compile(ctx context.Context) (broken int, err error) {
	for {
		places, err := b.write()
		if err != nil {
			return broken, err
		}
		output, err := command(ctx, "go", "build", "-gcflags=-e", "-overlay", b.overlay, "./"+b.target.dir)
		if err == nil {
			return broken, nil
		}
		wrong := places.find(output)
		if alone := b.mutants[0]; alone.body == nil {
			wrong[alone.id] = true // even if the error is in code that uses the constant
		}
		if len(wrong) == 0 {
			return broken, fmt.Errorf("%s: %w\n%s", b.target.dir, err, output)
		}
		b.mutants = slices.DeleteFunc(b.mutants, func(m mutant) bool { return wrong[m.id] })
		if broken += len(wrong); len(b.mutants) == 0 {
			return broken, nil
		}
	}
}

// variable is the environment variable that contains the id of the active mutant.
const variable = "MUTANT"

const active = `package %s

import (
	"os"
	"strconv"
)

var mutantActive = func() int { n, _ := strconv.Atoi(os.Getenv(%q)); return n }()
`

// write writes the mutated files and the compiler's overlay.
func (b *batch) write() (places, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	found := places{}
	b.replace = map[string]string{}
	put := func(name, text string) error {
		b.replace[filepath.Join(root, b.target.dir, name)] = filepath.Join(b.dir, name)
		return os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600)
	}
	err = put("mutant_active.go", fmt.Sprintf(active, b.target.name, variable))
	byFile := map[string][]mutant{}
	for _, m := range b.mutants {
		byFile[m.file] = append(byFile[m.file], m)
	}
	for file, mutants := range byFile {
		err = errors.Join(err, put(filepath.Base(file), found.add(file, mutants)))
	}
	b.overlay = filepath.Join(b.dir, "overlay.json")
	return found, errors.Join(err, writeOverlay(b.overlay, b.replace))
}

func writeOverlay(path string, replace map[string]string) error {
	text, err := json.Marshal(map[string]any{"Replace": replace})
	return errors.Join(err, os.WriteFile(path, text, 0o600))
}

// without writes an overlay that also hides test files that some tests do not need, and returns its
// path.
func (b *batch) without(t tests, path string) (string, error) {
	if t.only == "" {
		return b.overlay, nil
	}
	files, err := filepath.Glob(filepath.Join(t.dir, "*_test.go"))
	if err != nil {
		return "", err
	}
	replace := maps.Clone(b.replace)
	for _, file := range files {
		if needed, _ := filepath.Match(t.only, filepath.Base(file)); needed {
			continue
		}
		absolute, err := filepath.Abs(file)
		if err != nil {
			return "", err
		}
		replace[absolute] = "" // hides the file
	}
	return path, writeOverlay(path, replace)
}

// A places maps each compiled file to the lines of its mutants.
type places map[string][]place

type place struct{ id, from, to int }

// add returns the source of a file, including its mutants.
func (p places) add(file string, mutants []mutant) string {
	source, out, done := string(mutants[0].source), new(strings.Builder), 0
	note := func(id int, text string) {
		from := strings.Count(out.String(), "\n") + 1
		out.WriteString(text)
		p[filepath.Base(file)] = append(p[filepath.Base(file)], place{id, from, strings.Count(out.String(), "\n") + 1})
	}
	byBody := map[int][]mutant{}
	for _, m := range mutants {
		if m.body == nil {
			note(m.id, source[:m.from]+m.new+source[m.to:])
			return out.String()
		}
		byBody[m.body.from] = append(byBody[m.body.from], m)
	}
	for _, from := range slices.Sorted(maps.Keys(byBody)) {
		body := byBody[from][0].body
		own := source[body.from:body.to]
		out.WriteString(source[done:body.from] + "{ switch mutantActive { default:\n" + own + "\n")
		for _, m := range byBody[from] {
			fmt.Fprintf(out, "case %d:\n", m.id)
			note(m.id, source[body.from:m.from]+m.new+source[m.to:body.to])
			out.WriteString("\n")
		}
		out.WriteString("} }")
		done = body.to
	}
	out.WriteString(source[done:])
	return out.String()
}

var position = regexp.MustCompile(`(?m)^(?:\S*/)?([^/\s]+\.go):(\d+):`)

// find returns the mutants with compiler errors.
func (p places) find(output []byte) map[int]bool {
	wrong := map[int]bool{}
	for _, match := range position.FindAllSubmatch(output, -1) {
		line, _ := strconv.Atoi(string(match[2]))
		for _, at := range p[string(match[1])] {
			if at.from <= line && line <= at.to {
				wrong[at.id] = true
			}
		}
	}
	return wrong
}

// A binary is a compiled test program.
type binary struct {
	tests
	path  string
	limit int           // seconds of processor time
	wall  time.Duration // wall time limit, for mutants that wait and do nothing
}

// make compiles the tests of the target and runs them without a mutant. The limits of processor
// time for mutants follow from that run.
func (b *batch) make(ctx context.Context, i int) error {
	if i < len(b.binaries) {
		return nil
	}
	t := b.target.tests[i]
	bin := &binary{tests: t, path: filepath.Join(b.dir, fmt.Sprint(i, ".test")), limit: 600, wall: 10 * time.Minute}
	overlay, err := b.without(t, bin.path+".json")
	if err != nil {
		return err
	}
	if out, err := command(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", bin.path, "./"+t.dir); err != nil {
		return fmt.Errorf("%s: %w\n%s", t.dir, err, out)
	}
	b.binaries = append(b.binaries, bin)
	if len(b.mutants) == 1 && b.mutants[0].body == nil {
		bin.limit = 30 // the program without the mutant does not exist
		return nil
	}
	start := time.Now()
	cmd := bin.command(ctx, 0)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s without a mutant: %w\n%s", t.dir, err, out)
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	bin.limit = 4 * int(used/time.Second+1)
	bin.wall = 30*time.Second + 6*time.Since(start).Round(time.Second)
	return nil
}

// memory is the memory limit of a test in KiB: a mutant may never end.
const memory = 8 << 20

func (b *binary) command(ctx context.Context, id int) *exec.Cmd {
	script := fmt.Sprintf(`ulimit -v %d -t %d && exec "$@"`, memory, b.limit)
	args := append([]string{"-c", script, "sh", b.path, "-test.short", "-test.failfast", "-test.timeout=" + b.wall.String()}, b.args...)
	cmd := exec.CommandContext(ctx, "bash", args...)
	cmd.Dir = b.tests.dir // where testdata is
	cmd.Env = append(os.Environ(), fmt.Sprint(variable, "=", id), "GOMAXPROCS=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// run runs the tests with a mutant.
func (b *binary) run(ctx context.Context, id int) (result, error) {
	output, err := b.command(ctx, id).CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return survived, nil
	case !errors.As(err, &exit):
		return broken, err
	case bytes.Contains(output, []byte("SIGXCPU")) || bytes.Contains(output, []byte("test timed out")) || exit.ExitCode() < 0 || exit.ExitCode() > 128:
		return timedOut, nil
	}
	return failed, nil
}

func command(ctx context.Context, name string, args ...string) ([]byte, error) {
	return exec.CommandContext(ctx, name, args...).CombinedOutput()
}
