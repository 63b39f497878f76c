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
	"sync"
	"syscall"

	"github.com/cilium/ebpf/link"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/usdt"
)

var (
	// ErrNoProbe says that a file lacks a probe that an outcome needs.
	ErrNoProbe = errors.New("no such probe")

	// ErrTerms says that a probe tells pids as terms, and it is not known how to read them.
	ErrTerms = errors.New("how the VM's terms hold pids is not known")

	// ErrReplaced says that a path leads to another file than before.
	ErrReplaced = errors.New("another file is there now")
)

// A Target is where to attach: a file, and whose runs of it.
type Target struct {
	Path   string       // of the executable; /proc/PID/exe will do
	Inode  uint64       // of the file that Probes were read from; 0: not known, not checked
	PID    int          // of the one process to observe; 0: every process that runs the file, later ones too
	Probes []usdt.Probe // of the provider erlang in that file, and those that stand in for what it lacks

	// Release is the release of Erlang/OTP that the file is, such as 27; 0: not known. Probes
	// that the catalogue does not know to be harmless there are refused.
	Release int

	// Terms say how the terms of VMs that run the file hold pids. Probes that functions stand
	// in for are refused where that is not known, with NoTerms for a reason.
	Terms   Terms
	NoTerms error

	// Messages says where the address of the message is that an event is of, by the
	// addresses of sites. Where all sites that an outcome needs have one, its instances are
	// told apart by it; otherwise by their order.
	Messages map[uint64]Message

	// Layout is what is known of the file's struct process, for outcomes with Explain.
	Layout ProcessLayout
}

// A Message says where an event has the address of its message.
type Message struct {
	Arg      usdt.Arg
	Indirect bool // Arg is the address of a word, which has that of the message
}

// Terms say how terms hold the pids of a VM's processes, and the numbers of its ports.
type Terms struct {
	Form dtrace.TermForm

	// Of dtrace.TermsByPlace, the addresses, as linked, of what the VM knows of its tables of
	// processes and ports: struct known_table of pid.bpf.h. Programs read it from each VM, and
	// check it.
	Processes, Ports uint64
}

// behind returns the terms for a program that is attached at a site: where tables are in
// relation to it, as a program does not know where a file is loaded.
func (t Terms) behind(site usdt.Site) siteTerms {
	if t.Form != dtrace.TermsByPlace {
		return siteTerms{form: t.Form}
	}
	return siteTerms{t.Form, int64(t.Processes - site.Address), int64(t.Ports - site.Address)}
}

// An Attachment is a target while it is attached to.
type Attachment struct {
	c      *Collector
	target Target
	file   *os.File // open, so that it stays the same file whatever becomes of its path
	exe    *link.Executable
	links  map[tap][]link.Link

	missing error // see Missing
	sight   Sight
}

// A Sight says what outcomes with Explain cannot see at a target: an error for why, nil where
// it is seen.
type Sight struct {
	Processes error // when processes begin and stop to run
	Threads   error // when schedulers' threads do not run
}

// A tap is what links are there for: the spans of a label, the events of the rule of
// an entry, or those of processes that take part in spans to be explained. exitLabel stands
// for the exit probe, everyLabel for all labels.
type tap struct {
	label  uint32 // noLabel for a rule
	entry  int    // of a rule, otherwise 0
	detail bool
}

func labelTap(label uint32) tap { return tap{label: label} }

func ruleTap(entry int) tap { return tap{label: noLabel, entry: entry} }

func detailTap() tap { return tap{label: noLabel, detail: true} }

// Labels that are none: they stand for the probes of exits and of spawns, and for those of
// exits where functions of processes are forgotten.
const (
	exitLabel  = 0
	exitProbe  = "process__exit"
	spawnLabel = noLabel - 1
	spawnProbe = "process__spawn"
	goneLabel  = noLabel - 3
)

