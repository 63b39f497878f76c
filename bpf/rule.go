package bpf

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/usdt"
)

// A specialization contains the constants of rule.bpf.h for one event of a rule.
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

// ruleEvents returns the events of a rule, the ends first: an instance with a seen start must not
// end unseen.
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

// errRule means that a rule cannot be compiled.
var errRule = errors.New("bad rule")

// specialize compiles an event of an outcome's rule at a site, or at any site of its probe if the
// site is nil.
func specialize(o Outcome, e ruleEvent, site *usdt.Site) (specialization, error) {
	c := compiler{probe: e.event.Probe, standIn: e.event.Probe.Function != nil}
	if site != nil && standsIn(*site) {
		c.standIn, c.site = true, *site
	}
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
		State:     noArg,
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
	if where := c.where(e.event.Where); where != nil {
		c.condition(where, accept, reject)
	}
	c.out.rule.Tests = uint8(c.used)
	if errors.Is(c.err, ErrNoProbe) {
		return specialization{}, c.err
	}
	if c.err != nil {
		return specialization{}, fmt.Errorf("%w: %s: %w", errRule, c.probe.DTraceName(), c.err)
	}
	return c.out, nil
}

// CheckOutcome checks an outcome with a rule. The error wraps [ErrOptions].
func CheckOutcome(o Outcome) error {
	if err := checkRule(o); err != nil {
		return fmt.Errorf("%w: outcome %q: %w", ErrOptions, o.Name, err)
	}
	return nil
}

