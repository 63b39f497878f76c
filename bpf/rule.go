package bpf

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/beamscope/beamscope/dtrace"
)

// A specialization is what a program for one event of a rule is made of: the
// constants of rule.bpf.h.
type specialization struct {
	rule  kernelRule
	tests [dtrace.MaxTests]kernelTest
}

func (s specialization) set(spec *ebpf.CollectionSpec) error {
	return setVariables(spec, map[string]any{
		kernelVarRule:  s.rule,
		kernelVarTests: s.tests,
	})
}

// A ruleEvent is an event of a rule, with the program for it.
type ruleEvent struct {
	program string
	event   dtrace.Event
}

// ruleEvents returns the events of a rule. The ends come first: an instance of which
// the start is seen must not end unseen.
func ruleEvents(r *dtrace.Rule) []ruleEvent {
	var events []ruleEvent
	for _, part := range []struct {
		program string
		expr    dtrace.Expr
	}{
		{kernelProgRuleEndProbe, r.End},
		{kernelProgRuleViaProbe, r.Via},
		{kernelProgRuleStartProbe, r.Start},
		{kernelProgRuleSyncProbe, r.Sync},
		{kernelProgRuleArmProbe, r.Arm},
	} {
		for _, e := range part.expr {
			events = append(events, ruleEvent{part.program, e})
		}
	}
	if exit, ok := dtrace.Lookup(exitProbe); ok && r.OfProcesses() {
		events = append(events, ruleEvent{kernelProgRuleGoneProbe, dtrace.Event{Probe: exit}})
	}
	return events
}

// errRule says that a rule cannot be compiled.
var errRule = errors.New("bad rule")

// specialize compiles an event of an outcome's rule.
func specialize(o Outcome, e ruleEvent) (specialization, error) {
	c := compiler{probe: e.event.Probe}
	r := o.Rule
	key := r.Key.Start
	if e.program != kernelProgRuleStartProbe && e.program != kernelProgRuleArmProbe {
		key = r.Key.End
	}
	c.out.rule = kernelRule{
		Pairing: pairing(r.Pairing),
		Loose:   flag(r.Loose),

		Overtaken: flag(r.Overtaken),
		Staged:    flag(len(r.Via) > 0),
		Synced:    flag(r.Synced()),
		Selective: flag(r.Selective()),
		Armed:     flag(len(r.Arm) > 0),
		Amount:    noArg,
		Label:     c.named("label"),
		Serial:    c.named("cur"),
		Message:   noArg,
		Arrivals:  flag(o.Accounts && o.Group != "" && r.Pairing == dtrace.FIFO),
		Slices:    flag(o.ofSlices()),
	}
	c.out.rule.Key.Kind, c.out.rule.Key.Arg = c.operand(key).parts()
	switch e.program {
	case kernelProgRuleStartProbe:
		c.start(o)
	case kernelProgRuleArmProbe:
		c.out.rule.Arm.Kind, c.out.rule.Arm.Arg = c.operand(r.Armed).parts()
	case kernelProgRuleEndProbe:
		if r.Amount != "" {
			c.out.rule.Amount = c.named(r.Amount)
		}
	}
	if e.event.Where != nil {
		c.condition(e.event.Where, accept, reject)
	}
	c.out.rule.Tests = uint8(c.used)
	if c.err != nil {
		return specialization{}, fmt.Errorf("%w: %s: %w", errRule, c.probe.DTraceName(), c.err)
	}
	return c.out, nil
}

// CheckOutcome says what is wrong with an outcome that has a rule: the error wraps
// [ErrOptions].
func CheckOutcome(o Outcome) error {
	if err := checkRule(o); err != nil {
		return fmt.Errorf("%w: outcome %q: %w", ErrOptions, o.Name, err)
	}
	return nil
}

// checkRule compiles all events of an outcome's rule, to say what is wrong with it.
func checkRule(o Outcome) error {
	if o.Rule.RunQueue {
		if o.Group != "" {
			return fmt.Errorf("%w: waits for a processor are those of threads, which cannot be grouped by %s", errRule, o.Group)
		}
		return nil
	}
	for _, e := range ruleEvents(o.Rule) {
		if _, err := specialize(o, e); err != nil {
			return err
		}
	}
	return nil
}

func pairing(p dtrace.Pairing) uint8 {
	switch p {
	case dtrace.First:
		return uint8(kernelPairingPAIR_FIRST)
	case dtrace.FIFO:
		return uint8(kernelPairingPAIR_FIFO)
	}
	return uint8(kernelPairingPAIR_LAST)
}