// Attach attaches to the target what the outcomes need. It fails with [ErrNoProbe]
// where the file lacks a probe that is needed, and with [dtrace.ErrRefused] where a
// probe that is needed might harm the VM. It then attaches nothing. Where the context
// is done before everything is attached, the error is its cause, and nothing is attached.
func (c *Collector) Attach(ctx context.Context, t Target) (*Attachment, error) {
	file, exe, err := openTarget(t)
	if err != nil {
		return nil, fmt.Errorf("attach to %s: %w", t.Path, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a := &Attachment{c: c, target: t, file: file, exe: exe, links: make(map[tap][]link.Link)}
	if c.closed {
		return nil, errors.Join(ErrClosed, a.close())
	}
	// First what tells that threads do not run: no span is to be seen without.
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

// Missing returns what outcomes with Explain lack at the target, nil for nothing: what
// could be attached to for them is, and tells of what it sees.
func (a *Attachment) Missing() error {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	return a.missing
}

// Sight returns what outcomes with Explain cannot see at the target.
func (a *Attachment) Sight() Sight {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	return a.sight
}

// lacks says of an error that something is missing for outcomes with Explain.
func (a *Attachment) lacks(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("attach to %s: what happens during spans is known in part: %w", a.target.Path, err)
}

// openTarget opens the target's file once: a path such as /proc/PID/exe may lead
// to another file later, where the probes' offsets would mean something else.
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

// Target returns what is attached to, by a path that leads there while it is.
func (a *Attachment) Target() Target {
	t := a.target
	t.Path = fdPath(a.file)
	return t
}

func fdPath(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// An AttachedProbe is a VM probe that is attached to.
type AttachedProbe struct {
	Name     string   // as in the file
	Sites    int      // places in the code
	Outcomes []string // IDs of those that need it
	Discover bool     // discovery needs it
}

// Probes returns the probes that are attached to: those of rules, of exits and of
// spawns, and then those of labels in their order.
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
			probes = append(probes, AttachedProbe{Name: p.Name, Sites: len(p.Sites), Outcomes: ids, Discover: discover})
		}
	}
	slices.SortStableFunc(probes, func(a, b AttachedProbe) int {
		m, _ := labelOf(a.Name)
		n, _ := labelOf(b.Name)
		return cmp.Compare(m, n)
	})
	return probes
}

// needs returns the probes that outcomes need by their names, each with the IDs of
// those outcomes.
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
				continue
			}
			for _, e := range ruleEvents(o.Rule) {
				need(e.event.Probe.Name, o)
			}
		}
	}
	return needs
}

// Detach takes the attachment's probes off. Its spans that are still open time
// out, as they do when a VM ends.
func (a *Attachment) Detach() error {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	a.c.targets = slices.DeleteFunc(a.c.targets, func(t *Attachment) bool { return t == a })
	if len(a.c.targets) > 0 {
		return a.close()
	}
	return errors.Join(a.close(), a.c.closeTraces(func(int) bool { return true }))
}

// wanted returns what is to be attached to, each with what for.
func (c *Collector) wanted() map[tap]string {
	taps := make(map[tap]string)
	if c.opts.Discover {
		taps[labelTap(everyLabel)] = "discovery"
	}
	if c.opts.Explain {
		taps[detailTap()] = "explanations"
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
			case !o.Rule.RunQueue && c.entries[p.entries[n]].used:
				taps[ruleTap(p.entries[n])] = what
			}
		}
	}
	return taps
}

// attachWanted opens the links that should be there and are not. It ends early where the
// context is done.
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

// detachUnwanted closes the links that should not be there.
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

// open opens the links that are wanted and not open, as many as it can. Where the context
// is done before that, the error is its cause.
func (a *Attachment) open(ctx context.Context, wanted map[tap]string) error {
	var errs []error
	defer a.c.forgetFailed()
	if err := a.c.preload(ctx, append(a.variants(wanted), a.c.traceVariants()...)); err != nil {
		return err
	}
	// The details and the exits' label come first: a span whose start is seen must not
	// end unseen, and is to be explained.
	for _, t := range slices.SortedFunc(maps.Keys(wanted), compareTaps) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := a.openTap(t); err != nil {
			errs = append(errs, fmt.Errorf("attach to %s: %s: %w", a.target.Path, wanted[t], err))
		}
	}
	return errors.Join(errs...)
}

// variants returns the programs that links need which are wanted and not open. What is
// wrong with others is found out when they are opened.
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

