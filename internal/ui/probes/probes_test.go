package probes

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/seen"
	"github.com/beamscope/beamscope/usdt"
)

// found are the probes of a small executable: one is not in the catalogue, one is absent according
// to it, and one has no semaphore.
func found(t *testing.T) []usdt.Probe {
	t.Helper()
	probe := func(name string, sites ...usdt.Site) usdt.Probe {
		return usdt.Probe{Provider: dtrace.Provider, Name: name, Sites: sites}
	}
	site := func(semaphore uint64, specs ...string) usdt.Site {
		s := usdt.Site{Offset: 0x1000 + semaphore, Semaphore: semaphore}
		for _, spec := range specs {
			s.Args = append(s.Args, usdt.Arg{Kind: usdt.ArgUnknown, Spec: spec})
		}
		return s
	}
	return []usdt.Probe{
		probe("process__spawn", site(2, "8@%r12", "8@%r14")),
		probe("process__scheduled", site(4)),
		probe("process__port_unblocked", site(6)),
		probe("message__send", site(8, "8@%rax"), site(8, "8@%rsi"), site(8)),
		probe("local__function__entry", site(10)),
		probe("bif__entry", site(12)),
		probe("copy__struct", site(0)),
		probe("brand__new", site(14)),
		probe("user_trace__n10", site(16)),
		probe("user_trace__n9", site(18)),
		probe("user_trace__n7", site(20)),
		probe("process__in", site(0, "8@(%rax)")),
		probe("process__out", site(0, "8@(%rsi)", "-4@%edx")),
		probe("gc_minor__start", site(0)),
		probe("gc_minor__end", site(0)),
	}
}

// values contains a VM's semaphores by offset; others cannot be read.
func values(v map[uint64]uint16) Semaphore {
	return func(s usdt.Site) (uint16, error) {
		value, ok := v[s.Semaphore]
		if !ok {
			return 0, os.ErrPermission
		}
		return value, nil
	}
}

