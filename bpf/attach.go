package bpf

import (
	"errors"
	"fmt"
	"os"
	"strconv"
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

	// ErrNoGroup says that no outcome is in a group of that name.
	ErrNoGroup = errors.New("no such group")
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
	links  map[int][]link.Link // by number of group; exitLinks for process exits
}

// exitLinks is the number under which an attachment has its links to the exit
// probe, which serve all groups.
const exitLinks = -1

// Attach attaches the groups that are switched on to the target. It fails with
// [ErrNoProbe] where the file lacks a probe that is needed, and then attaches
// nothing.
func (c *Collector) Attach(t Target) (*Attachment, error) {
	file, exe, err := openTarget(t)
	if err != nil {
		return nil, fmt.Errorf("attach to %s: %w", t.Path, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a := &Attachment{c: c, target: t, file: file, exe: exe, links: make(map[int][]link.Link)}
	if err := a.update(); err != nil {
		return nil, errors.Join(fmt.Errorf("attach to %s: %w", t.Path, err), a.closeLinks())
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
	exe, err := link.OpenExecutable(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, exe, nil
}

// Detach takes the attachment's probes off. Its spans that are still open time
// out, as they do when a VM ends: detach a VM that lives on by switching its
// group off.
func (a *Attachment) Detach() error {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	for i, t := range a.c.targets {
		if t == a {
			a.c.targets = append(a.c.targets[:i], a.c.targets[i+1:]...)
			break
		}
	}
	return a.closeLinks()
}

// Switch attaches or detaches a group at every target. Instances that are open
// when their group is switched off are given up and counted as cut: what
// happened to them will not be seen.
func (c *Collector) Switch(group string, on bool, now int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	number := c.group(group)
	if number < 0 {
		return fmt.Errorf("%w: %q", ErrNoGroup, group)
	}
	c.off[group] = !on
	var errs []error
	for _, a := range c.targets {
		errs = append(errs, a.update())
	}
	if !on {
		_, err := c.runSweep(&kernelSweepRequest{UntilNs: uint64(now), Cut: uint64(number) + 1})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// update opens the links that should be there and are not, and closes those
// that should not.
func (a *Attachment) update() error {
	exits := false
	for _, name := range a.c.groups {
		exits = exits || !a.c.off[name] && a.c.exitsMatter(name)
	}
	// Exits first: a span whose start is seen must not end unseen.
	err := a.set(exitLinks, exits, func() (map[*ebpf.Program]sites, error) { return a.c.exitSites(a.target) })
	if err != nil {
		return err
	}
	for number, name := range a.c.groups {
		on := !a.c.off[name]
		if err := a.set(number, on, func() (map[*ebpf.Program]sites, error) { return a.c.spanSites(number, a.target) }); err != nil {
			return err
		}
	}
	return nil
}

// set brings the links of one number into the wanted state.
func (a *Attachment) set(number int, on bool, find func() (map[*ebpf.Program]sites, error)) error {
	links, have := a.links[number]
	if !on {
		delete(a.links, number)
		return closeAll(links)
	}
	if have {
		return nil
	}
	programs, err := find()
	if err != nil {
		return err
	}
	for program, s := range programs {
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
	a.links[number] = links
	return nil
}

func (a *Attachment) closeLinks() error {
	var errs []error
	for _, links := range a.links {
		errs = append(errs, closeAll(links))
	}
	clear(a.links)
	if a.file != nil {
		errs = append(errs, a.file.Close())
		a.file = nil
	}
	return errors.Join(errs...)
}

func closeAll(links []link.Link) error {
	var errs []error
	for _, l := range links {
		errs = append(errs, l.Close())
	}
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

// spanSites returns the sites of a group's labels, by the program for them.
func (c *Collector) spanSites(group int, t Target) (map[*ebpf.Program]sites, error) {
	found := make(map[*ebpf.Program]sites)
	done := make(map[uint32]bool)
	for _, o := range c.opts.Outcomes {
		label := Label(o.Name)
		if c.group(o.Group) != group || done[label] {
			continue
		}
		done[label] = true
		cookie := uint64(group)<<32 | uint64(label)
		if err := c.addSites(found, kernelProgSpan, "user_trace__n"+strconv.Itoa(int(label)), cookie, t); err != nil {
			return nil, fmt.Errorf("outcome %q: %w", o.Name, err)
		}
	}
	return found, nil
}

func (c *Collector) exitSites(t Target) (map[*ebpf.Program]sites, error) {
	found := make(map[*ebpf.Program]sites)
	return found, c.addSites(found, kernelProgProcessExit, "process__exit", 0, t)
}

func (c *Collector) exitsMatter(group string) bool {
	for _, o := range c.opts.Outcomes {
		if o.ExitFails && o.Group == group {
			return true
		}
	}
	return false
}

func (c *Collector) addSites(found map[*ebpf.Program]sites, program, probe string, cookie uint64, t Target) error {
	for _, p := range t.Probes {
		if p.Name != probe {
			continue
		}
		for _, site := range p.Sites {
			prog, err := c.program(program, site.Args)
			if err != nil {
				return err
			}
			found[prog] = found[prog].add(site, cookie)
		}
		return nil
	}
	return fmt.Errorf("%w: %s", ErrNoProbe, probe)
}
