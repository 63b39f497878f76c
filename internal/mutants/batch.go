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

// A batch is some mutants of a package that are compiled together. A function with mutants
// has all their bodies, besides its own, and does the one that an environment variable
// tells. What is outside functions, such as a constant, is a batch by itself.
type batch struct {
	dir      string // for what is made
	overlay  string
	target   *target
	mutants  []mutant
	binaries []*binary // of the target's tests
}

// mostTogether is how many mutants there are in a batch: compilers need memory.
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

// compile finds out which mutants compile and drops the others; it returns how many.
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
			wrong[alone.id] = true // also where the error is in what uses the constant
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

// variable is the environment variable that says which mutant is active, by its id.
const variable = "MUTANT"

const active = `package %s

import (
	"os"
	"strconv"
)

var mutantActive = func() int { n, _ := strconv.Atoi(os.Getenv(%q)); return n }()
`

// write writes the files with mutants, and the overlay by which the compiler takes them.
func (b *batch) write() (places, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	replace, found := map[string]string{}, places{}
	put := func(name, text string) error {
		replace[filepath.Join(root, b.target.dir, name)] = filepath.Join(b.dir, name)
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
	text, _ := json.Marshal(map[string]any{"Replace": replace})
	return found, errors.Join(err, os.WriteFile(b.overlay, text, 0o600))
}

// Places are the lines of mutants in the files that are compiled.
type places map[string][]place

type place struct{ id, from, to int }

// add returns the source of a file with its mutants.
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

// find returns the mutants with errors of the compiler.
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

// A binary holds the tests of a package.
type binary struct {
	tests
	path  string
	limit int           // seconds of processor time
	wall  time.Duration // of time as it goes by, for mutants that wait and do nothing
}

// make compiles the tests of the target and runs them without a mutant. What a mutant may
// take of a processor follows from what they take.
func (b *batch) make(ctx context.Context, i int) error {
	if i < len(b.binaries) {
		return nil
	}
	t := b.target.tests[i]
	bin := &binary{tests: t, path: filepath.Join(b.dir, fmt.Sprint(i, ".test")), limit: 600, wall: 10 * time.Minute}
	if out, err := command(ctx, "go", "test", "-c", "-vet=off", "-overlay", b.overlay, "-o", bin.path, "./"+t.dir); err != nil {
		return fmt.Errorf("%s: %w\n%s", t.dir, err, out)
	}
	b.binaries = append(b.binaries, bin)
	if len(b.mutants) == 1 && b.mutants[0].body == nil {
		bin.limit = 60 // there is no program without the mutant
		return nil
	}
	start := time.Now()
	cmd := bin.command(ctx, 0)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s without a mutant: %w\n%s", t.dir, err, out)
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	bin.limit = 5 + 4*int(used/time.Second+1)
	bin.wall = 30*time.Second + 6*time.Since(start).Round(time.Second)
	return nil
}

// memory is how much of it a test may use, in KiB: a mutant may never end.
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
