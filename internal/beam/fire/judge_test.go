package fire

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/beam/vm"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// one returns the result of a scenario that makes a probe fire.
func one(name string, makes []expectation, hits map[string]uint64) result {
	return result{scenario: scenario{name: name, times: 100, makes: makes}, hits: hits}
}

// seen returns evidence about an executable with these probes. The totals are the sums over the
// scenarios.
func seen(present []string, results ...result) evidence {
	e := evidence{
		exe: "/opt/otp/bin/beam.smp", version: "25.2.3", release: 25, flavour: vm.JIT,
		present: make(map[string]bool), results: results, totals: make(map[string]uint64),
	}
	for _, name := range present {
		e.present[name] = true
	}
	for _, r := range results {
		for name, n := range r.hits {
			e.totals[name] += n
		}
	}
	return e
}

// harmless marks entries of a catalogue as harmless on OTP 25, except those with a hazard.
func harmless(probes ...dtrace.Probe) []dtrace.Probe {
	for i := range probes {
		if probes[i].Hazard == "" {
			probes[i].Harmless = []int{25}
		}
	}
	return probes
}

func TestJudge(t *testing.T) {
	hits := func(n uint64) map[string]uint64 { return map[string]uint64{"p": n} }
	hundred := exactly(100, "p")
	broken := result{scenario: scenario{name: "s", makes: hundred}, err: errors.New("no file")}
	for _, test := range []struct {
		name  string
		probe dtrace.Probe
		e     evidence
		found Found
		wrong string
	}{
		{"as expected", dtrace.Probe{State: dtrace.Alive}, seen([]string{"p"}, one("s", hundred, hits(100))), Fired, ""},
		{"too seldom", dtrace.Probe{State: dtrace.Alive}, seen([]string{"p"}, one("s", hundred, hits(99))), Fired, "fired 99 times in s, and not exactly 100"},
		{"too often", dtrace.Probe{State: dtrace.Alive}, seen([]string{"p"}, one("s", hundred, hits(200))), Fired, "fired 200 times in s, and not exactly 100"},
		{"more often than the minimum", dtrace.Probe{State: dtrace.Alive}, seen([]string{"p"}, one("s", atLeast(1, "p"), hits(7))), Fired, ""},
		{"below the minimum", dtrace.Probe{State: dtrace.Alive}, seen([]string{"p"}, one("s", atLeast(8, "p"), hits(7))), Fired, "fired 7 times in s, and not at least 8"},
		{"silent though alive", dtrace.Probe{State: dtrace.Alive}, seen([]string{"p"}, one("s", hundred, hits(0))), Silent, "did not fire"},
		{"silent though dirty", dtrace.Probe{State: dtrace.DirtyOnly}, seen([]string{"p"}, one("s", hundred, hits(0))), Silent, "did not fire"},
		{"dirty, on normal schedulers", dtrace.Probe{State: dtrace.DirtyOnly},
			seen([]string{"p"}, one("s", hundred, hits(100)), one("q", silent("p"), hits(3))), Fired, "fired 3 times in q, and not exactly 0"},
		{"fires only outside", dtrace.Probe{State: dtrace.Alive},
			evidence{release: 25, present: map[string]bool{"p": true}, results: []result{one("s", hundred, hits(0))}, totals: hits(5)}, Fired, "fired 0 times in s, and not exactly 100"},
		{"dead", dtrace.Probe{State: dtrace.Dead}, seen([]string{"p"}, one("s", hundred, hits(0))), Silent, ""},
		{"not dead", dtrace.Probe{State: dtrace.Dead}, seen([]string{"p"}, one("s", hundred, hits(1))), Fired, "fired"},
		{"absent", dtrace.Probe{State: dtrace.Absent}, seen(nil), NotThere, ""},
		{"not absent", dtrace.Probe{State: dtrace.Absent}, seen([]string{"p"}), Unmade, "is in the executable"},
		{"gone", dtrace.Probe{State: dtrace.Alive}, seen(nil, one("s", hundred, nil)), NotThere, "is not in the executable"},
		{"gone, dead before", dtrace.Probe{State: dtrace.Dead}, seen(nil), NotThere, "is not in the executable"},
		{"gone, never known", dtrace.Probe{}, seen(nil), NotThere, ""},
		{"settled alive", dtrace.Probe{}, seen([]string{"p"}, one("s", hundred, hits(100))), Fired, ""},
		{"settled dead", dtrace.Probe{}, seen([]string{"p"}, one("s", hundred, hits(0))), Silent, ""},
		{"no scenario", dtrace.Probe{State: dtrace.Alive}, seen([]string{"p"}, one("s", silent("p"), hits(0))), Unmade, ""},
		{"no scenario, but it fires", dtrace.Probe{State: dtrace.Alive}, evidence{release: 25, present: map[string]bool{"p": true}, totals: hits(1)}, Fired, ""},
		{"failed", dtrace.Probe{State: dtrace.Alive}, seen([]string{"p"}, broken), Untried, ""},
		{"one scenario failed, another did not", dtrace.Probe{State: dtrace.Alive}, seen([]string{"p"}, broken, one("r", hundred, hits(0))), Silent, "did not fire"},
		{"dangerous", dtrace.Probe{State: dtrace.Alive, Hazard: "hangs"}, seen([]string{"p"}, one("s", hundred, nil)), Dangerous, ""},
		{"dangerous and gone", dtrace.Probe{State: dtrace.Alive, Hazard: "hangs"}, seen(nil), NotThere, "is not in the executable"},
		{"harmless elsewhere", dtrace.Probe{State: dtrace.Alive}, evidence{release: 27, present: map[string]bool{"p": true}}, Dangerous, ""},
		{"release not known", dtrace.Probe{State: dtrace.Alive}, evidence{present: map[string]bool{"p": true}}, Dangerous, ""},
		{"stood in for", dtrace.Probe{State: dtrace.Alive, Function: &dtrace.Function{Symbol: "f"}}, seen(nil), NotThere, "is not in the executable"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.probe.Name = "p"
			r := judge(test.e, harmless(test.probe))
			if len(r.Probes) != 1 {
				t.Fatalf("%d probes", len(r.Probes))
			}
			p := r.Probes[0]
			if p.Found != test.found || p.Wrong != test.wrong {
				t.Errorf("%s, wrong: %q; want %s, %q", p.Found, p.Wrong, test.found, test.wrong)
			}
			settled := test.probe.State == dtrace.StateUnknown && test.found <= Silent
			if got := len(r.Settled()) == 1; got != settled {
				t.Errorf("settled: %v", got)
			}
		})
	}
}

