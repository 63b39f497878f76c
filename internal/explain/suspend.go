package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/explain/trace"
)

// A suspender is the kind of cause of a suspension.
type suspender uint8

const (
	bySomething suspender = iota // unknown
	byPort
	byVM
	byProcess
)

// A suspension is the cause of a process's suspension.
type suspension struct {
	by     suspender
	detail string    // the port, or the activity of the VM
	who    trace.PID // for byProcess; 0 if unknown
}

// A hold records that a process asked the VM to suspend another one.
type hold struct {
	by       trace.PID
	released int64 // time when it asked the VM to resume it; 0: not yet
}

// A release records that a process asked the VM to end its last suspension of another one. The VM
// does so later, when a scheduler turns to the suspended process.
type release struct {
	by   trace.PID
	at   int64
	rest suspension // the other suspensions at that time
}

// Reasons for guesses about suspensions.
const (
	guessHold   = "inferred: another process suspended it, and no event confirms that"
	guessResume = "inferred: beamscope did not see when it was resumed"
)

// suspenders has the functions of the VM that suspend the running process, with the cause, in OTP
// 25, 27 and 29. Other functions are shown by their names.
var suspenders = map[string]suspension{
	"finish_loading_1":                                  {by: byVM, detail: "code"},
	"finish_after_on_load_2":                            {by: byVM, detail: "code"},
	"delete_module_1":                                   {by: byVM, detail: "code"},
	"erts_internal_purge_module_2":                      {by: byVM, detail: "code"},
	"erts_literal_area_collector_release_area_switch_0": {by: byVM, detail: "code"},
	"erts_suspend_process_on_pending_purge_lambda":      {by: byVM, detail: "code"},
	"erts_try_seize_code_write_permission":              {by: byVM, detail: "code"},
	"erts_try_seize_code_load_permission":               {by: byVM, detail: "code"},
	"erts_try_seize_code_stage_permission":              {by: byVM, detail: "code"},
	"erts_try_seize_code_mod_permission":                {by: byVM, detail: "code"},
	"erts_internal_trace_pattern_3":                     {by: byVM, detail: "tracing"},
	"trace_pattern":                                     {by: byVM, detail: "tracing"},
	"trace_info":                                        {by: byVM, detail: "tracing"},
	"erts_internal_trace_session_destroy_1":             {by: byVM, detail: "tracing"},
	"persistent_term_put_2":                             {by: byVM, detail: "persistent terms"},
	"put_common":                                        {by: byVM, detail: "persistent terms"},
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

// whySuspended returns the cause of a suspension according to its event.
func whySuspended(e *bpf.Event) suspension {
	if e.Port {
		s := suspension{by: byPort}
		if e.Other != 0 {
			s.detail = fmt.Sprintf("#Port<0.%d>", e.Other)
		}
		return s
	}
	name, _, _ := strings.Cut(e.Text, ".") // suffixes of the compiler, such as .cold
	if s, known := suspenders[name]; known {
		return s
	}
	if name == "" {
		return suspension{}
	}
	return suspension{by: byVM, detail: name}
}

// A suspendable contains the suspensions of a process.
type suspendable struct {
	due     *suspension // takes effect when it stops running
	why     *suspension // holds until it is resumed
	hold    hold
	holders []trace.PID // processes that have suspended it and not yet asked to resume it, once for each suspension
	left    []release   // the last one of each process since it was suspended
	before  change      // state to return to, if it is suspended
	resumed int64       // time when it was resumed while it ran; 0: it was not
	silent  int64       // beginning of its watch, if its only event so far is that it was given to a scheduler; otherwise 0
}

// suspends records that the process is about to be suspended. If it runs, it continues until it
// stops. Otherwise a scheduler suspends it on its behalf, and no event reports that it begins or
// stops running.
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

// suspend enters the state of a suspension. The process returns to another state afterwards.
func (p *process) suspend(c, before change) {
	if before.state != suspended {
		p.before = before
	}
	c.state = suspended
	p.why = &c.why
	p.set(c)
}

// stopsSuspended records that the process has stopped running and is suspended. Afterwards it
// returns to waiting or to being ready.
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

// canGoOn records that the suspended process would be ready if it were resumed.
func (p *process) canGoOn(at int64) {
	if p.before.state == waits {
		p.before = change{at: at, state: ready}
	}
}

// goBack returns to the state before the suspension. If a message has come meanwhile, the process
// is ready.
func (p *process) goBack(at int64) {
	c := p.before
	c.at = max(at, c.at)
	p.why, p.hold, p.holders, p.left = nil, hold{}, nil, nil
	p.set(c)
	if c.state == waits {
		p.glances = append(p.glances, p.current().at) // it is still in the same wait
	}
}

// holds records that a process asked the VM to suspend this one. If this process does not run, the
// VM usually suspends it at once, which becomes visible when it is resumed. If it runs or is busy
// with signals, a later event reports the suspension.
func (p *process) holds(e *bpf.Event) {
	p.hold = hold{by: trace.PID(e.Other)}
	p.holders = append(p.holders, p.hold.by)
	if now := p.current(); now.state == waits || now.state == ready {
		p.suspend(change{at: e.Time, why: suspension{by: byProcess, who: p.hold.by}, guess: guessHold}, now)
	}
}

// refute records that the process was not suspended at once, although that was requested.
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

// releases records that a process asked the VM to resume this one.
func (p *process) releases(e *bpf.Event) {
	by := trace.PID(e.Other)
	p.hold = hold{by: by, released: e.Time}
	if i := slices.Index(p.holders, by); i >= 0 {
		p.holders = slices.Delete(p.holders, i, i+1)
	}
	if slices.Contains(p.holders, by) {
		return // it has suspended it several times
	}
	p.left = slices.DeleteFunc(p.left, func(r release) bool { return r.by == by })
	p.left = append(p.left, release{by, e.Time, p.rest()})
}

// rest returns the remaining suspension when one of several suspensions is over.
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

// resumes records that the process is resumed. If another process asked for that, the process has
// been ready since then, and only waited for a scheduler to resume it.
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
	if e.Other > 1 { // the remaining suspension
		p.suspend(p.goesOn(e, now), now)
		return
	}
	at := e.Time
	if now.why.by == byProcess && p.hold.released > now.at {
		at = p.hold.released
	}
	p.goBack(at)
}

