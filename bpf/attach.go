package bpf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"syscall"

	"github.com/cilium/ebpf/link"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/usdt"
)

var (
	// ErrNoProbe means that a file lacks a probe that an outcome needs.
	ErrNoProbe = errors.New("no such probe")

	// ErrTerms means that a probe has pids as terms of an unknown form.
	ErrTerms = errors.New("how the VM's terms contain pids is not known")

	// ErrReplaced means that a path now leads to another file.
	ErrReplaced = errors.New("the file was replaced by another")
)

// An UnseenError means that a target lacks the events of outcomes. It wraps [ErrNoProbe].
type UnseenError struct {
	Outcomes []string // names of the outcomes
	Err      error
}

func (e *UnseenError) Error() string { return e.Err.Error() }

func (e *UnseenError) Unwrap() error { return e.Err }

// A lacking describes what a target lacks. It wraps [ErrNoProbe].
type lacking string

func lack(format string, args ...any) error { return lacking(fmt.Sprintf(format, args...)) }

func (l lacking) Error() string { return string(l) }

func (l lacking) Unwrap() error { return ErrNoProbe }

// A Target is a file to attach to, and the processes that run it.
type Target struct {
	Path   string       // of the executable, such as /proc/PID/exe
	Name   string       // of the executable, for errors; "" for Path
	Inode  uint64       // of the file from which Probes were read; 0: unknown and not checked
	PID    int          // the process to observe; 0: every process that runs the file, including later ones
	Probes []usdt.Probe // probes of the provider erlang in that file, and stand-ins for missing ones

	// Release is the Erlang/OTP release of the file, such as 27; 0: unknown. Probes are refused
	// unless the catalogue lists them as harmless in this release.
	Release int

	// Terms is the form of pids in the terms of VMs that run the file. If it is NoTerms, which
	// means unknown, stand-in functions are refused.
	Terms   Terms
	NoTerms error

	// Messages contains the place of the address of an event's message, by the address of the site.
	// If all sites of an outcome have one, the address identifies the message of an instance.
	// Otherwise messages are paired by their order.
	Messages map[uint64]Message

	// Shared contains the sites at which the events of two probes happen: the name of the second
	// probe, by the address of the site. Events of the two probes cannot be distinguished there.
	Shared map[uint64]string

	// Unseen contains the reasons why probes are missing in Probes, by name; "" if there is no
	// further reason.
	Unseen map[string]string

	// StandIns means that the file has no probes, and that some of its functions stand in for
	// probes. They report a message when it enters the receiver's outer queue.
	StandIns bool

	// Fetches are the places at which receivers fetch messages. Where the functions that stand in for
	// message__queued are those for message__send too, instances from a send to a fetch end there.
	Fetches []Fetch

	// NoProbes says why the file has neither probes nor functions that stand in for them; nil if it
	// has. Then the waits of the VM's threads for a processor are observed, which need none, and
	// other outcomes of the VM are refused with this error.
	NoProbes error

	// Layout is the known layout of the file's struct process, for outcomes with Explain.
	Layout ProcessLayout
}

// A Message is the place of the message's address at an event.
type Message struct {
	Arg      usdt.Arg
	Indirect bool // Arg is the address of a word that contains the address of the message
}

// A Fetch is a place at which a process takes the list of all signals out of its outer queue.
type Fetch struct {
	Site  usdt.Site // with the arguments of message__queued
	First usdt.Arg  // address of the first signal of the list
	State usdt.Arg  // flags of the process
}

// Terms describes how terms encode the pids of a VM's processes and the numbers of its ports.
type Terms struct {
	Form dtrace.TermForm

	// For dtrace.TermsByPlace: the addresses, as linked, of the VM's data about its tables of
	// processes and ports, struct known_table of pid.bpf.h. Programs read the data from each VM,
	// and check it.
	Processes, Ports uint64

	// Atoms is the address, as linked, of the VM's table of atoms, 0 if it is unknown. Functions that
	// stand in for probes need it to report the names of functions.
	Atoms uint64
}

