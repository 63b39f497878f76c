package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/trace"
)

// A suspender is what suspends a process.
type suspender uint8

const (
	bySomething suspender = iota // it is not known
	byPort
	byVM
	byProcess
)

// A suspension says why a process is suspended.
type suspension struct {
	by     suspender
	detail string    // the port, or what the VM does
	who    trace.PID // of byProcess, 0 where it is not known
}

// A hold is that a process asked the VM to suspend another one.
type hold struct {
	by       trace.PID
	released int64 // when it asked the VM to resume it, 0: not yet
}

// What is guessed of suspensions.
const (
	guessHold   = "inferred: another process suspended it, and no event confirms that"
	guessResume = "inferred: beamscope did not see when it was resumed"
)

// suspenders are the functions of the VM that suspend the process that runs, and why. A
// function that is not here is named as it is.
var suspenders = map[string]suspension{
	"finish_loading_1":                                  {by: byVM, detail: "code"},
	"finish_after_on_load_2":                            {by: byVM, detail: "code"},
	"delete_module_1":                                   {by: byVM, detail: "code"},
	"erts_internal_purge_module_2":                      {by: byVM, detail: "code"},
	"erts_literal_area_collector_release_area_switch_0": {by: byVM, detail: "code"},
	"erts_suspend_process_on_pending_purge_lambda":      {by: byVM, detail: "code"},
	"erts_try_seize_code_write_permission":              {by: byVM, detail: "code"},
	"erts_internal_trace_pattern_3":                     {by: byVM, detail: "tracing"},
	"persistent_term_put_2":                             {by: byVM, detail: "persistent terms"},
	"persistent_term_erase_1":                           {by: byVM, detail: "persistent terms"},
	"erts_internal_erase_persistent_terms_0":            {by: byVM, detail: "persistent terms"},
	"try_seize_update_permission":                       {by: byVM, detail: "persistent terms"},
	"suspend_until_thr_prg":                             {by: byVM, detail: "the counters of a table"},
	"erts_flxctr_snapshot":                              {by: byVM, detail: "the counters of a table"},
	"erts_dist_pend_spawn_exit_parent_wait":             {by: byVM, detail: "a process that another node is to start"},
	"erts_internal_create_dist_channel_3":               {by: byVM, detail: "a connection to another node"},
	"erts_dsig_send":                                    {by: byPort, detail: "a connection to another node"},
	"erts_proc_sig_handle_incoming":                     {by: byProcess},
	"erts_proc_sig_handle_pending_suspend":              {by: byProcess},
	"handle_suspend":                                    {by: byProcess},
}

// whySuspended returns what an event that suspends a process tells of the cause.
func whySuspended(e *bpf.Event) suspension {
	if e.Port {
		s := suspension{by: byPort}
		if e.Other != 0 {
			s.detail = fmt.Sprintf("#Port<0.%d>", e.Other)
		}
		return s
	}
	name, _, _ := strings.Cut(e.Text, ".") // the compiler's suffixes, such as .cold
	if s, known := suspenders[name]; known {
		return s
	}
	if name == "" {
		return suspension{}
	}
	return suspension{by: byVM, detail: name}
}

// A suspendable is what is known of the suspensions of a process.
type suspendable struct {
	due     *suspension // that takes effect when it stops to run
	why     *suspension // that holds until it is resumed
	hold    hold
	holders []trace.PID // those that asked for it and not yet for the end of it, once for each time
	before  change      // what it goes back to, where it is suspended
	resumed int64       // when it was resumed while it ran, 0: it was not
	silent  int64       // since when it is watched, if it was given to a scheduler and nothing else was seen of it; 0: not so
}

// suspends takes into account that the process is about to be suspended. If it runs, it
// goes on until it stops. If not, a scheduler does that on its behalf, and no event tells
// that it begins or stops to run.
func (p *process) suspends(e *bpf.Event) {
	p.refute()
	why := whySuspended(e)
	if why.by == byProcess {
		why.who = p.hold.by
	}
	switch p.current().state {
	case running, collects, native:
		p.due = &why
	case exited:
	default:
		p.suspend(change{at: e.Time, why: why}, p.current())
	}
}

// suspend comes into the state of a suspension, from which the process goes back to another
// one.
func (p *process) suspend(c, before change) {
	if before.state != suspended {
		p.before = before
	}
	c.state = suspended
	p.why = &c.why
	p.set(c)
}

// stopsSuspended takes into account that the process has stopped to run, and is suspended;
// what it goes back to is waiting, or waiting to run.
func (p *process) stopsSuspended(at int64, before state) {
	c := change{at: at}
	switch {
	case p.due != nil:
		c.why = *p.due
	case p.why != nil: // all the time: it ran for the VM
		c.why = *p.why
	case p.hold.by != 0 && p.hold.released == 0:
		c.why = suspension{by: byProcess, who: p.hold.by}
	}
	resumed := p.resumed != 0 && at-p.resumed <= near
	p.due, p.resumed = nil, 0
	p.suspend(c, change{at: at, state: before})
	if resumed {
		p.goBack(at)
	}
}

// canGoOn takes into account that the process, which is suspended, could go on if it were
// not.
func (p *process) canGoOn(at int64) {
	if p.before.state == waits {
		p.before = change{at: at, state: ready}
	}
}