// goesOn returns the suspension that continues when one of several is over. It begins when the
// process whose suspension is over asked for its end.
func (p *process) goesOn(e *bpf.Event, now change) change {
	for _, r := range p.left {
		if now.held() && r.by == now.why.who && r.at > now.at {
			return change{at: r.at, why: r.rest}
		}
	}
	return change{at: e.Time, why: p.rest()}
}

// suspendedBefore records that the process was suspended when its watch began, and has been
// suspended since.
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

// runsSuspended records that the process begins to run although its resumption was not seen.
func (p *process) runsSuspended() {
	p.refute()
	if n := len(p.changes); n > 0 && p.changes[n-1].state == suspended && p.changes[n-1].guess == "" {
		p.changes[n-1].guess = guessResume
	}
}

// tell adds the cause of the suspension to a span.
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

// reasonSuspended is the reason why a suspension is unexplained.
const reasonSuspended = "suspended; no event tells why"

// held reports whether the process is suspended by another one, and thus not busy.
func (c change) held() bool { return c.state == suspended && c.why.by == byProcess }

// held reports whether a process is suspended by another one at a time.
func (w *walk) held(p *process, at int64) bool {
	i := after(p.changes, at+1, changedAt)
	return i > 0 && p.changes[i-1].held()
}

// suspendedUntil returns the end of a suspension that begins at a time, or that time if the process
// is not suspended then. Anything that arrives meanwhile ends its wait.
func (p *process) suspendedUntil(at int64) int64 {
	for i := after(p.changes, at, changedAt); i < len(p.changes) && p.changes[i].at == at && p.changes[i].state == suspended; i++ {
		if i+1 == len(p.changes) {
			return forever
		}
		at = p.changes[i+1].at
	}
	return at
}
