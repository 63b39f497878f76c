package dtrace

import (
	"debug/elf"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/usdt"
)

func TestLookup(t *testing.T) {
	for _, test := range []struct {
		name string
		want string // "": not there
		args []string
	}{
		{"process__spawn", "process__spawn", []string{"pid:pid", "mfa:mfa"}},
		{"process-spawn", "process__spawn", []string{"pid:pid", "mfa:mfa"}},
		{"process-exit_signal-remote", "process__exit_signal__remote", []string{"sender:pid", "node:node", "receiver:pid", "reason:reason", "label:int", "prev:int", "cur:int"}},
		{"gc_minor__end", "gc_minor__end", []string{"pid:pid", "reclaimed:words"}},
		{"driver-control", "driver__control", []string{"pid:pid", "port:port", "name:text", "command:int", "bytes:bytes"}},
		{"user_trace-n0", "user_trace__n0", userArgs()},
		{"user_trace__n950", "user_trace__n950", userArgs()},
		{"user_trace__i4s4", "user_trace__i4s4", userArgs()},
		{"user_trace__n", "", nil},
		{"user_trace__n951", "", nil},
		{"user_trace__n-1", "", nil},
		{"user_trace__n01", "", nil},
		{"user_trace__n+1", "", nil},
		{"user_trace__n99999999999999999999", "", nil},
		{"process_spawn", "", nil},
		{"", "", nil},
	} {
		p, ok := Lookup(test.name)
		if ok != (test.want != "") || p.Name != test.want || p.Family != 0 {
			t.Errorf("%q: %q, family %d, %v", test.name, p.Name, p.Family, ok)
		}
		if diff := cmp.Diff(test.args, signature(p)); diff != "" {
			t.Errorf("%q: arguments (-want +got):\n%s", test.name, diff)
		}
	}
}

func userArgs() []string {
	return []string{"pid:pid", "tag:text", "i1:int", "i2:int", "i3:int", "i4:int", "s1:text", "s2:text", "s3:text", "s4:text"}
}

func signature(p Probe) []string {
	var args []string
	for _, a := range p.Args {
		args = append(args, a.Name+":"+a.Type.String())
	}
	return args
}

func TestCatalogue(t *testing.T) {
	seen := make(map[string]bool)
	for _, p := range Catalogue() {
		if seen[p.Name] {
			t.Errorf("%s is listed twice", p.Name)
		}
		seen[p.Name] = true
		if p.Name != Underscored(p.DTraceName()) || strings.Contains(p.DTraceName(), "__") {
			t.Errorf("%s: its other form is %s", p.Name, p.DTraceName())
		}
		if len(p.Args) == 0 || len(p.Args) > usdt.MaxArgs || !strings.HasSuffix(p.Doc, ".") {
			t.Errorf("%s: %d arguments, doc %q", p.Name, len(p.Args), p.Doc)
		}
		names := make(map[string]bool)
		for _, a := range p.Args {
			if a.Name == "" || names[a.Name] {
				t.Errorf("%s: argument %q", p.Name, a.Name)
			}
			names[a.Name] = true
		}
		if p.State == Absent && p.Hot != HeatUnknown {
			t.Errorf("%s is absent and %s", p.Name, p.Hot)
		}
		if p.Subject != "" {
			if a, err := p.argument(p.Subject); err != nil || a.Type != PID {
				t.Errorf("%s: subject %q: %s, %v", p.Name, p.Subject, a.Type, err)
			}
		}
		if p.Function != nil && (len(p.Function.Params) != len(p.Args) || p.Function.Return && p.Function.Params[0].Number != 0) {
			t.Errorf("%s: %+v for %d arguments", p.Name, p.Function, len(p.Args))
		}
	}
}