// behind returns the terms for a program that is attached at a site. Tables are given relative to
// the site, because a program does not know the address at which a file is loaded.
func (t Terms) behind(site usdt.Site) siteTerms {
	terms := siteTerms{form: t.Form, argsAreTerms: standsIn(site)}
	if t.Form == dtrace.TermsByPlace {
		terms.processes, terms.ports = int64(t.Processes-site.Address), int64(t.Ports-site.Address)
	}
	if slices.ContainsFunc(site.Args, func(a usdt.Arg) bool { return a.Kind == usdt.ArgAddress }) {
		terms.atoms = int64(t.Atoms - site.Address)
	}
	return terms
}

// An Attachment is a target with attached programs.
type Attachment struct {
	c      *Collector
	target Target
	file   *os.File // kept open, so that it stays the same file whatever happens to its path
	exe    *link.Executable
	links  map[tap][]link.Link

	missing error // see Missing
	sight   Sight
}

// A Sight describes the events that outcomes with Explain cannot see at a target. Each field is the
// reason as an error, or nil if they can see the events.
type Sight struct {
	Processes error // processes beginning and stopping to run
	Threads   error // schedulers' threads that do not run
}

// A tap is the purpose of links: the spans of a label, the events of an entry's rule, or the events
// of processes that take part in spans to be explained. exitLabel stands for the exit probe, and
// everyLabel for all labels.
type tap struct {
	label  uint32 // noLabel for a rule
	entry  int    // of a rule, otherwise 0
	detail bool
}

func labelTap(label uint32) tap { return tap{label: label} }

func ruleTap(entry int) tap { return tap{label: noLabel, entry: entry} }

// ofSpans reports whether links of the tap see starts and ends of spans.
func (t tap) ofSpans() bool {
	return t.label != noLabel && t.label != exitLabel && t.label != spawnLabel && t.label != goneLabel
}

func detailTap() tap { return tap{label: noLabel, detail: true} }

// Special labels. They stand for the probes of exits and of spawns, for the exit probes that drop
// functions of processes, and for the function that the wrapper calls in a VM without probes.
const (
	exitLabel  = 0
	exitProbe  = "process__exit"
	spawnLabel = noLabel - 1
	spawnProbe = "process__spawn"
	callLabel  = noLabel - 3
	goneLabel  = noLabel - 4
)