// goBack goes back to what the process did before it was suspended. If a message has come
// meanwhile it is ready.
func (p *process) goBack(at int64) {
	c := p.before
	c.at = max(at, c.at)
	p.why, p.hold, p.holders = nil, hold{}, nil
	p.set(c)
	if c.state == waits {
		p.glances = append(p.glances, p.current().at) // it goes on to wait for the same
	}
}

// holds takes into account that a process asked the VM to suspend this one. If it does not
// run, that is done at once as a rule, and shows when it is resumed. Otherwise, or where it
// is busy with signals, an event tells later that it is suspended.
func (p *process) holds(e *bpf.Event) {
	p.hold = hold{by: trace.PID(e.Other)}
	p.holders = append(p.holders, p.hold.by)
	if now := p.current(); now.state == waits || now.state == ready {
		p.suspend(change{at: e.Time, why: suspension{by: byProcess, who: p.hold.by}, guess: guessHold}, now)
	}
}

// refute says that a process that was asked to be suspended was not, at once.
func (p *process) refute() {
	n := len(p.changes)
	if n == 0 || p.changes[n-1].guess != guessHold {
		return
	}
	p.changes = p.changes[:n-1]
	p.why = nil
	if n == 1 || p.before != p.changes[n-2] {
		p.set(p.before)
	}
}

// releases takes into account that a process asked the VM to resume this one.
func (p *process) releases(e *bpf.Event) {
	p.hold = hold{by: trace.PID(e.Other), released: e.Time}
	if i := slices.Index(p.holders, p.hold.by); i >= 0 {
		p.holders = slices.Delete(p.holders, i, i+1)
	}
}

// rest returns what the process is suspended for when one of several suspensions is over.
func (p *process) rest() suspension {
	if len(p.holders) == 0 {
		return suspension{}
	}
	s := suspension{by: byProcess, who: p.holders[0]}
	if slices.ContainsFunc(p.holders, func(by trace.PID) bool { return by != s.who }) {
		s.who = 0
	}
	return s
}

// resumes takes into account that the process is resumed. Where another process asked for
// that, it could go on since, but for a scheduler to tell it.
func (p *process) resumes(e *bpf.Event) {
	now := p.current()
	switch {
	case p.unsaid && now.state == unknown:
		p.suspendedBefore(e)
		now = p.current()
	case now.state == running || now.state == collects || now.state == native:
		p.resumed = e.Time // it is about to stop
		return
	case p.silent != 0:
		p.changes = p.changes[:after(p.changes, p.silent, changedAt)+1]
		p.suspendedBefore(e)
		p.silent = 0
		now = p.current()
	case now.state == waits || now.state == ready:
		p.changes[len(p.changes)-1] = change{at: now.at, detail: whySuspendedUnseen}
		p.set(change{at: e.Time, state: now.state})
		return
	case now.state != suspended:
		return
	}
	p.changes[len(p.changes)-1].guess = ""
	if e.Other > 1 { // the rest of several suspensions
		p.suspend(change{at: e.Time, why: p.rest()}, now)
		return
	}
	at := e.Time
	if now.why.by == byProcess && p.hold.released > now.at {
		at = p.hold.released
	}
	p.goBack(at)
}

// suspendedBefore takes into account that the process was suspended when it began to be
// watched, and all the time since.
func (p *process) suspendedBefore(e *bpf.Event) {
	c := change{at: p.current().at}
	if p.hold.by != 0 {
		c.why = suspension{by: byProcess, who: p.hold.by}
	}
	before := change{at: c.at, state: waits}
	came := p.arrived[after(p.arrived, c.at-near, sentAt):]
	if i := slices.IndexFunc(came, func(s *send) bool { return !s.alias }); i >= 0 {
		before = change{at: came[i].at, state: ready}
	}
	p.changes = p.changes[:len(p.changes)-1]
	p.suspend(c, before)
	p.unsaid = false
}

// runsSuspended takes into account that the process begins to run, though it was not seen to
// be resumed.
func (p *process) runsSuspended() {
	p.refute()
	if n := len(p.changes); n > 0 && p.changes[n-1].state == suspended && p.changes[n-1].guess == "" {
		p.changes[n-1].guess = guessResume
	}
}

// tell says of a span what the process was suspended for.
func (s suspension) tell(n *node) {
	n.Detail = s.detail
	switch s.by {
	case byPort:
		n.Kind = trace.Port
	case byVM:
		n.Kind = trace.VMWait
	case byProcess:
		n.Kind, n.Other = trace.Suspended, s.who
	default:
		n.Kind, n.Reason = trace.Unexplained, reasonSuspended
	}
}

// reasonSuspended is why a suspension is not explained.
const reasonSuspended = "suspended; no event tells why"

// held reports whether the process is suspended by another one: it is not busy.
func (c change) held() bool { return c.state == suspended && c.why.by == byProcess }

// held reports whether a process is suspended by another one at a time.
func (w *walk) held(p *process, at int64) bool {
	i := after(p.changes, at+1, changedAt)
	return i > 0 && p.changes[i-1].held()
}

// suspendedUntil returns until when a process is suspended that is from a time on, and the
// time itself where it is not: what comes meanwhile ends its wait.
func (p *process) suspendedUntil(at int64) int64 {
	for i := after(p.changes, at, changedAt); i < len(p.changes) && p.changes[i].at == at && p.changes[i].state == suspended; i++ {
		if i+1 == len(p.changes) {
			return forever
		}
		at = p.changes[i+1].at
	}
	return at
}