// The subject is the process that acts; Trace is the event's name in erlang:trace/3.
func TestSubjectAndTrace(t *testing.T) {
	for name, want := range map[string][2]string{
		"message-send":           {"sender", "{trace, Pid, send, Msg, To}"},
		"message-queued":         {"receiver", "{trace, Pid, 'receive', Msg}"},
		"message-receive":        {"receiver", ""},
		"gc_major-end":           {"pid", "{trace, Pid, gc_major_end, Info}"},
		"process-spawn":          {"pid", "{trace, Pid, spawned, Parent, MFA}"},
		"process-exit_signal":    {"sender", ""},
		"process-in":             {"pid", "{trace, Pid, in, MFA}"},
		"process-out":            {"pid", "{trace, Pid, out, MFA}"},
		"process-monitor":        {"pid", ""},
		"process-demonitor":      {"pid", ""},
		"nif-entry":              {"pid", "{trace, Pid, call, MFA}"},
		"port-command":           {"pid", "{trace, Port, 'receive', Msg}"},
		"port-busy":              {"", ""},
		"dist-port_busy":         {"pid", ""},
		"dist-port_not_busy":     {"", ""},
		"driver-ready_input":     {"pid", ""},
		"driver-init":            {"", ""},
		"copy-struct":            {"", ""},
		"user_trace-n7":          {"pid", ""},
		"message-send-remote":    {"sender", "{trace, Pid, send, Msg, To}"},
		"process-unscheduled":    {"pid", "{trace, Pid, out, MFA}"},
		"process-port_unblocked": {"pid", ""},
	} {
		p, _ := Lookup(name)
		if got := [2]string{p.Subject, p.Trace}; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestCatalogueIsCopied(t *testing.T) {
	want := Catalogue()
	got := Catalogue()
	for i := range got {
		got[i].Name = ""
		for j := range got[i].Args {
			got[i].Args[j].Name = ""
		}
	}
	if diff := cmp.Diff(want, Catalogue()); diff != "" {
		t.Errorf("changed by a caller (-before +after):\n%s", diff)
	}
}

func TestWords(t *testing.T) {
	for got, want := range map[string]string{
		PID.String():         "pid",
		Bytes.String():       "bytes",
		Type(99).String():    "99",
		DirtyOnly.String():   "dirty only",
		Absent.String():      "absent",
		VeryHot.String():     "very hot",
		HeatUnknown.String(): "unknown",
		Words.Unit():         "words",
		Int.Unit():           "",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if !Reason.IsText() || Int.IsText() {
		t.Error("a reason is text, a number is not")
	}
}

// The catalogue contains every probe of the VM's executable, with the same number of arguments. It
// contains no others except those marked as absent. The functions that stand in for probes can be
// attached to.
func TestRealVM(t *testing.T) {
	path := vmExecutable(t)
	f, err := usdt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	inELF := make(map[string]bool)
	for _, found := range vmProbes(t, f) {
		inELF[found.Name] = true
		p, ok := Lookup(found.Name)
		if !ok || p.Function != nil {
			t.Errorf("%s is not in the catalogue of the provider", found.Name)
			continue
		}
		for _, site := range found.Sites {
			if len(site.Args) != len(p.Args) {
				t.Errorf("%s has %d arguments at %#x, %d in the catalogue", p.Name, len(site.Args), site.Address, len(p.Args))
			}
		}
	}
	for _, p := range Catalogue() {
		if p.Function != nil {
			checkFunction(t, path, f, p)
			continue
		}
		for _, name := range members(p) {
			if inELF[name] == (p.State == Absent) {
				t.Errorf("%s is called %s; in the executable: %v", name, p.State, inELF[name])
			}
		}
	}
}

// checkFunction checks that the executable exports the function of a stand-in. If its entry is
// used, the kernel must emulate the first instruction: one byte that pushes a register.
func checkFunction(t *testing.T, path string, f *usdt.File, p Probe) {
	t.Helper()
	_, offset, err := f.Symbol(p.Function.Symbol)
	if err != nil {
		t.Errorf("%s: %v", p.Name, err)
		return
	}
	if p.Function.Return || f.Machine() != elf.EM_X86_64 {
		return
	}
	text, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	var first [1]byte
	if _, err := text.ReadAt(first[:], int64(offset)); err != nil {
		t.Fatal(err)
	}
	const push = 0x50 // plus the number of the register in the lowest three bits
	if first[0]&^7 != push {
		t.Errorf("%s: %s begins with %#x, which is no push", p.Name, p.Function.Symbol, first[0])
	}
}

// members returns the names of the probes of an entry.
func members(p Probe) []string {
	if p.Family == 0 {
		return []string{p.Name}
	}
	var names []string
	for i := range p.Family {
		names = append(names, p.Name+strconv.Itoa(i))
	}
	return names
}

// vmExecutable returns the executable of the VM with probes that the tests use.
func vmExecutable(t *testing.T) string {
	t.Helper()
	otp, err := erlang.FindOTP(t.Context())
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return otp.Emulator()
}

func vmProbes(t *testing.T, f *usdt.File) []usdt.Probe {
	t.Helper()
	probes, err := f.Probes(Provider)
	if err != nil {
		t.Fatal(err)
	}
	return probes
}