// places returns the places of a tap that can be had.
func (a *Attachment) places(t tap) siteList {
	var all siteList
	if !t.detail {
		all, _ = a.c.sites(t, a.target)
		return all
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
	isOne := t.label != exitLabel && t.label < goneLabel
	if a.c.opts.Discover && isOne {
		return nil // attached to with all others
	}
	return a.openSites(t, found)
}

// openDetails opens the links of the details that the target has, as many as it can, and
// says which ones it lacks.
func (a *Attachment) openDetails() error {
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

// openDetail opens the links of one detail, as many as it can.
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
	opts := &link.UprobeMultiOptions{
		Addresses: s.offsets,
		Cookies:   s.cookies,
		PID:       uint32(a.target.PID),
	}
	if s.variant.returns {
		l, err := a.exe.UretprobeMulti(nil, program, opts)
		return l, explain(err)
	}
	opts.RefCtrOffsets = s.semaphores
	l, err := a.exe.UprobeMulti(nil, program, opts)
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

// closeAll closes links, all at a time: each waits until no program can run at it
// any more.
func closeAll(links []link.Link) error {
	errs := make([]error, len(links))
	var closing sync.WaitGroup
	for i, l := range links {
		closing.Go(func() { errs[i] = l.Close() })
	}
	closing.Wait()
	return errors.Join(errs...)
}

// sites are places for one link, in the parallel slices that the kernel takes.
type sites struct {
	variant                      variant // of the program
	offsets, semaphores, cookies []uint64
}

// A siteList gathers places by what can be one link.
type siteList []*sites

func (l *siteList) add(v variant, returns bool, site usdt.Site, cookie uint64) {
	v.returns, v.stepped = returns, site.Stepped
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
	switch at.label {
	case noLabel:
		return c.ruleSites(at.entry, t)
	case exitLabel:
		program, probe = kernelProgProcessExit, exitProbe
	case spawnLabel:
		program, probe = kernelProgProcessSpawn, spawnProbe
	case goneLabel:
		program, probe = kernelProgProcessGone, exitProbe
	case everyLabel:
		return c.allSites(t)
	}
	p, err := t.probe(probe)
	if err != nil {
		return nil, err
	}
	var found siteList
	found.addAll(program, p, at.label)
	return found, nil
}

// probe returns the probe of this name in the target, if it may be attached to.
func (t Target) probe(name string) (usdt.Probe, error) {
	if err := dtrace.Refuse(name, t.Release); err != nil {
		return usdt.Probe{}, err
	}
	i := slices.IndexFunc(t.Probes, func(p usdt.Probe) bool { return p.Name == name })
	if i < 0 {
		return usdt.Probe{}, fmt.Errorf("%w: %s", ErrNoProbe, name)
	}
	if known, _ := dtrace.Lookup(name); known.Function != nil && t.Terms.Form == dtrace.TermsUnknown {
		return usdt.Probe{}, fmt.Errorf("%s: %w", dtrace.Hyphened(name), cmp.Or(t.NoTerms, ErrTerms))
	}
	return t.Probes[i], nil
}

// allSites returns the places of all labels that the target has.
func (c *Collector) allSites(t Target) (siteList, error) {
	if err := dtrace.Refuse(dtrace.UserTrace+"1", t.Release); err != nil {
		return nil, err
	}
	var found siteList
	for _, p := range t.Probes {
		if label, ok := labelOf(p.Name); ok {
			found.addAll(kernelProgSpan, p, label)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: %s1 to %[2]s%d", ErrNoProbe, labelPrefix, wrapperLabels)
	}
	return found, nil
}

// addAll adds the places of a probe, with the label for a cookie.
func (l *siteList) addAll(program string, probe usdt.Probe, label uint32) {
	for _, site := range probe.Sites {
		l.add(variant{program: program, args: newBlockArguments(site.Args)}, false, site, uint64(label))
	}
}

// ruleSites returns the places of the events of an entry's rule.
func (c *Collector) ruleSites(entry int, t Target) (siteList, error) {
	var found siteList
	o := c.entries[entry].outcome
	identified := t.identifies(o.Rule)
	for _, e := range ruleEvents(o.Rule) {
		if e.program == kernelProgRuleGoneProbe && identified && len(o.Rule.Via) == 0 {
			continue // it has no queues
		}
		probe, err := t.probe(e.event.Probe.Name)
		if err != nil {
			return nil, err
		}
		special, err := specialize(o, e)
		if err != nil {
			return nil, err
		}
		for _, site := range probe.Sites {
			args := site.Args
			if identified && e.isMessage(o.Rule) {
				message := t.Messages[site.Address]
				special.rule.Message = uint8(len(args))
				special.rule.Indirect = flag(message.Indirect)
				args = append(slices.Clone(args), message.Arg)
			}
			v := variant{program: e.program, special: special, args: newArguments(args)}
			f := e.event.Probe.Function
			if f != nil {
				v.terms = t.Terms.behind(site)
			}
			found.add(v, f != nil && f.Return, site, uint64(entry))
		}
	}
	return found, nil
}
