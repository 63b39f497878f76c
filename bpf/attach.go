package bpf

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/beamscope/beamscope/usdt"
)

var (
	// ErrNoProbe says that a file lacks a probe that an outcome needs.
	ErrNoProbe = errors.New("no such probe")

	// ErrReplaced says that a path leads to another file than before.
	ErrReplaced = errors.New("another file is there now")
)

// A Target is where to attach: a file, and whose runs of it.
type Target struct {
	Path   string       // of the executable; /proc/PID/exe will do
	Inode  uint64       // of the file that Probes were read from; 0: not known, not checked
	PID    int          // of the one process to observe; 0: every process that runs the file, later ones too
	Probes []usdt.Probe // of the provider erlang in that file
}

// An Attachment is a target while it is attached to.
type Attachment struct {
	c      *Collector
	target Target
	file   *os.File // open, so that it stays the same file whatever becomes of its path
	exe    *link.Executable
	links  map[uint32][]link.Link // by label; exitLabel for process exits, everyLabel for all labels
}

// exitLabel stands for the exit probe, among labels, of which it is none.
const (
	exitLabel = 0
	exitProbe = "process__exit"
)

// Attach attaches to the target what the outcomes need. It fails with [ErrNoProbe]
// where the file lacks a probe that is needed, and then attaches nothing.
func (c *Collector) Attach(t Target) (*Attachment, error) {
	file, exe, err := openTarget(t)
	if err != nil {
		return nil, fmt.Errorf("attach to %s: %w", t.Path, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a := &Attachment{c: c, target: t, file: file, exe: exe, links: make(map[uint32][]link.Link)}
	if c.closed {
		return nil, errors.Join(ErrClosed, a.close())
	}
	if err := a.open(c.wanted()); err != nil {
		return nil, errors.Join(err, a.close())
	}
	c.targets = append(c.targets, a)
	return a, nil
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
	Outcomes []string // that need it
	Discover bool     // discovery needs it
}

// Probes returns the probes that are attached to, in the order of their labels.
func (a *Attachment) Probes() []AttachedProbe {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	outcomes := make(map[uint32][]string)
	need := func(label uint32, name string) {
		if !slices.Contains(outcomes[label], name) {
			outcomes[label] = append(outcomes[label], name)
		}
	}
	for _, p := range a.c.plans {
		for _, o := range p.outcomes {
			need(Label(o.Name), o.Name)
			if o.ExitFails {
				need(exitLabel, o.Name)
			}
		}
	}
	_, all := a.links[everyLabel]
	byLabel := make(map[uint32]AttachedProbe)
	for _, p := range a.target.Probes {
		label, ours := labelOf(p.Name)
		if p.Name == exitProbe {
			label, ours = exitLabel, true
		}
		discover := all && label != exitLabel
		if _, one := a.links[label]; ours && (one || discover) {
			byLabel[label] = AttachedProbe{Name: p.Name, Sites: len(p.Sites), Outcomes: outcomes[label], Discover: discover}
		}
	}
	var probes []AttachedProbe
	for _, label := range slices.Sorted(maps.Keys(byLabel)) {
		probes = append(probes, byLabel[label])
	}
	return probes
}

// Detach takes the attachment's probes off. Its spans that are still open time
// out, as they do when a VM ends.
func (a *Attachment) Detach() error {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	a.c.targets = slices.DeleteFunc(a.c.targets, func(t *Attachment) bool { return t == a })
	return a.close()
}

// wanted returns the labels to be attached to, each with what for.
func (c *Collector) wanted() map[uint32]string {
	labels := make(map[uint32]string)
	if c.opts.Discover {
		labels[everyLabel] = "discovery"
	}
	for _, p := range c.plans {
		for _, o := range p.outcomes {
			what := fmt.Sprintf("outcome %q", o.Name)
			labels[Label(o.Name)] = what
			if o.ExitFails {
				labels[exitLabel] = what
			}
		}
	}
	return labels
}

// attachWanted opens the links that should be there and are not.
func (c *Collector) attachWanted() error {
	wanted := c.wanted()
	var errs []error
	for _, a := range c.targets {
		errs = append(errs, a.open(wanted))
	}
	return errors.Join(errs...)
}

// detachUnwanted closes the links that should not be there.
func (c *Collector) detachUnwanted() error {
	wanted := c.wanted()
	var errs []error
	for _, a := range c.targets {
		errs = append(errs, a.closeLinks(func(label uint32) bool {
			_, keep := wanted[label]
			return !keep
		}))
	}
	return errors.Join(errs...)
}

// open opens the links of these labels that are not open, as many as it can.
func (a *Attachment) open(wanted map[uint32]string) error {
	var errs []error
	// The exits' label comes first: a span whose start is seen must not end unseen.
	for _, label := range slices.Sorted(maps.Keys(wanted)) {
		if err := a.openLabel(label); err != nil {
			errs = append(errs, fmt.Errorf("attach to %s: %s: %w", a.target.Path, wanted[label], err))
		}
	}
	return errors.Join(errs...)
}

// openLabel opens the links of a label, unless they are open.
func (a *Attachment) openLabel(label uint32) error {
	if _, have := a.links[label]; have {
		return nil
	}
	found, err := a.c.sites(label, a.target)
	if err != nil {
		return err
	}
	if a.c.opts.Discover && label != everyLabel && label != exitLabel {
		return nil // attached to with all others
	}
	var links []link.Link
	for program, s := range found {
		l, err := a.exe.UprobeMulti(nil, program, &link.UprobeMultiOptions{
			Addresses:     s.offsets,
			RefCtrOffsets: s.semaphores,
			Cookies:       s.cookies,
			PID:           uint32(a.target.PID),
		})
		if err != nil {
			return errors.Join(fmt.Errorf("attach %d probes: %w", len(s.offsets), explain(err)), closeAll(links))
		}
		links = append(links, l)
	}
	a.links[label] = links
	return nil
}

// closeLinks closes the links of some labels.
func (a *Attachment) closeLinks(of func(label uint32) bool) error {
	var links []link.Link
	for label, l := range a.links {
		if of(label) {
			links = append(links, l...)
			delete(a.links, label)
		}
	}
	return closeAll(links)
}

// close closes all links and the file.
func (a *Attachment) close() error {
	err := a.closeLinks(func(uint32) bool { return true })
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
	offsets, semaphores, cookies []uint64
}

func (s sites) add(site usdt.Site, cookie uint64) sites {
	return sites{
		offsets:    append(s.offsets, site.Offset),
		semaphores: append(s.semaphores, site.Semaphore),
		cookies:    append(s.cookies, cookie),
	}
}

// sites returns the places of a label, by the program for them.
func (c *Collector) sites(label uint32, t Target) (map[*ebpf.Program]sites, error) {
	program, probe := kernelProgSpan, labelPrefix+strconv.Itoa(int(label))
	switch label {
	case exitLabel:
		program, probe = kernelProgProcessExit, exitProbe
	case everyLabel:
		return c.allSites(t)
	}
	i := slices.IndexFunc(t.Probes, func(p usdt.Probe) bool { return p.Name == probe })
	if i < 0 {
		return nil, fmt.Errorf("%w: %s", ErrNoProbe, probe)
	}
	found := make(map[*ebpf.Program]sites)
	return found, c.addSites(found, program, t.Probes[i], label)
}

// allSites returns the places of all labels that the target has.
func (c *Collector) allSites(t Target) (map[*ebpf.Program]sites, error) {
	found := make(map[*ebpf.Program]sites)
	for _, p := range t.Probes {
		if label, ok := labelOf(p.Name); ok {
			if err := c.addSites(found, kernelProgSpan, p, label); err != nil {
				return nil, err
			}
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: %s1 to %[2]s%d", ErrNoProbe, labelPrefix, wrapperLabels)
	}
	return found, nil
}

// addSites adds the places of a probe, with the label for a cookie.
func (c *Collector) addSites(found map[*ebpf.Program]sites, program string, probe usdt.Probe, label uint32) error {
	for _, site := range probe.Sites {
		p, err := c.program(program, site.Args)
		if err != nil {
			return err
		}
		found[p] = found[p].add(site, uint64(label))
	}
	return nil
}