// checkRule compiles all events of an outcome's rule to find errors.
func checkRule(o Outcome) error {
	if o.Rule.RunQueue {
		if o.Group != "" {
			return fmt.Errorf("%w: waits for a processor are those of threads, which cannot be grouped by %s", errRule, o.Group)
		}
		return nil
	}
	for _, e := range ruleEvents(o.Rule) {
		if _, err := specialize(o, e, nil); err != nil {
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

// GroupByMFA is the [Outcome.Group] that counts a process with its spawned function, if the event
// has no function itself.
const GroupByMFA = "mfa"

// GroupByPID is the [Outcome.Group] for the process of an event.
const GroupByPID = "pid"

// A compiler makes a specialization of an event. The first error stays.
type compiler struct {
	probe   dtrace.Probe
	standIn bool      // a function stands in for the probe
	site    usdt.Site // of the function; the zero value if the function is unknown
	out     specialization
	used    int // tests
	err     error
}

func (c *compiler) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

// start compiles the parts that only starts have.
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

// where returns the condition of an event, including the requirements of the stand-in function for
// its probe.
func (c *compiler) where(cond dtrace.Condition) dtrace.Condition {
	own := c.probe.StandIn.Where
	switch {
	case c.site.Function == "" || own == nil:
		return cond
	case cond == nil:
		return own
	}
	return dtrace.All{own, cond}
}

// lacks reports whether the stand-in function for the probe lacks an argument.
func (c *compiler) lacks(arg int) bool {
	return c.site.Function != "" && (arg >= len(c.site.Args) || c.site.Args[arg].Kind == usdt.ArgUnknown)
}

// failLacking records that the stand-in function for the probe lacks an argument.
func (c *compiler) failLacking(arg int) {
	if c.err == nil {
		c.err = lack("%s does not tell the argument %s of %s, for which it stands in", c.site.Function, c.probe.Args[arg].Name, c.probe.DTraceName())
	}
}

// process returns the process of an event: its key, or its subject.
func (c *compiler) process(key string) (operand, bool) {
	for _, name := range []string{key, c.probe.Subject} {
		for i, a := range c.probe.Args {
			if name != "" && a.Name == name && a.Type == dtrace.PID && !c.lacks(i) {
				return operand{c.kind(i), uint8(i)}, true
			}
		}
	}
	return operand{}, false
}

// An operand is a struct operand of rule.bpf.h.
type operand struct{ kind, arg uint8 }

func (o operand) parts() (kind, arg uint8) { return o.kind, o.arg }

// operand compiles a part of a key at an event.
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
	if c.lacks(arg) {
		c.failLacking(arg)
	}
	switch t := c.probe.Args[arg].Type; {
	case !t.IsText():
		return uint8(kernelOperandKindOPERAND_NUMBER)
	case c.standIn && t == dtrace.MFA:
		return uint8(kernelOperandKindOPERAND_FUNCTION)
	case c.standIn && t == dtrace.Port:
		return uint8(kernelOperandKindOPERAND_PORT)
	case c.standIn:
		return uint8(kernelOperandKindOPERAND_TERM)
	case t == dtrace.PID:
		return uint8(kernelOperandKindOPERAND_PID)
	}
	return uint8(kernelOperandKindOPERAND_TEXT)
}

// named returns the argument with a name, or noArg if there is none.
func (c *compiler) named(name string) uint8 {
	i := slices.IndexFunc(c.probe.Args, func(a dtrace.Arg) bool { return a.Name == name })
	if i < 0 || c.lacks(i) {
		return noArg
	}
	return uint8(i)
}

// condition compiles a condition and returns its first test. yes and no are the tests that follow.
// Tests are in the order of evaluation, so that all jumps lead forward. Therefore later tests are
// compiled first, and numbered from the end.
func (c *compiler) condition(cond dtrace.Condition, yes, no uint8) {
	cond = c.split(cond)
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

// split replaces comparisons with whole functions, such as "lists:seq/3", if a function stands in
// for the probe. The module and the rest are then compared separately, because the VM has them as
// terms.
func (c *compiler) split(cond dtrace.Condition) dtrace.Condition {
	switch cond := cond.(type) {
	case dtrace.All:
		parts := make(dtrace.All, len(cond))
		for i, part := range cond {
			parts[i] = c.split(part)
		}
		return parts
	case dtrace.Any:
		parts := make(dtrace.Any, len(cond))
		for i, part := range cond {
			parts[i] = c.split(part)
		}
		return parts
	case dtrace.Not:
		return dtrace.Not{Condition: c.split(cond.Condition)}
	case dtrace.Test:
		if !c.standIn || cond.Arg < 0 || cond.Arg >= len(c.probe.Args) || c.probe.Args[cond.Arg].Type != dtrace.MFA {
			return cond
		}
		module, rest, ok := wholeFunction(cond)
		if !ok {
			return cond
		}
		both := dtrace.All{
			dtrace.Test{Arg: cond.Arg, Op: dtrace.Equal, Text: module + ":", Prefix: true},
			dtrace.Test{Arg: cond.Arg, Op: dtrace.Equal, Text: rest},
		}
		if cond.Op == dtrace.Unequal {
			return dtrace.Not{Condition: both}
		}
		return both
	}
	return cond
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
	if c.lacks(t.Arg) {
		c.failLacking(t.Arg)
	}
	switch arg := c.probe.Args[t.Arg]; {
	case !arg.Type.IsText():
		out.Form = uint8(kernelTestFormTEST_NUMBER)
	case c.standIn && arg.Type == dtrace.PID && t.Prefix && t.Text == anyLocal:
		out.Form, out.Number = uint8(kernelTestFormTEST_TERM), 0 // no term of a process has this value
		out.Op = uint8(dtrace.Equal)
		if t.Op == dtrace.Equal {
			out.Op = uint8(dtrace.Unequal)
		}
	case c.standIn && arg.Type == dtrace.MFA:
		if module, ok := wholeModule(t); ok {
			out.Form = uint8(kernelTestFormTEST_MODULE)
			out.setText(module)
		} else if name, arity, ok := nameArity(t); ok {
			out.Form, out.Number = uint8(kernelTestFormTEST_FUNCTION), arity
			out.setText(name)
		} else {
			c.err = cmp.Or(c.err, lack("where %s stands in for %s, the argument %s is compared with whole modules and whole functions only, as in \"lists:*\" and \"lists:seq/3\"", c.site.Function, c.probe.DTraceName(), arg.Name))
		}
	case c.standIn && arg.Type == dtrace.Port:
		c.err = cmp.Or(c.err, lack("where %s stands in for %s, the argument %s is not compared", c.site.Function, c.probe.DTraceName(), arg.Name))
	case c.standIn:
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
		out.setText(t.Text)
	}
	return out
}

// setText sets the text that a test compares with.
func (t *kernelTest) setText(text string) {
	t.Length = uint8(len(text))
	for i, b := range []byte(text) {
		t.Text[i/8] |= uint64(b) << (i % 8 * 8)
	}
}

// wholeModule returns the module that a test requires of a function, as in "lists:*". ok is false
// if it requires something else, or if Erlang writes
// the module's name with escapes.
func wholeModule(t dtrace.Test) (module string, ok bool) {
	module, found := strings.CutSuffix(t.Text, ":")
	if n := len(module); n > 2 && module[0] == '\'' && module[n-1] == '\'' {
		module = module[1 : n-1]
	}
	return module, found && t.Prefix && module != "" && !strings.ContainsAny(module, ":'\\")
}

// wholeFunction returns the module that a test requires of a function, as Erlang writes it, and the
// rest behind the colon. ok is false if the test does not require a whole function, or if Erlang
// writes a name with escapes.
func wholeFunction(t dtrace.Test) (module, rest string, ok bool) {
	_, rest, ok = cutAtom(t.Text)
	if !ok || t.Prefix || !strings.HasPrefix(rest, ":") {
		return "", "", false
	}
	module, rest = strings.TrimSuffix(t.Text, rest), rest[1:]
	_, _, ok = nameArity(dtrace.Test{Text: rest})
	return module, rest, ok
}

// nameArity returns the name and the arity of the function that a test requires, as in "seq/3". ok
// is false if it requires something else.
func nameArity(t dtrace.Test) (name string, arity int64, ok bool) {
	name, rest, ok := cutAtom(t.Text)
	if !ok || t.Prefix || !strings.HasPrefix(rest, "/") {
		return "", 0, false
	}
	const maxArity = 255
	arity, err := strconv.ParseInt(rest[1:], 10, 64)
	return name, arity, err == nil && arity >= 0 && arity <= maxArity && strconv.FormatInt(arity, 10) == rest[1:]
}

// cutAtom cuts the atom off the beginning of a part of a function's text. ok is false if there is
// none, or if it has escapes.
func cutAtom(text string) (name, rest string, ok bool) {
	if quoted, found := strings.CutPrefix(text, "'"); found {
		name, rest, ok = strings.Cut(quoted, "'")
	} else if i := strings.IndexAny(text, ":/"); i >= 0 {
		name, rest, ok = text[:i], text[i:], true
	}
	return name, rest, ok && name != "" && !strings.Contains(name, `\`)
}

// anyLocal is the prefix of the pids of all local processes.
const anyLocal = "<0."

// packPID packs a pid as the programs do: number | serial<<32 | node<<48. It refuses a pid that the
// VM would write differently, and one with a part that is too large, which would stand for another
// process.
func packPID(text string) (uint64, error) {
	var node, serial uint16
	var number uint32
	_, err := fmt.Sscanf(text, "<%d.%d.%d>", &node, &number, &serial)
	if err != nil || text != fmt.Sprintf("<%d.%d.%d>", node, number, serial) {
		return 0, fmt.Errorf("%q is no pid", text)
	}
	return uint64(number) | uint64(serial)<<32 | uint64(node)<<48, nil
}

// ofSlices reports whether an outcome's instances are slices whose processor time is wanted.
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

// isMessage reports whether an event of a rule is identified by its message's address: the ends,
// and earlier events at which the message has its address.
func (e ruleEvent) isMessage(r *dtrace.Rule) bool {
	switch e.program {
	case kernelProgRuleEndProbe, kernelProgRuleViaProbe:
		return true
	}
	return e.program == kernelProgRuleStartProbe && len(r.Via) == 0
}

// identifies reports whether the target has the place of the message's address, at all sites of all
// events of a rule that need it.
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