func flag(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// Constants of rule.bpf.h.
const (
	noArg  = 0xff
	accept = 0xfe
	reject = 0xff
)

// GroupByMFA is the [Outcome.Group] by which a process is counted with the function
// that it was spawned with, where the event has none itself.
const GroupByMFA = "mfa"

// GroupByPID is the [Outcome.Group] for the process that an event is of.
const GroupByPID = "pid"

// A compiler makes a specialization of an event. The first error stays.
type compiler struct {
	probe dtrace.Probe
	out   specialization
	used  int // tests
	err   error
}

func (c *compiler) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

// start compiles what only starts have.
func (c *compiler) start(o Outcome) {
	if len(o.Rule.Arm) > 0 {
		c.out.rule.Arm.Kind, c.out.rule.Arm.Arg = c.operand(o.Rule.ArmedBy).parts()
	}
	if process, ok := c.process(o.Rule.Key.Start); ok && (o.Stream != StreamNone || o.ExitFails) {
		c.out.rule.Owner.Kind, c.out.rule.Owner.Arg = process.parts()
	}
	if o.Group == "" {
		return
	}
	i := slices.IndexFunc(c.probe.Args, func(a dtrace.Arg) bool { return a.Name == o.Group })
	process, has := c.process(o.Rule.Key.Start)
	switch {
	case i >= 0:
		c.out.rule.Group.Kind, c.out.rule.Group.Arg = c.operand(o.Group).parts()
	case (o.Group == GroupByPID || o.Group == GroupByMFA) && has:
		c.out.rule.Group.Kind, c.out.rule.Group.Arg = process.parts()
		c.out.rule.BySpawn = flag(o.Group == GroupByMFA)
	default:
		c.fail("has no argument %s to group by", o.Group)
	}
}

// process returns the process that an event is of: its key, or its subject.
func (c *compiler) process(key string) (operand, bool) {
	for _, name := range []string{key, c.probe.Subject} {
		for i, a := range c.probe.Args {
			if name != "" && a.Name == name && a.Type == dtrace.PID {
				return operand{c.kind(i), uint8(i)}, true
			}
		}
	}
	return operand{}, false
}

// An operand is a struct operand of rule.bpf.h.
type operand struct{ kind, arg uint8 }

func (o operand) parts() (kind, arg uint8) { return o.kind, o.arg }

// operand compiles what an event has of a key.
func (c *compiler) operand(name string) operand {
	o, ok := c.probe.Operand(name)
	switch {
	case !ok:
		c.fail("has no argument %s", name)
		return operand{}
	case o.Kind == dtrace.OperandThread:
		return operand{kind: uint8(kernelOperandKindOPERAND_THREAD)}
	}
	return operand{c.kind(o.Arg), uint8(o.Arg)}
}

func (c *compiler) kind(arg int) uint8 {
	switch t := c.probe.Args[arg].Type; {
	case !t.IsText():
		return uint8(kernelOperandKindOPERAND_NUMBER)
	case c.probe.Function != nil:
		return uint8(kernelOperandKindOPERAND_TERM)
	case t == dtrace.PID:
		return uint8(kernelOperandKindOPERAND_PID)
	}
	return uint8(kernelOperandKindOPERAND_TEXT)
}

// named returns the argument of this name, noArg where there is none.
func (c *compiler) named(name string) uint8 {
	i := slices.IndexFunc(c.probe.Args, func(a dtrace.Arg) bool { return a.Name == name })
	if i < 0 {
		return noArg
	}
	return uint8(i)
}

// condition compiles a condition, of which yes and no are what follows, and returns
// where it begins. Tests come in the order in which they are evaluated, so that every
// way leads forward; so what follows is compiled first and numbered from the end.
func (c *compiler) condition(cond dtrace.Condition, yes, no uint8) {
	var tests []dtrace.Test
	collect(cond, &tests)
	if len(tests) > dtrace.MaxTests {
		c.fail("has %d comparisons: at most %d", len(tests), dtrace.MaxTests)
		return
	}
	c.used = len(tests)
	next := len(tests)
	if first := c.place(cond, yes, no, &next); first != 0 {
		c.fail("its condition begins at test %d", first)
	}
}

// place compiles a condition into the tests before next, and returns the first one.
func (c *compiler) place(cond dtrace.Condition, yes, no uint8, next *int) uint8 {
	switch cond := cond.(type) {
	case dtrace.All:
		for _, part := range slices.Backward(cond) {
			yes = c.place(part, yes, no, next)
		}
		return yes
	case dtrace.Any:
		for _, part := range slices.Backward(cond) {
			no = c.place(part, yes, no, next)
		}
		return no
	case dtrace.Not:
		return c.place(cond.Condition, no, yes, next)
	case dtrace.Test:
		*next--
		c.out.tests[*next] = c.test(cond, yes, no)
		return uint8(*next)
	}
	c.fail("unknown condition %T", cond)
	return reject
}

// collect appends the tests of a condition.
func collect(cond dtrace.Condition, tests *[]dtrace.Test) {
	switch cond := cond.(type) {
	case dtrace.All:
		for _, part := range cond {
			collect(part, tests)
		}
	case dtrace.Any:
		for _, part := range cond {
			collect(part, tests)
		}
	case dtrace.Not:
		collect(cond.Condition, tests)
	case dtrace.Test:
		*tests = append(*tests, cond)
	}
}

// test compiles one comparison.
func (c *compiler) test(t dtrace.Test, yes, no uint8) kernelTest {
	out := kernelTest{Arg: uint8(t.Arg), Op: uint8(t.Op), Yes: yes, No: no, Number: t.Number}
	if t.Arg < 0 || t.Arg >= len(c.probe.Args) || len(t.Text) > dtrace.MaxText {
		c.fail("has no argument %d, or %d bytes of text are too many", t.Arg, len(t.Text))
		return out
	}
	switch arg := c.probe.Args[t.Arg]; {
	case !arg.Type.IsText():
		out.Form = uint8(kernelTestFormTEST_NUMBER)
	case c.probe.Function != nil:
		packed, err := packPID(t.Text)
		if err != nil || t.Prefix {
			c.fail("its %s is compared with whole pids of this node only, not %q", arg.Name, t.Text)
		}
		out.Form, out.Number = uint8(kernelTestFormTEST_TERM), int64(packed)
	default:
		out.Form = uint8(kernelTestFormTEST_TEXT)
		if t.Prefix {
			out.Form = uint8(kernelTestFormTEST_PREFIX)
		}
		out.Length = uint8(len(t.Text))
		for i, b := range []byte(t.Text) {
			out.Text[i/8] |= uint64(b) << (i % 8 * 8)
		}
	}
	return out
}

// packPID packs a pid as the programs do: number | serial<<32 | node<<48. It refuses a pid
// that the VM would write in another way, and one with a part that is too large: it would
// stand for another process.
func packPID(text string) (uint64, error) {
	var node, serial uint16
	var number uint32
	_, err := fmt.Sscanf(text, "<%d.%d.%d>", &node, &number, &serial)
	if err != nil || text != fmt.Sprintf("<%d.%d.%d>", node, number, serial) {
		return 0, fmt.Errorf("%q is no pid", text)
	}
	return uint64(number) | uint64(serial)<<32 | uint64(node)<<48, nil
}

// ofSlices reports whether the processor time of the slices is wanted that an outcome's
// instances are.
func (o Outcome) ofSlices() bool {
	if !o.Accounts || o.Group == "" || o.Rule == nil {
		return false
	}
	return isOf(o.Rule.Start, "process-in") && isOf(o.Rule.End, "process-out")
}

// isOf reports whether the events of an expression are those of a probe.
func isOf(e dtrace.Expr, probe string) bool {
	return len(e) > 0 && !slices.ContainsFunc(e, func(event dtrace.Event) bool { return event.Probe.DTraceName() != probe })
}

// isMessage reports whether an event of a rule is one of those that the address of their
// message tells apart: the ends, and where the message is before that.
func (e ruleEvent) isMessage(r *dtrace.Rule) bool {
	switch e.program {
	case kernelProgRuleEndProbe, kernelProgRuleViaProbe:
		return true
	}
	return e.program == kernelProgRuleStartProbe && len(r.Via) == 0
}

// identifies reports whether the target knows where the address of the message is, at all
// sites of all events of a rule that need it.
func (t Target) identifies(r *dtrace.Rule) bool {
	if r.Pairing != dtrace.FIFO {
		return false
	}
	for _, e := range ruleEvents(r) {
		if !e.isMessage(r) {
			continue
		}
		probe, err := t.probe(e.event.Probe.Name)
		if err != nil {
			return false
		}
		for _, site := range probe.Sites {
			if _, known := t.Messages[site.Address]; !known {
				return false
			}
		}
	}
	return true
}
