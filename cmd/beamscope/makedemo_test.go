package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// `make demo OTP=stock` shows the system on the Erlang VM that is installed. The instances in the windows of
// each outcome add up to its totals. All spans that started are among them, were lost, or are open at the end.
// Some may be open at the beginning too: the VM records spans before beamscope reads them.
// The fault that comes by itself makes instances fail.
func TestMakeDemoOnStockVM(t *testing.T) {
	vmtest.NotShort(t)
	vmtest.NeedProgram(t, "make")
	cmd := exec.CommandContext(t.Context(), "make", "-C", "../..", "--no-print-directory", "demo", "OTP=stock")
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Environ(), "PATH="+stockCommands(t)+":"+os.Getenv("PATH"),
		"XDG_CACHE_HOME="+t.TempDir(), "GOCACHE="+strings.TrimSpace(string(cache)), "BEAMSCOPE_OTP=") // it is not to use the VM with probes
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, &log, &out)
	}
	if !strings.Contains(log.String(), "starting Erlang/OTP 25.") {
		t.Errorf("another VM: %s", &log)
	}
	windows, ends, found := strings.Cut(out.String(), "\ntotals\n")
	if !found {
		t.Fatalf("no totals:\n%s\n%s", &log, &out)
	}
	for _, outcome := range []string{"worker_1", "worker_2", "probe"} {
		checkDemo(t, outcome, windows, ends)
	}
}

// checkDemo compares the windows of an outcome with its line of the totals.
func checkDemo(t *testing.T, outcome, windows, totals string) {
	t.Helper()
	const (
		leastWindows = 25  // of 30
		rate         = 400 // messages a second, and more for a while
		places       = 22  // in both queues and at both workers
	)
	rows := regexp.MustCompile(`(?m)^ +`+outcome+` +(\d+) .*$`).FindAllStringSubmatch(windows, -1)
	sum := 0
	for _, r := range rows {
		n, err := strconv.Atoi(r[1])
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	line := regexp.MustCompile(`(?m)^ +` + outcome + ` +pid \d+ +(.*)$`).FindStringSubmatch(totals)
	if line == nil {
		t.Fatalf("no totals of %s:\n%s", outcome, totals)
	}
	var starts, ends, success, failure, timeout, lost, orphan, late int
	if n := scanInts(line[1], &starts, &ends, &success, &failure, &timeout, &lost, &orphan, &late); n != 8 {
		t.Fatalf("totals of %s: %q", outcome, line[1])
	}
	if len(rows) < leastWindows || sum < leastWindows*rate/2 {
		t.Errorf("%s: %d instances in %d windows", outcome, sum, len(rows))
	}
	open := starts - sum - lost // at the end, without those that were open at the beginning
	if sum != success+failure+timeout || open < -places || open > places || orphan > 0 || failure == 0 {
		t.Errorf("%s: %d instances in the windows, %d more open at the end than at the beginning, and %q in all", outcome, sum, open, line[1])
	}
	t.Logf("%s: %d instances in %d windows, %d more open at the end than at the beginning", outcome, sum, len(rows), open)
}

// scanInts reads numbers that spaces separate, and returns how many it has read.
func scanInts(text string, into ...*int) int {
	fields := strings.Fields(text)
	if len(fields) != len(into) {
		return 0
	}
	for i, f := range fields {
		n, err := strconv.Atoi(f)
		if err != nil {
			return i
		}
		*into[i] = n
	}
	return len(into)
}

// stockCommands returns a folder with the commands of an Erlang whose VM is Debian's own.
func stockCommands(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bin")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	stock := vmtest.Stock(t, 25)
	for name, path := range map[string]string{"erl": stock.Erl, "erlc": stock.Erlc} {
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// `make build` says before the first build that it takes long. Go prints nothing meanwhile.
func TestMakeBuildSaysThatItTakesLong(t *testing.T) {
	vmtest.NeedProgram(t, "make")
	dir := t.TempDir()
	copyInto(t, dir, "../../Makefile")
	for name, script := range map[string]string{
		"scripts/need.sh": "",
		"commands/go":     "mkdir -p bin && touch bin/beamscope && echo compiling >&2",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"building beamscope: the first time takes about two minutes\ncompiling\n", "compiling\n"} {
		cmd := exec.CommandContext(t.Context(), "make", "-C", dir, "--no-print-directory", "build")
		cmd.Env = append(cmd.Environ(), "XDG_CACHE_HOME="+t.TempDir(), "PATH="+filepath.Join(dir, "commands")+":"+os.Getenv("PATH"))
		var log bytes.Buffer
		cmd.Stderr = &log
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v\n%s", err, &log)
		}
		if log.String() != want {
			t.Errorf("make build says %q, want %q", &log, want)
		}
	}
}
