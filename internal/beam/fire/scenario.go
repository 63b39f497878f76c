package fire

import (
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/beam/vm"
)

// times is the number of repetitions in a scenario, unless they take long.
const times = 100

// some is the number of repetitions that involve another thread or process of the operating system,
// and few that of slow ones.
const some, few = 20, 5

// A scenario is a task for the VM under test.
type scenario struct {
	name  string // of the scenario in vm_events.erl
	times int    // number of repetitions
	peer  bool   // whether it needs another node
	makes []expectation
}

// An expectation is how often a probe must fire in a scenario.
type expectation struct {
	probe string
	times uint64
	exact bool // times is exact, and not a minimum
}

func exactly(times uint64, probes ...string) []expectation { return expect(times, true, probes) }

func atLeast(times uint64, probes ...string) []expectation { return expect(times, false, probes) }

// silent returns expectations that probes do not fire.
func silent(probes ...string) []expectation { return expect(0, true, probes) }

func expect(times uint64, exact bool, probes []string) []expectation {
	var out []expectation
	for _, p := range probes {
		out = append(out, expectation{probe: p, times: times, exact: exact})
	}
	return out
}

func all(lists ...[]expectation) []expectation {
	var out []expectation
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

// met reports whether probes fired as often as they should.
func (s scenario) met(hits map[string]uint64) bool {
	for _, want := range s.makes {
		if !want.check(hits).OK() {
			return false
		}
	}
	return true
}

// check compares an expectation with the counts. For a family, it uses the worst member.
func (want expectation) check(hits map[string]uint64) Check {
	worst := Check{Want: want.times, Exact: want.exact, Got: hits[want.probe]}
	if want.probe != dtrace.UserTrace {
		return worst
	}
	first := true
	for name, n := range hits {
		if _, member := dtrace.UserTraceNumber(name); !member {
			continue
		}
		c := worst
		c.Got = n
		if first || worst.OK() && (!c.OK() || c.Got < worst.Got) {
			worst, first = c, false
		}
	}
	return worst
}

// starting is the scenario of starting a VM, before other scenarios can run. It loads the built-in
// drivers. Other drivers rarely have the init callback that driver__init reports.
func starting() scenario {
	return scenario{name: "start", times: 1, makes: atLeast(1, "driver__init")}
}

// scenarios returns the tasks for a VM of a flavour and a release of Erlang/OTP, and the probes
// that they must fire.
func scenarios(flavour vm.Flavour, release int) []scenario {
	const (
		minorStart, minorEnd = "gc_minor__start", "gc_minor__end"
		majorStart, majorEnd = "gc_major__start", "gc_major__end"
		sent, received       = "message__send", "message__receive"
		queued, toAlias      = "message__queued", "message__send__alias"
	)
	silentInJIT := silent
	if flavour == vm.Interpreter { // an interpreter reports all kinds of schedulers and NIFs
		silentInJIT = func(...string) []expectation { return nil }
	}
	// OTP 28 introduced erlang:hibernate/0 and priority messages.
	serverHibernates, prioritized := exactly(times, "process__hibernate"), []scenario(nil)
	if release >= 28 {
		serverHibernates = silent("process__hibernate")
		prioritized = []scenario{
			{name: "priority_messages", times: times, makes: exactly(times, sent, toAlias)}, // the latter there, the former back
		}
	}
	return append(prioritized, []scenario{
		{name: "messages", times: times, makes: all(exactly(2*times, sent, queued, received), atLeast(times, "process__ready"))},
		{name: "messages_by_name", times: times, makes: exactly(2*times, sent, queued, received)},
		{name: "gen_server_calls", times: times, makes: all(exactly(times, sent, toAlias), exactly(2*times, queued, received))},
		{name: "timers", times: times, makes: all(silent(sent), exactly(times, queued, received))},
		{name: "port_messages", times: some, makes: all(silent(sent), exactly(some, queued, received, "port__command", "driver__output", "driver__ready_input"))},

		{name: "minor_gcs", times: times, makes: exactly(times, minorStart, minorEnd)},
		{name: "major_gcs", times: times, makes: all(exactly(times, majorStart, majorEnd), silent(minorStart, minorEnd))},
		{name: "heap_sizes", times: few, makes: atLeast(few, "process__heap_grow", "process__heap_shrink")},

		{name: "processes", times: times, makes: all(exactly(times, "process__spawn", "process__exit"), silent("process__exit_signal"))},
		{name: "exit_signals", times: times, makes: all(exactly(times, "process__exit_signal", "process__exit"), silent("process__exit_signal__remote"))},
		{name: "hibernations", times: times, makes: exactly(times, "process__hibernate")},
		{name: "server_hibernations", times: times, makes: serverHibernates},
		{name: "monitors", times: times, makes: exactly(times, "process__monitor", "process__demonitor")},
		{name: "suspensions", times: times, makes: exactly(times, "process__suspend__by", "process__resume__by", "process__resume")},
		{name: "yields", times: times, makes: all(silentInJIT("process__scheduled"), atLeast(times, "process__unscheduled", "process__in", "process__out"))},
		{name: "dirty_nifs", times: some, makes: all(exactly(some, "nif__entry", "nif__return"), atLeast(some, "process__scheduled"))},
		{name: "clean_nifs", times: times, makes: silentInJIT("nif__entry", "nif__return")},

		{name: "applies", times: times, makes: atLeast(times, "global__function__entry")},
		{name: "applied_funs", times: times, makes: atLeast(times, "local__function__entry")},
		{name: "copies", times: times, makes: exactly(times, "copy__struct")},
		{name: "copies_to_processes", times: times, makes: exactly(times, "copy__object")},

		{name: "sockets", times: times, makes: exactly(times, "port__open", "port__exit", "driver__start", "driver__stop", "driver__stop_select")},
		{name: "socket_controls", times: times, makes: exactly(times, "port__control", "driver__control")},
		{name: "port_owners", times: times, makes: exactly(times, "port__connect")},
		{name: "port_commands", times: some, makes: exactly(some, "port__command")},
		{name: "port_floods", times: few, makes: all(atLeast(few, "port__busy", "port__not_busy", "driver__outputv", "driver__ready_output"), exactly(few, "driver__flush"))},
		{name: "datagrams", times: times, makes: exactly(times, "driver__output")},
		{name: "accept_timeouts", times: few, makes: exactly(few, "driver__timeout")},
		{name: "acceptors", times: few, makes: exactly(few, "driver__process_exit")},
		{name: "drivers", times: few, makes: exactly(few, "driver__finish")},
		{name: "standard_errors", times: few, makes: exactly(few, "driver__ready_async")},

		{name: "remote_messages", times: times, peer: true, makes: all(exactly(2*times+1, sent, "message__send__remote"), exactly(1, received), atLeast(1, "dist__outputv"))},
		{name: "remote_links", times: times, peer: true, makes: exactly(times, "process__exit_signal__remote")},
		{name: "connections", times: few, peer: true, makes: exactly(2*few, "dist__monitor")},
		{name: "remote_floods", times: few, peer: true, makes: atLeast(1, "dist__port_busy", "dist__port_not_busy", "process__suspend", "processes__resume")},

		{name: "user_traces", times: 1, makes: exactly(1, dtrace.UserTrace)},
		{name: "user_traces_i4s4", times: times, makes: exactly(times, "user_trace__i4s4")},
		{name: "user_traces_s1", times: times, makes: exactly(times, "user_trace__s1")},
	}...)
}

// unmade returns why no scenario makes a probe fire, by the probe's name. These probes can fire
// with other drivers.
func unmade() map[string]string {
	return map[string]string{
		"dist__output": "no driver of Erlang/OTP that connects nodes lacks outputv",
		"driver__call": "no driver of Erlang/OTP is for erlang:port_call",
	}
}