// The catalogue does not describe interpreters, except which probes are absent.
func TestInterpreter(t *testing.T) {
	e := seen([]string{"p"}, one("s", exactly(1, "p"), map[string]uint64{"p": 1}))
	e.flavour = vm.Interpreter
	for _, state := range []dtrace.State{dtrace.Alive, dtrace.DirtyOnly, dtrace.Dead, dtrace.Absent} {
		p := judge(e, harmless(dtrace.Probe{Name: "p", State: state})).Probes[0]
		if p.State != dtrace.StateUnknown || p.Wrong != "" {
			t.Errorf("%s: %s, wrong: %q", state, p.State, p.Wrong)
		}
	}
}

func TestFamily(t *testing.T) {
	family := dtrace.Probe{Name: dtrace.UserTrace, Family: 3, State: dtrace.Alive}
	members := []string{"user_trace__n0", "user_trace__n1", "user_trace__n2"}
	each := exactly(1, dtrace.UserTrace)
	for _, test := range []struct {
		name    string
		present []string
		hits    map[string]uint64
		want    string
	}{
		{"all", members, map[string]uint64{members[0]: 1, members[1]: 1, members[2]: 1, "trace": 0}, ""},
		{"one too often", members, map[string]uint64{members[0]: 1, members[1]: 2, members[2]: 1}, "fired 2 times in s, and not exactly 1"},
		{"one silent", members, map[string]uint64{members[0]: 1, members[1]: 1, members[2]: 0}, "fired 0 times in s, and not exactly 1"},
		{"one gone", members[:2], map[string]uint64{members[0]: 1, members[1]: 1}, "has only 2 of 3 members in the executable"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := judge(seen(test.present, one("s", each, test.hits)), harmless(family)).Probes[0]
			if p.Wrong != test.want || p.Members != len(test.present) {
				t.Errorf("%d members, wrong: %q, want %q", p.Members, p.Wrong, test.want)
			}
		})
	}
}

// A scenario is met if and only if all of its checks are OK.
func TestMet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s scenario
		hits := make(map[string]uint64)
		want := true
		for i := range rapid.IntRange(0, 4).Draw(t, "expectations") {
			n := rapid.Uint64Range(0, 3).Draw(t, "wanted")
			got := rapid.Uint64Range(0, 3).Draw(t, "got")
			exact := rapid.Bool().Draw(t, "exact")
			name := fmt.Sprint("p", i)
			s.makes = append(s.makes, expectation{probe: name, times: n, exact: exact})
			hits[name] = got
			want = want && (got == n || !exact && got > n)
		}
		if got := s.met(hits); got != want {
			t.Fatalf("met: %v", got)
		}
	})
}