func TestList(t *testing.T) {
	one := values(map[uint64]uint16{2: 0, 4: 0, 6: 0, 8: 5, 10: 0, 14: 0, 16: 1, 18: 0, 20: 0})
	two := values(map[uint64]uint16{2: 0, 6: 1, 8: 0, 10: 0, 14: 0, 16: 0, 18: 0, 20: 0})
	for _, test := range []struct {
		name string
		opts Options
		want string
	}{
		{"not running", Options{Release: 25}, `
brand-new unknown unknown 1/1 unknown 0
copy-struct alive very hot 1/1 unknown 0
local-function-entry dead unknown 1/1 unknown 0
message-send alive hot 1/3 unknown 0
process-port_unblocked alive rare 1/1 unknown 0
process-scheduled dirty only moderate 1/1 unknown 0
process-spawn alive moderate 1/1 unknown 0
bif-entry unknown unknown 1/1 unknown 0
user_trace-n alive unknown 3/3 unknown 0
function-return absent unknown 0/0 unknown 0
process-in alive hot 1/1 unknown 0
process-monitor absent unknown 0/0 unknown 0
`},
		{"one VM", Options{Release: 25, Semaphores: []Semaphore{one}}, `
brand-new unknown unknown 1/1 no 0
copy-struct alive very hot 1/1 unknown 0
message-send alive hot 1/3 yes 1
process-scheduled dirty only moderate 1/1 no 0
bif-entry unknown unknown 1/1 unknown 0
user_trace-n alive unknown 3/3 yes 1
`},
		{"two VMs", Options{Release: 25, Semaphores: []Semaphore{one, two}}, `
message-send alive hot 1/3 yes 1
process-port_unblocked alive rare 1/1 yes 1
process-scheduled dirty only moderate 1/1 unknown 0
process-spawn alive moderate 1/1 no 0
`},
		{"all", Options{Release: 25, All: true, Semaphores: []Semaphore{one}}, `
user_trace-n9 alive unknown 1/1 no 0
user_trace-n10 alive unknown 1/1 yes 1
user_trace-n11 absent unknown 0/0 unknown 0
`},
		{"interpreter", Options{Release: 25, Interpreter: true}, `
message-send unknown hot 1/3 unknown 0
process-scheduled unknown moderate 1/1 unknown 0
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			lines := make(map[string]string)
			for _, p := range List(found(t), test.opts) {
				lines[p.DTraceName()] = fmt.Sprintf("%s %s %s %d/%d %s %d", p.DTraceName(), p.State, p.Hot, p.Members, len(p.Sites), p.Attached, p.Taps)
			}
			for want := range strings.Lines(strings.TrimPrefix(test.want, "\n")) {
				want = strings.TrimSpace(want)
				name, _, _ := strings.Cut(want, " ")
				if lines[name] != want {
					t.Errorf("%q, want %q", lines[name], want)
				}
			}
		})
	}
}

func TestBuiltins(t *testing.T) {
	missing := make(map[string][]string)
	for _, b := range Builtins(List(found(t), Options{Release: 25}), nil) {
		missing[b.Name] = b.Missing
	}
	for name, want := range map[string][]string{
		"gc":       {"gc_major-start", "gc_major-end"},
		"gc-minor": nil,
		"run":      nil,
		"run-wait": nil,
		"os-wait":  nil,
		"hop":      {"message-queued", "message-receive"},
		"call":     {"process-demonitor", "process-monitor"},
	} {
		if got, ok := missing[name]; !ok || !slices.Equal(got, want) {
			t.Errorf("%s: %v is missing, %q, want %q", name, !ok, got, want)
		}
	}
}

// A probe that is not known to be harmless on a release is refused there, and so are the outcomes
// that need it.
func TestRefused(t *testing.T) {
	for release, want := range map[int][]string{
		25: {"bif-entry", "brand-new", "process-port_unblocked"},
		27: {"bif-entry", "brand-new", "process-port_unblocked"},
	} {
		var refused []string
		for _, p := range List(found(t), Options{Release: release}) {
			if p.Refused != "" {
				refused = append(refused, p.DTraceName())
			}
		}
		if !slices.Equal(refused, want) {
			t.Errorf("OTP %d: %q, want %q", release, refused, want)
		}
	}
	for _, release := range []int{0, 26} {
		list := List(found(t), Options{Release: release})
		for _, p := range list {
			if there := p.Members > 0; there != (p.Refused != "") {
				t.Errorf("release %d: %s is there: %v, refused: %q", release, p.DTraceName(), there, p.Refused)
			}
		}
		for _, b := range Builtins(list, nil) {
			if !b.Rule.RunQueue && len(b.Missing) == 0 {
				t.Errorf("release %d: %s is possible", release, b.Name)
			}
		}
	}
}

func TestListOrder(t *testing.T) {
	var users []string
	for _, p := range List(found(t), Options{Release: 25, All: true}) {
		if _, ok := dtrace.UserTraceNumber(p.Name); ok {
			users = append(users, p.Name)
		}
	}
	if len(users) != 951 || users[2] != "user_trace__n2" || users[950] != "user_trace__n950" {
		t.Errorf("%d: %.60q", len(users), users)
	}
}

func TestOutput(t *testing.T) {
	running := Listing{
		Exe: "/opt/otp/erts-13.1.5/bin/beam.smp", Release: 25,
		PIDs: []int{42, 4711},

		Recording: []int{4711},

		Probes: List(found(t), Options{Release: 25, Semaphores: []Semaphore{values(map[uint64]uint16{2: 0, 4: 1, 8: 5, 16: 1, 18: 0, 20: 0})}}),
	}
	file := Listing{Exe: "beam.smp", Release: 25, Probes: List(found(t), Options{Release: 25})}
	for name, l := range map[string]Listing{"running": running, "file": file} {
		var table, lines strings.Builder
		if err := errors.Join(Text(&table, l), JSON(&lines, l)); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".txt", table.String())
		golden(t, name+".json", lines.String())
		for line := range strings.Lines(table.String()) {
			if n := utf8.RuneCountInString(line); n > 120 {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
		for line := range strings.Lines(lines.String()) {
			if !json.Valid([]byte(line)) {
				t.Errorf("%s: no JSON: %s", name, line)
			}
		}
	}
}

// golden compares with a file of testdata, or writes it if UPDATE_GOLDEN is set.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// For a VM without probes, the listing shows the stand-in functions and their differences.
func TestStandIns(t *testing.T) {
	site := func(function string) usdt.Site { return usdt.Site{Offset: 0x2000, Function: function} }
	image := vm.Image{
		Release: 25, Build: dtrace.Build{ID: "ab", Package: "Debian 99, erlang-base 1, amd64"},
		Probes: []usdt.Probe{
			{Provider: dtrace.Provider, Name: "process__exit", Sites: []usdt.Site{site("one"), site("two"), site("one")}},
			{Provider: dtrace.Provider, Name: "process__in", Sites: []usdt.Site{site("erts_schedule")}},
		},
	}
	l := Listing{Exe: "beam.smp", Release: 25, Build: image.Build, Probes: List(image.Probes, Options{Release: 25, Image: image}), Unseen: map[string]string{"file-io": "one does not tell the argument mfa", "hop": "for another reason"}}
	var text, lines strings.Builder
	if err := errors.Join(Text(&text, l), JSON(&lines, l)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"process-exit *  ", "\n0 probes at 0 sites", "Its build is that of Debian 99, erlang-base 1, amd64",
		"process-exit  stand-in one, two\n", "process-in    stand-in erts_schedule\n", "process-exit: It does not report the reason.",
		"\nnot at all: no function of the VM is known to report it:\n  ", "bif-entry",
		"without process-spawn\n", "without message-send, message-queued, message-receive\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	l.ByCode = true
	text.Reset()
	if err := Text(&text, l); err != nil || !strings.Contains(text.String(), "It has the same code as Debian 99, erlang-base 1, amd64") {
		t.Errorf("by its code: error %v\n%s", err, text.String())
	}
	for _, want := range []string{
		`"seen":{"by":"stand-in","functions":["one","two"],"why":"","differs":"It does not report the reason."}`,
		`"seen":{"by":"","functions":[],"why":"no function of the VM is known to report it","differs":""}`,
	} {
		if !strings.Contains(lines.String(), want) {
			t.Errorf("no %s", want)
		}
	}
}

// For a VM without probes whose build is not known, the listing has every event, and the reason why
// most are not seen once. Spans are seen in the VM's memory if it records them.
func TestUnknownBuild(t *testing.T) {
	const why = "no probes, and the build ab is not a known one"
	for _, recording := range [][]int{{42}, nil} {
		l := Listing{Exe: "beam.smp", Release: 29, PIDs: []int{42}, NoProbes: why, Recording: recording,
			Sights: map[string]seen.Sight{"os-wait": seen.By(seen.Kernel), "gc": seen.Not(why)},
			Probes: List(nil, Options{Release: 29, NoProbes: why})}
		var text, lines strings.Builder
		if err := errors.Join(Text(&text, l), JSON(&lines, l)); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(text.String(), why); n != 1 {
			t.Errorf("the reason is there %d times:\n%s", n, text.String())
		}
		for _, p := range dtrace.Catalogue() {
			if !strings.Contains(text.String(), p.DTraceName()) {
				t.Errorf("no %s in\n%s", p.DTraceName(), text.String())
			}
		}
		spans, ofText := `"pids":[42],"seen":{"by":"ring"`, "\nspan-start  ring\nspan-end    ring\n"
		if recording == nil {
			spans, ofText = `"pids":[],"seen":{"by":"","functions":[],"why":"the VM has recorded no spans yet`, ":\n  span-start, span-end\n"
		}
		if !strings.Contains(text.String(), ofText) || strings.Contains(text.String(), "PROBE") {
			t.Errorf("no %q in\n%s", ofText, text.String())
		}
		if strings.Count(lines.String(), spans) != 2 || !strings.Contains(lines.String(), `"seen":{"by":"","functions":[],"why":"`+why) {
			t.Errorf("no %s, or no reason in\n%s", spans, lines.String())
		}
		for _, want := range []string{`"seen":{"by":["kernel"]}}`, `"seen":{"by":[],"why":"` + why + `"}}`, `"seen":null}`} {
			if !strings.Contains(lines.String(), want) {
				t.Errorf("no %s in\n%s", want, lines.String())
			}
		}
		for line := range strings.Lines(text.String()) {
			if n := utf8.RuneCountInString(line); n > 120 {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	}
}
