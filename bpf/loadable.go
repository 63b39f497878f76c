package bpf

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/usdt"
)

// A Subject is something that can be observed.
type Subject struct {
	Name string // "spans", "explanations", "top" for figures of single processes, "samples", or the name of a built-in outcome of the VM
	Err  error  // the kernel's reason for refusing its programs, nil if it accepts them
}

// Subjects loads the programs of each subject, and attaches none of them. If the kernel refuses a
// program here, it also refuses it at a VM. It takes a second or two. If the context ends before,
// the error is its cause.
func Subjects(ctx context.Context) (subjects []Subject, err error) {
	c, err := New(Options{
		Start: monotonic.Now(), Window: int64(time.Second),
		OpenSpans: 64, Explain: true, Discover: true, Events: 64, RingBytes: 4096,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	needs, err := subjectPrograms()
	if err != nil {
		return nil, err
	}
	var all []variant
	for _, n := range needs {
		all = append(all, n.variants...)
	}
	if err := c.preload(ctx, all); err != nil {
		return nil, err
	}
	for _, n := range needs {
		subjects = append(subjects, Subject{n.name, c.refusal(n.variants)})
	}
	return append(subjects, sampleSubjects()...), nil
}

// refusal returns the error of the first program that cannot be loaded.
func (c *Collector) refusal(variants []variant) error {
	for _, v := range variants {
		if _, err := c.program(v); err != nil {
			return err
		}
	}
	return nil
}

// A subjectNeed lists the programs that a subject needs.
type subjectNeed struct {
	name     string
	variants []variant
}

// subjectPrograms returns the programs of each subject, in the form for arguments in registers and
// known layouts.
func subjectPrograms() ([]subjectNeed, error) {
	args := registers()
	var spans, details []variant
	for _, name := range []string{kernelProgSpan, kernelProgProcessExit, kernelProgProcessGone, kernelProgProcessSpawn} {
		spans = append(spans, variant{program: name, args: newArguments(args)})
	}
	terms := siteTerms{form: dtrace.TermsByNumber}
	const some = 8 // offset of a member, for the programs that read it to be whole
	layout := ProcessLayout{State: some, Flags: some, Save: some, SeqTraceClock: some, SeqTraceLastCount: some, Suspensions: some, Timer: some, Message: some}
	standIn := siteTerms{form: dtrace.TermsByNumber, argsAreTerms: true, processes: some, ports: some, atoms: some}
	for _, terms := range []siteTerms{terms, standIn} { // at probes and at stand-in functions
		for _, d := range detailPrograms() {
			details = append(details, variant{program: d, args: newArguments(args), terms: terms, layout: layout})
		}
	}
	details = append(details, variant{program: kernelProgSpanCall, args: newArguments(args), terms: standIn})
	needs := []subjectNeed{{"spans", spans}}
	top := subjectNeed{name: "top"}
	for _, b := range dtrace.Builtins() {
		variants, err := outcomePrograms(Outcome{Name: b.Name, Rule: &b.Rule}, args, terms)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.Name, err)
		}
		needs = append(needs, subjectNeed{b.Name, variants})
		byProcess := Outcome{Name: b.Name, Rule: &b.Rule, Group: GroupByPID, Accounts: true}
		if CheckOutcome(byProcess) != nil {
			continue // its instances have no process
		}
		variants, err = outcomePrograms(byProcess, args, terms)
		if err != nil {
			return nil, fmt.Errorf("%s of top: %w", b.Name, err)
		}
		top.variants = append(top.variants, variants...)
	}
	return append(needs, top, subjectNeed{"explanations", append(details, detailVariants()...)}), nil
}

// detailPrograms returns the names of the details' programs, each once.
func detailPrograms() []string {
	var names []string
	seen := make(map[string]bool)
	for _, d := range details() {
		if !seen[d.program] {
			seen[d.program] = true
			names = append(names, d.program)
		}
	}
	return names
}

// outcomePrograms returns the programs of an outcome with a rule: those at probes, with known and
// with unknown message addresses, those where receivers fetch messages, and those at tracepoints.
func outcomePrograms(o Outcome, args []usdt.Arg, terms siteTerms) ([]variant, error) {
	variants := entry{used: true, outcome: o}.threadVariants(math.MaxInt32)
	if o.Rule.RunQueue {
		return variants, nil
	}
	for _, e := range ruleEvents(o.Rule) {
		special, err := specialize(o, e, nil)
		if err != nil {
			return nil, err
		}
		v := variant{program: e.program, special: special, args: newArguments(args), terms: terms}
		variants = append(variants, v)
		if o.Rule.Pairing == dtrace.FIFO && e.isMessage(o.Rule) {
			v.special.rule.Message = uint8(len(args) - 1)
			variants = append(variants, v)
		}
		if e.program == kernelProgRuleEndProbe && isOf(o.Rule.End, "message-queued") { // in VMs without probes
			v.program, v.terms.argsAreTerms = kernelProgRuleFetchProbe, true
			v.special.rule.State = uint8(len(args) - 2)
			variants = append(variants, v)
		}
	}
	return variants, nil
}

// registers returns the maximum number of arguments of a probe, all in registers.
func registers() []usdt.Arg {
	args := make([]usdt.Arg, usdt.MaxArgs)
	for i := range args {
		args[i] = usdt.Arg{Kind: usdt.ArgRegister, Size: 8, Base: usdt.Register(i), Index: usdt.NoRegister}
	}
	return args
}
