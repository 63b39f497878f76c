package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
	"github.com/beamscope/beamscope/internal/ui/doctor"
	"github.com/beamscope/beamscope/usdt"
)

// Output of doctor about the symbols of a stripped VM: what is missing without them and how to get
// them, or the file with the symbols. A server is asked only if the environment names it, and only
// once.
func TestSymbolsOfStrippedVM(t *testing.T) {
	vmtest.NeedEBPF(t)
	otp, err := vmtest.Release(t, 29).Private(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	debug := filepath.Join(t.TempDir(), "beam.smp.debug")
	vmtest.Separate(t, otp.Emulator(), debug)
	f, err := usdt.Open(otp.Emulator())
	if err != nil {
		t.Fatal(err)
	}
	id := f.BuildID()
	if err := f.Close(); err != nil || id == "" {
		t.Fatalf("build ID %q: %v", id, err)
	}
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.URL.Path != "/buildid/"+id+"/debuginfo" {
			t.Errorf("the server is asked for %s", r.URL.Path)
		}
		http.ServeFile(w, r, debug)
	}))
	defer server.Close()
	v := vmtest.StartOn(t, otp, erlang.Options{})
	cache := t.TempDir()
	for _, test := range []struct {
		name   string
		server bool
		status doctor.Status
		found  []string // parts of its output
	}{
		{"nothing", false, doctor.Warning, []string{id, "call, run, run-wait", "names and the memory"}},
		{"a server", true, doctor.OK, []string{filepath.Join(cache, id, "debuginfo")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "beamscope", "doctor", "--json", "--pid", strconv.Itoa(v.PID()))
			cmd.Env = append(os.Environ(), "DEBUGINFOD_CACHE_PATH="+cache)
			if test.server {
				cmd.Env = append(cmd.Env, "DEBUGINFOD_URLS="+server.URL)
			}
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			var got doctor.Check
			for line := range strings.Lines(string(out)) {
				var c doctor.Check
				if err := json.Unmarshal([]byte(line), &c); err != nil {
					t.Fatalf("%v: %s", err, line)
				}
				if c.Name == "symbols" {
					got = c
				}
			}
			if got.Status != test.status || got.PID != v.PID() || (got.Status == doctor.Warning) != strings.Contains(got.Do, "DEBUGINFOD_URLS") {
				t.Errorf("%+v", got)
			}
			for _, part := range test.found {
				if !strings.Contains(got.Found, part) {
					t.Errorf("%q does not have %q", got.Found, part)
				}
			}
		})
	}
	cmd := exec.CommandContext(t.Context(), "beamscope", "probes", "--json", "--pid", strconv.Itoa(v.PID()))
	cmd.Env = append(os.Environ(), "DEBUGINFOD_CACHE_PATH="+cache, "DEBUGINFOD_URLS="+server.URL)
	if out, err := cmd.Output(); err != nil || !strings.Contains(string(out), `"builtin":"run"`) {
		t.Errorf("probes: %v: %s", err, out)
	}
	if asked != 1 {
		t.Errorf("the server is asked %d times", asked)
	}
}

// A folder that is none is refused, by each command that has the flag.
func TestSymbolsFlag(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"run", "record", "trace", "top", "probes", "doctor"} {
		for _, dir := range []string{"", file, "/no/such/folder"} {
			_, err := command(t, name, "--symbols="+dir)
			if err == nil || !errors.Is(err, errUsage) || !strings.Contains(err.Error(), "--symbols "+dir+": not a folder") {
				t.Errorf("%s --symbols=%s: %v", name, dir, err)
			}
		}
	}
}