// Attach attaches the programs of the outcomes to the target. It fails with [ErrNoProbe] if the
// file lacks a necessary probe, with Target.NoProbes if it has none and any is necessary, and with
// [dtrace.ErrRefused] if a necessary probe might harm the VM. If the context ends before everything is attached, the error is its cause. After an error
// nothing is attached.
func (c *Collector) Attach(ctx context.Context, t Target) (*Attachment, error) {
	file, exe, err := openTarget(t)
	if err != nil {
		return nil, fmt.Errorf("attach to %s: %w", cmp.Or(t.Name, t.Path), err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.needsProbes(t); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	a := &Attachment{c: c, target: t, file: file, exe: exe, links: make(map[tap][]link.Link)}
	if c.closed {
		return nil, errors.Join(ErrClosed, a.close())
	}
	// First the programs that see threads stop: no span may be seen without them.
	noTraces := c.openDetailTraces()
	err = a.open(ctx, c.wanted())
	if err = errors.Join(err, c.openTraces()); err != nil {
		if len(c.targets) == 0 {
			err = errors.Join(err, c.closeTraces(func(int) bool { return true }))
		}
		return nil, errors.Join(err, a.close())
	}
	a.missing = errors.Join(a.missing, a.lacks(noTraces))
	a.sight.Threads = noTraces
	c.targets = append(c.targets, a)
	return a, nil
}

// Missing returns an error that describes what outcomes with Explain lack at the target, or nil.
// Everything else is attached for them.
func (a *Attachment) Missing() error {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	return a.missing
}

// SeesSpans reports whether programs are attached to the target that see the spans of all outcomes of
// the plans.
func (a *Attachment) SeesSpans() bool {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	if a.target.NoProbes != nil || a.target.noSpans() != nil {
		return false
	}
	for t := range a.c.wanted() {
		if _, have := a.links[t]; t.ofSpans() && !have && !a.c.includes(t) {
			return false
		}
	}
	return true
}

// Sight describes what outcomes with Explain cannot see at the target.
func (a *Attachment) Sight() Sight {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	return a.sight
}

// lacks reports whether an error means that something is missing for outcomes with Explain.
func (a *Attachment) lacks(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("attach to %s: what happens during spans is known in part: %w", cmp.Or(a.target.Name, a.target.Path), err)
}

// openTarget opens the target's file once: a path such as /proc/PID/exe may lead to another file
// later, in which the probes' offsets would be wrong.
func openTarget(t Target) (*os.File, *link.Executable, error) {
	file, err := os.Open(t.Path)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && t.Inode != 0 && st.Ino != t.Inode {
		return nil, nil, errors.Join(ErrReplaced, file.Close())
	}
	exe, err := link.OpenExecutable(fdPath(file))
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, exe, nil
}

// Target returns a path to the file that programs are attached to. It is valid while they are
// attached.
func (a *Attachment) Target() Target {
	t := a.target
	t.Path = fdPath(a.file)
	return t
}

func fdPath(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// An AttachedProbe is a VM probe with attached programs.
type AttachedProbe struct {
	Name     string   // as in the file
	Sites    int      // places in the code
	Outcomes []string // IDs of the outcomes that need it
	Discover bool     // discovery needs it
	StandIn  bool     // it is at a function that stands in for the probe
}

// Probes returns the probes with attached programs: those of rules, exits and spawns first, and
// then those of labels in order.
func (a *Attachment) Probes() []AttachedProbe {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	needs := a.c.needs()
	_, all := a.links[labelTap(everyLabel)]
	var probes []AttachedProbe
	for _, p := range a.target.Probes {
		_, labelled := labelOf(p.Name)
		ids, needed := needs[p.Name]
		discover := all && labelled
		if needed || discover {
			probes = append(probes, AttachedProbe{
				Name: p.Name, Sites: len(p.Sites), Outcomes: ids, Discover: discover, StandIn: slices.ContainsFunc(p.Sites, standsIn),
			})
		}
	}
	slices.SortStableFunc(probes, func(a, b AttachedProbe) int {
		m, _ := labelOf(a.Name)
		n, _ := labelOf(b.Name)
		return cmp.Compare(m, n)
	})
	return probes
}

// needs returns the probes that outcomes need, by name, each with the IDs of those outcomes.
func (c *Collector) needs() map[string][]string {
	needs := make(map[string][]string)
	need := func(probe string, o Outcome) {
		if !slices.Contains(needs[probe], o.ID()) {
			needs[probe] = append(needs[probe], o.ID())
		}
	}
	for _, p := range c.plans {
		for _, o := range p.outcomes {
			if o.ExitFails {
				need(exitProbe, o)
			}
			if o.Group == GroupByMFA {
				need(spawnProbe, o)
				need(exitProbe, o)
			}
			if o.Explain {
				for _, d := range details() {
					need(d.probe, o)
				}
			}
			if o.Rule == nil {
				need(labelPrefix+strconv.Itoa(int(Label(o.Name))), o)
				need(dtrace.UserTrace, o) // a function stands in for the probes of all labels
				continue
			}
			for _, e := range ruleEvents(o.Rule) {
				need(e.event.Probe.Name, o)
			}
		}
	}
	return needs
}

// Detach removes the attachment's probes. Open spans time out, unless [Collector.CutVMs] gives them up.
func (a *Attachment) Detach() error {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	a.c.targets = slices.DeleteFunc(a.c.targets, func(t *Attachment) bool { return t == a })
	if len(a.c.targets) > 0 {
		return a.close()
	}
	return errors.Join(a.close(), a.c.closeTraces(func(int) bool { return true }))
}

// needsProbes returns Target.NoProbes if the target has no probes and an outcome needs some, or if
// no outcome works without probes. Spans do not count: other means observe them in such a VM.
func (c *Collector) needsProbes(t Target) error {
	threads := false
	for _, p := range c.plans {
		for _, o := range p.outcomes {
			switch {
			case o.Rule == nil:
			case !o.Rule.RunQueue:
				return t.NoProbes
			default:
				threads = true
			}
		}
	}
	if threads {
		return nil
	}
	return t.NoProbes
}

// wanted returns what is to be attached to, each with what for.
func (c *Collector) wanted() map[tap]string {
	taps := make(map[tap]string)
	if c.opts.Discover {
		if c.multi {
			taps[labelTap(everyLabel)] = "discovery"
		}
		taps[labelTap(callLabel)] = "discovery"
	}
	need := func(o Outcome) string {
		what := fmt.Sprintf("outcome %q", o.Name)
		if o.ExitFails {
			taps[labelTap(exitLabel)] = what
		}
		if o.Group == GroupByMFA {
			taps[labelTap(spawnLabel)] = what
			taps[labelTap(goneLabel)] = what
		}
		if o.Explain {
			taps[detailTap()] = what
		}
		return what
	}
	for _, p := range c.plans {
		for n, o := range p.outcomes {
			what := need(o)
			switch {
			case o.Rule == nil:
				taps[labelTap(Label(o.Name))] = what
				taps[labelTap(callLabel)] = what
			case !o.Rule.RunQueue && c.entries[p.entries[n]].used:
				taps[ruleTap(p.entries[n])] = what
			}
		}
	}
	return taps
}

// attachWanted opens the missing links. It ends early if the context is done.
func (c *Collector) attachWanted(ctx context.Context) error {
	wanted := c.wanted()
	var errs []error
	if len(c.targets) > 0 {
		err := c.openDetailTraces()
		errs = append(errs, err)
		for _, a := range c.targets {
			a.sight.Threads = err
		}
	}
	for _, a := range c.targets {
		_, had := a.links[detailTap()]
		errs = append(errs, a.open(ctx, wanted))
		if !had {
			errs = append(errs, a.missing)
		}
	}
	if len(c.targets) > 0 {
		errs = append(errs, c.openTraces())
	}
	return errors.Join(errs...)
}

// detachUnwanted closes the links that are no longer wanted.
func (c *Collector) detachUnwanted() error {
	wanted := c.wanted()
	errs := []error{c.closeTraces(func(entry int) bool {
		if entry == detailTrace {
			return !c.explains()
		}
		return !slices.ContainsFunc(c.plans, func(p plan) bool { return slices.Contains(p.entries, entry) })
	})}
	for _, a := range c.targets {
		if !c.explains() {
			a.missing = nil
		}
		errs = append(errs, a.closeLinks(func(t tap) bool {
			_, keep := wanted[t]
			return !keep
		}))
	}
	return errors.Join(errs...)
}

// open opens as many as possible of the wanted links that are not open. If the context is done
// before that, the error is its cause.
func (a *Attachment) open(ctx context.Context, wanted map[tap]string) error {
	if a.target.NoProbes != nil {
		if err := a.c.needsProbes(a.target); err != nil {
			return err
		}
		wanted = nil
	}
	var errs []failure
	defer a.c.forgetFailed()
	if err := a.c.preload(ctx, append(a.variants(wanted), a.c.traceVariants()...)); err != nil {
		return err
	}
	// The details and the exits' label come first: a span with a seen start must not end unseen,
	// and must be explained.
	for _, t := range slices.SortedFunc(maps.Keys(wanted), compareTaps) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := a.openTap(t); err != nil {
			f := failure{what: wanted[t], err: err}
			if t.label == noLabel && !t.detail && errors.Is(err, ErrNoProbe) {
				f.unseen = []string{a.c.entries[t.entry].outcome.Name}
			}
			errs = append(errs, f)
		}
	}
	return joinFailures(cmp.Or(a.target.Name, a.target.Path), errs)
}

// A failure describes what could not be attached to a file, with the reason.
type failure struct {
	what   string
	err    error
	unseen []string // outcomes whose events the file lacks
}

// joinFailures returns an error for everything that could not be attached to the file of a path. It
// merges failures with the same reason.
func joinFailures(path string, all []failure) error {
	var errs []error
	for len(all) > 0 {
		first, reason := all[0], all[0].err.Error()
		n := len(all)
		var unseen []string
		all = slices.DeleteFunc(all, func(f failure) bool {
			same := f.err.Error() == reason
			if same {
				unseen = append(unseen, f.unseen...)
			}
			return same
		})
		if n -= len(all); n > 1 {
			first.what = fmt.Sprintf("%s and %d more", first.what, n-1)
		}
		if len(unseen) > 0 {
			first.err = &UnseenError{Outcomes: unseen, Err: first.err}
		}
		errs = append(errs, fmt.Errorf("attach to %s: %s: %w", path, first.what, first.err))
	}
	return errors.Join(errs...)
}

// variants returns the programs for wanted links that are not open. Problems with other links show
// when they are opened.
func (a *Attachment) variants(wanted map[tap]string) []variant {
	var all []variant
	for t := range wanted {
		if _, have := a.links[t]; have {
			continue
		}
		for _, s := range a.places(t) {
			all = append(all, s.variant)
		}
	}
	return all
}

// places returns the available places of a tap.
func (a *Attachment) places(t tap) siteList {
	var all siteList
	if !t.detail {
		all, _ = a.c.sites(t, a.target)
		return all
	}
	if a.target.noSpans() != nil {
		return nil
	}
	for _, d := range details() {
		found, _ := a.c.detailSites(d, a.target)
		all = append(all, found...)
	}
	return all
}

func compareTaps(a, b tap) int {
	if a.detail != b.detail {
		if a.detail {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.label, b.label), cmp.Compare(a.entry, b.entry))
}

// openTap opens the links of a tap, unless they are open.
func (a *Attachment) openTap(t tap) error {
	if _, have := a.links[t]; have {
		return nil
	}
	if t.detail {
		a.missing = a.lacks(a.openDetails())
		return nil
	}
	found, err := a.c.sites(t, a.target)
	if err != nil {
		return err
	}
	if a.c.includes(t) {
		return nil
	}
	return a.openSites(t, found)
}

// includes reports whether the links of all labels include those of a tap.
func (c *Collector) includes(t tap) bool {
	return c.opts.Discover && c.multi && t.label != exitLabel && t.label < goneLabel
}

// openDetails opens as many links as possible of the details that the target has, and returns the
// missing ones.
func (a *Attachment) openDetails() error {
	if err := a.target.noSpans(); err != nil {
		a.links[detailTap()] = []link.Link{}
		a.sight.Processes = err
		return err
	}
	var errs, scheduling []error
	links := []link.Link{}
	for _, d := range details() {
		opened, err := a.openDetail(d)
		errs = append(errs, err)
		if d.program == kernelProgDetailIn || d.program == kernelProgDetailOut {
			scheduling = append(scheduling, err)
		}
		links = append(links, opened...)
	}
	a.links[detailTap()] = links
	a.sight.Processes = errors.Join(scheduling...)
	return errors.Join(errs...)
}

// openDetail opens as many links of one detail as possible.
func (a *Attachment) openDetail(d detail) (links []link.Link, err error) {
	found, err := a.c.detailSites(d, a.target)
	errs := []error{err}
	for _, s := range found {
		l, err := a.link(s)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: attach %d probes: %w", d.probe, len(s.offsets), err))
			continue
		}
		links = append(links, l)
	}
	return links, errors.Join(errs...)
}

// openSites opens a link for each of the sites of a tap.
func (a *Attachment) openSites(t tap, found siteList) error {
	var links []link.Link
	for _, s := range found {
		l, err := a.link(s)
		if err != nil {
			return errors.Join(fmt.Errorf("attach %d probes: %w", len(s.offsets), err), closeAll(links))
		}
		links = append(links, l)
	}
	a.links[t] = links
	return nil
}

func (a *Attachment) link(s *sites) (link.Link, error) {
	program, err := a.c.program(s.variant)
	if err != nil {
		return nil, err
	}
	l, err := linkAll(a.exe, program, s, a.target.PID, a.c.multi)
	return l, explain(err)
}

// closeLinks closes the links of some taps.
func (a *Attachment) closeLinks(of func(tap) bool) error {
	var links []link.Link
	for t, l := range a.links {
		if of(t) {
			links = append(links, l...)
			delete(a.links, t)
		}
	}
	return closeAll(links)
}

// close closes all links and the file.
func (a *Attachment) close() error {
	err := a.closeLinks(func(tap) bool { return true })
	if a.file != nil {
		err = errors.Join(err, a.file.Close())
		a.file = nil
	}
	return err
}

// closeAll closes links.
func closeAll(all []link.Link) error { return (&links{each: all}).Close() }

// sites are the places of one link, in the parallel slices that the kernel expects.
type sites struct {
	variant                      variant // of the program
	offsets, semaphores, cookies []uint64
}

// A siteList groups places that can share a link.
type siteList []*sites

func (l *siteList) add(v variant, site usdt.Site, cookie uint64) {
	v.returns, v.stepped = site.Return, site.Stepped
	i := slices.IndexFunc(*l, func(s *sites) bool { return s.variant == v })
	if i < 0 {
		i = len(*l)
		*l = append(*l, &sites{variant: v})
	}
	s := (*l)[i]
	s.offsets = append(s.offsets, site.Offset)
	s.semaphores = append(s.semaphores, site.Semaphore)
	s.cookies = append(s.cookies, cookie)
}

// sites returns the places of a tap.
func (c *Collector) sites(at tap, t Target) (siteList, error) {
	program, probe := kernelProgSpan, labelPrefix+strconv.Itoa(int(at.label))
	if t.StandIns && (at.label == everyLabel || at.label < goneLabel && at.label != exitLabel) {
		return nil, nil // a file without probes fires none
	}
	switch at.label {
	case noLabel:
		return c.ruleSites(at.entry, t)
	case exitLabel:
		program, probe = kernelProgProcessExit, exitProbe
	case spawnLabel:
		program, probe = kernelProgProcessSpawn, spawnProbe
	case goneLabel:
		program, probe = kernelProgProcessGone, exitProbe
	case callLabel:
		return t.callSites()
	case everyLabel:
		return c.allSites(t)
	}
	p, err := t.probe(probe)
	if err != nil {
		return nil, err
	}
	if at.label == spawnLabel && slices.ContainsFunc(p.Sites, func(s usdt.Site) bool { return standsIn(s) && !tellsFunction(s) }) {
		return nil, lack("the functions that stand in for %s do not tell with which function a process was spawned, so nothing can be grouped by it", dtrace.Hyphened(probe))
	}
	var found siteList
	found.addAll(program, p, at.label, t.Terms)
	return found, nil
}

// noSpans returns why programs in the kernel do not see the target's spans, or nil if they do. The
// error wraps [ErrNoProbe].
func (t Target) noSpans() error {
	if !t.StandIns {
		return nil
	}
	if _, err := t.spanCall(); err != nil {
		return fmt.Errorf("spans of this VM without probes are not explained, as programs in the kernel do not see them: %w", err)
	}
	return nil
}

// spanCall returns the function that the application beamscope calls for spans in a target without
// probes.
func (t Target) spanCall() (usdt.Probe, error) {
	if err := dtrace.Refuse(dtrace.UserTrace+"1", t.Release); err != nil {
		return usdt.Probe{}, err
	}
	i := slices.IndexFunc(t.Probes, func(p usdt.Probe) bool { return p.Name == dtrace.UserTrace })
	switch {
	case i < 0:
		return usdt.Probe{}, lack("no function of the VM is known to report spans")
	case t.Terms.Form == dtrace.TermsUnknown:
		return usdt.Probe{}, cmp.Or(t.NoTerms, ErrTerms)
	}
	return t.Probes[i], nil
}

// tellsFunction reports whether a site of process__spawn reports the function.
func tellsFunction(s usdt.Site) bool {
	const mfa = 1
	return len(s.Args) > mfa && s.Args[mfa].Kind != usdt.ArgUnknown
}

// probe returns the probe with a name in the target, if attaching to it is allowed.
func (t Target) probe(name string) (usdt.Probe, error) {
	if err := dtrace.Refuse(name, t.Release); err != nil {
		return usdt.Probe{}, err
	}
	i := slices.IndexFunc(t.Probes, func(p usdt.Probe) bool { return p.Name == name })
	if i < 0 {
		if why := t.Unseen[name]; why != "" {
			return usdt.Probe{}, lack("%s is not seen: %s", dtrace.Hyphened(name), why)
		}
		return usdt.Probe{}, fmt.Errorf("%w: %s", ErrNoProbe, name)
	}
	if t.Terms.Form == dtrace.TermsUnknown && slices.ContainsFunc(t.Probes[i].Sites, standsIn) {
		return usdt.Probe{}, fmt.Errorf("%s: %w", dtrace.Hyphened(name), cmp.Or(t.NoTerms, ErrTerms))
	}
	return t.Probes[i], nil
}

// standsIn reports whether a site is in a function that stands in for a probe.
func standsIn(s usdt.Site) bool { return s.Function != "" }

// callSites returns the places at which the wrapper reports spans without firing a probe. There are
// none in a target with probes, or if the wrapper has no such place.
func (t Target) callSites() (found siteList, err error) {
	if !t.StandIns {
		return nil, nil
	}
	p, err := t.spanCall()
	if err != nil {
		return nil, nil // spans are not explained, see noSpans
	}
	found.addAll(kernelProgSpanCall, p, 0, t.Terms)
	return found, nil
}

// allSites returns the places of all labels of the target.
func (c *Collector) allSites(t Target) (siteList, error) {
	if err := dtrace.Refuse(dtrace.UserTrace+"1", t.Release); err != nil {
		return nil, err
	}
	var found siteList
	for _, p := range t.Probes {
		if label, ok := labelOf(p.Name); ok {
			found.addAll(kernelProgSpan, p, label, t.Terms)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: %s1 to %[2]s%d", ErrNoProbe, labelPrefix, numLabels)
	}
	return found, nil
}

// addAll adds the places of a probe, with the label as the cookie.
func (l *siteList) addAll(program string, probe usdt.Probe, label uint32, terms Terms) {
	for _, site := range probe.Sites {
		v := variant{program: program, args: newBlockArguments(site.Args)}
		if standsIn(site) {
			v.terms = terms.behind(site)
		}
		l.add(v, site, uint64(label))
	}
}

// ruleSites returns the places of the events of an entry's rule.
func (c *Collector) ruleSites(entry int, t Target) (siteList, error) {
	return t.ruleSites(c.entries[entry].outcome, uint64(entry))
}

// Sees returns why the events of an outcome with a rule cannot be observed at the target, or nil if
// they can. The error wraps [ErrNoProbe] if the target lacks them.
func (t Target) Sees(o Outcome) error {
	if o.Rule.RunQueue {
		return nil
	}
	_, err := t.ruleSites(o, 0)
	return err
}

// ruleSites returns the places of the events of an outcome's rule.
func (t Target) ruleSites(o Outcome, cookie uint64) (siteList, error) {
	var found siteList
	o.Rule = t.ruleFor(o.Rule)
	fetched := t.fetches(o.Rule)
	if err := t.checkEnds(o.Rule); err != nil && !fetched {
		return nil, err
	}
	identified := fetched || t.identifies(o.Rule)
	for _, e := range ruleEvents(o.Rule) {
		if fetched && e.program == kernelProgRuleEndProbe {
			if err := t.addFetches(&found, o, e, cookie); err != nil {
				return nil, err
			}
			continue
		}
		if fetched && e.program == kernelProgRuleSyncProbe {
			continue // its instances are not paired by their order
		}
		if e.program == kernelProgRuleGoneProbe && identified && len(o.Rule.Via) == 0 {
			continue // it has no queues
		}
		probe, err := t.probe(e.event.Probe.Name)
		if err != nil {
			return nil, err
		}
		for _, site := range probe.Sites {
			again, err := t.checkShared(o.Rule, e, site)
			if err != nil {
				return nil, err
			}
			if again {
				continue
			}
			v, err := t.ruleVariant(o, e, site, identified)
			if err != nil {
				return nil, err
			}
			found.add(v, site, cookie)
		}
	}
	return found, nil
}

// ruleVariant returns the program for an event of a rule at a site.
func (t Target) ruleVariant(o Outcome, e ruleEvent, site usdt.Site, identified bool) (variant, error) {
	special, err := specialize(o, e, &site)
	if err != nil {
		return variant{}, err
	}
	args := site.Args
	if identified && e.isMessage(o.Rule) {
		message := t.Messages[site.Address]
		special.rule.Message = uint8(len(args))
		special.rule.Indirect = flag(message.Indirect)
		args = append(slices.Clone(args), message.Arg)
	}
	if t.Shared[site.Address] != "" {
		special.rule.Loose = flag(true)
	}
	v := variant{program: e.program, special: special, args: newArguments(args)}
	if standsIn(site) {
		v.terms = t.Terms.behind(site)
	}
	return v, nil
}

// fetches reports whether the instances of a rule end where receivers fetch their messages: they end with
// message-queued, the functions that stand in for it are those for the start, and each start tells the
// address of its message.
func (t Target) fetches(r *dtrace.Rule) bool {
	if len(t.Fetches) == 0 || len(r.Via) > 0 || !r.OfProcesses() {
		return false
	}
	for _, e := range r.End {
		if !isOf(dtrace.Expr{e}, "message-queued") || e.Where != nil || !t.oneWith(e, r.Start) {
			return false
		}
	}
	return t.identifies(r)
}

// addFetches adds the places where receivers fetch their messages, for an end of an outcome's rule.
func (t Target) addFetches(found *siteList, o Outcome, e ruleEvent, cookie uint64) error {
	if _, err := t.probe(e.event.Probe.Name); err != nil {
		return err
	}
	e.program = kernelProgRuleFetchProbe
	for _, f := range t.Fetches {
		special, err := specialize(o, e, &f.Site)
		if err != nil {
			return err
		}
		special.rule.Message, special.rule.State = uint8(len(f.Site.Args)), uint8(len(f.Site.Args)+1)
		args := append(slices.Clone(f.Site.Args), f.First, f.State)
		found.add(variant{program: e.program, special: special, args: newArguments(args), terms: t.Terms.behind(f.Site)}, f.Site, cookie)
	}
	return nil
}

// checkShared checks a site at which the events of two probes happen. Such a site suffices for a
// rule with both events; again reports that the rule's other event has it. It also suffices for the
// end of something that began on the same thread, because only one of the two can have begun there.
// Otherwise the error wraps [ErrNoProbe].
func (t Target) checkShared(r *dtrace.Rule, e ruleEvent, site usdt.Site) (again bool, err error) {
	other := t.Shared[site.Address]
	if other == "" {
		return false, nil
	}
	name := e.event.Probe.Name
	for _, second := range ruleEvents(r) {
		if second.program == e.program && second.event.Probe.Name != name && second.event.Where == nil && e.event.Where == nil && t.at(second.event.Probe.Name, site) {
			return name > second.event.Probe.Name, nil
		}
	}
	if e.program == kernelProgRuleEndProbe && r.Key.End == dtrace.Thread && r.Pairing == dtrace.Last {
		return false, nil
	}
	return false, lack("nothing in %s, which stands in for %s, distinguishes it from %s", site.Function, dtrace.Hyphened(name), dtrace.Hyphened(other))
}

// at reports whether two probes share a site.
func (t Target) at(probe string, site usdt.Site) bool {
	return slices.ContainsFunc(t.Probes, func(p usdt.Probe) bool {
		return p.Name == probe && slices.ContainsFunc(p.Sites, func(s usdt.Site) bool { return s.Address == site.Address && s.Return == site.Return })
	})
}

// ruleFor returns the rule by which the target's instances are found. An instance need not pass
// through events that happen where it starts.
func (t Target) ruleFor(r *dtrace.Rule) *dtrace.Rule {
	if len(r.Via) == 0 || slices.ContainsFunc(r.Via, func(e dtrace.Event) bool { return !t.oneWith(e, r.Start) }) {
		return r
	}
	short := *r
	short.Via = nil
	return &short
}

// oneWith reports whether an event shares a stand-in function with one of others.
func (t Target) oneWith(e dtrace.Event, others dtrace.Expr) bool {
	i := slices.IndexFunc(t.Probes, func(p usdt.Probe) bool { return p.Name == e.Probe.Name })
	return i >= 0 && slices.ContainsFunc(t.Probes[i].Sites, func(s usdt.Site) bool {
		return standsIn(s) && slices.ContainsFunc(others, func(o dtrace.Event) bool { return o.Probe.Name != e.Probe.Name && t.at(o.Probe.Name, s) })
	})
}

// checkEnds refuses a rule whose instances would start and end at the same place. The error wraps
// [ErrNoProbe].
func (t Target) checkEnds(r *dtrace.Rule) error {
	for _, e := range r.End {
		if t.oneWith(e, r.Start) {
			return lack("this VM reports %s and %s at the same place, so no time passes between them", e.Probe.DTraceName(), r.Start[0].Probe.DTraceName())
		}
	}
	return nil
}