// mixed returns a report with every kind of result.
func mixed() Report {
	family := dtrace.Probe{Name: dtrace.UserTrace, Family: 2, State: dtrace.Alive}
	catalogue := []dtrace.Probe{
		{Name: "message__send", State: dtrace.Alive},
		{Name: "message__queued", State: dtrace.Alive},
		{Name: "process__scheduled", State: dtrace.DirtyOnly},
		{Name: "process__in", State: dtrace.Alive, Function: &dtrace.Function{Symbol: "erts_schedule", Return: true}},
		{Name: "process__port_unblocked", State: dtrace.Alive, Hazard: "it hangs"},
		{Name: "driver__call"}, {Name: "driver__flush"}, {Name: "driver__timeout"},
		{Name: "bif__entry", State: dtrace.Absent},
		{Name: "port__open", State: dtrace.Alive},
		family,
	}
	e := seen([]string{
		"message__send", "message__queued", "process__scheduled", "process__in", "process__port_unblocked",
		"driver__call", "driver__flush", "driver__timeout", "port__open", "brand__new", "user_trace__n0", "user_trace__n1",
	},
		one("messages", exactly(200, "message__send", "message__queued"), map[string]uint64{"message__send": 200, "message__queued": 199}),
		one("timers", silent("message__send"), map[string]uint64{"message__send": 0}),
		one("yields", all(silent("process__scheduled"), atLeast(100, "process__in")), map[string]uint64{"process__in": 1}),
		one("dirty_nifs", atLeast(100, "process__scheduled"), map[string]uint64{"process__scheduled": 1234}),
		one("port_floods", exactly(5, "driver__flush"), map[string]uint64{"driver__flush": 5}),
		one("accept_timeouts", exactly(5, "driver__timeout"), map[string]uint64{"driver__timeout": 0}),
		one("user_traces", exactly(1, dtrace.UserTrace), map[string]uint64{"user_trace__n0": 1, "user_trace__n1": 1}),
		result{scenario: scenario{name: "sockets", makes: exactly(100, "port__open")}, err: errors.New("it took more than 30s")},
	)
	return judge(e, harmless(catalogue...))
}

// agreeing returns a report without errors.
func agreeing() Report {
	return judge(seen([]string{"message__send"},
		one("messages", exactly(200, "message__send"), map[string]uint64{"message__send": 200}),
	), harmless(dtrace.Probe{Name: "message__send", State: dtrace.Alive}))
}

func TestGolden(t *testing.T) {
	for name, report := range map[string]Report{"mixed": mixed(), "agreeing": agreeing()} {
		for format, write := range map[string]func(io.Writer, Report) error{"txt": Text, "json": JSON} {
			t.Run(name+"."+format, func(t *testing.T) {
				var out bytes.Buffer
				if err := write(&out, report); err != nil {
					t.Fatal(err)
				}
				golden(t, filepath.Join("testdata", name+"."+format), out.String())
			})
		}
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestVerdict(t *testing.T) {
	failed := agreeing()
	failed.Failed = []Failure{{"sockets", os.ErrPermission}}
	for _, test := range []struct {
		report Report
		want   string
	}{
		{agreeing(), ""},
		{failed, "the test is not complete: sockets: permission denied: please report it, with Erlang/OTP's version, 25.2.3"},
		{mixed(), "the catalogue and this VM of Erlang/OTP 25.2.3 disagree about 3 probes: please report it, with the output of --json"},
	} {
		got := ""
		if err := test.report.Verdict(); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
	}
}

// A scenario fires each probe of the catalogue that can fire, or unmade gives the reason. Scenarios
// mention only probes of the catalogue.
func TestScenariosCover(t *testing.T) {
	fired := make(map[string]bool)
	for _, s := range append(scenarios(vm.JIT, 29), starting()) {
		for _, want := range s.makes {
			fired[want.probe] = fired[want.probe] || want.times > 0
		}
	}
	without := unmade()
	for _, p := range dtrace.Catalogue() {
		_, excused := without[p.Name]
		needed := p.State != dtrace.Absent && len(p.Harmless) > 0
		if needed == (fired[p.Name] == excused) {
			t.Errorf("%s: needed %v, fired by a scenario %v, reason given %v", p.Name, needed, fired[p.Name], excused)
		}
		delete(fired, p.Name)
		delete(without, p.Name)
	}
	if len(fired) > 0 || len(without) > 0 {
		t.Errorf("not in the catalogue: %v %v", fired, without)
	}
}

// The documentation mentions every scenario.
func TestScenariosDocumented(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "reference", "doctor.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range append(scenarios(vm.JIT, 29), starting()) {
		if !strings.Contains(string(doc), "`"+s.name+"`") {
			t.Errorf("docs/reference/doctor.md does not mention the scenario %s", s.name)
		}
	}
}
