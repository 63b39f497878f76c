package vmsource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/host/guard"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/usdt"
)

// A preparedVM is a VM whose executable has been read. A malicious executable can be slow to
// read, so this happens in the background.
type preparedVM struct {
	vm   vm.VM
	file *usdt.File // the executable, open; nil after an error, or if it is already attached to
	facts
	build dtrace.Build // functions of this build stand in for probes that the file does not have

	unknown bool // it has no probes, and only functions stand in that do so on all builds

	isCheck bool  // the VM is observed already
	err     error // the reason why the VM cannot be observed
}

// Close closes the executable.
func (p *preparedVM) Close() error {
	if p.file == nil {
		return nil
	}
	return p.file.Close()
}

const (
	// preparePatience is the time limit for reading the executable of a VM.
	preparePatience = 8 * time.Second

	// othersPatience is how long the first search waits for further VMs after the first one is
	// ready. VMs without probes do not count, because the plan may need some.
	othersPatience = 2 * time.Second

	// admitPatience is how long windows wait while VMs are attached to. The next VMs then wait for
	// the next window.
	admitPatience = 300 * time.Millisecond

	// refusedMost is the largest number of notices about VMs that cannot be observed at a time.
	refusedMost = 8
)

// prepare begins to read the executables of new VMs. It observes a VM at once if its executable
// is already attached to.
func (s *Source) prepare(ctx context.Context, vms []vm.VM) {
	now := monotonic.Now()
	for _, v := range vms {
		o := s.vms[v.PID()]
		known := o != nil && s.strangers.doubts[v.PID()] == nil
		_, preparing := s.preparing[v.Process]
		if known || preparing || s.isRefused(v, now) || s.left[v.PID()] != nil || s.isLater(v.Account) {
			continue
		}
		if s.attachedTo(v) {
			if err := s.admit(ctx, &preparedVM{vm: v}); err == nil {
				s.check(v)
			}
			continue
		}
		if wait, why := s.mayAttach(v, now); why != nil {
			s.noteError(s.postpone(v, wait, why))
			continue
		}
		s.preparing[v.Process] = claim{s.fileOf(v), v}
		s.prepares.Go(func() {
			p := s.prepareOne(v)
			select {
			case s.prepared <- p:
			case <-s.running.Done():
				_ = p.Close() // it was only opened for reading
			}
		})
	}
}

// attachedTo reports whether the executable of a VM is already attached to.
func (s *Source) attachedTo(v vm.VM) bool {
	f := s.fileOf(v)
	return !slices.ContainsFunc(s.observations, func(o *observation) bool { return o.covering(f) == nil })
}

// prepareOne reads the executable of a VM. It waits while too many others are being read.
func (s *Source) prepareOne(v vm.VM) *preparedVM {
	owner, err := v.Process.Owner()
	if err != nil {
		return &preparedVM{vm: v, err: err}
	}
	var p *preparedVM
	if waited := s.turns.do(s.running, s.finder.Account(owner), func() {
		p, err = guard.Do(s.running, &s.guard, owner, preparePatience, func(ctx context.Context) (*preparedVM, error) {
			return s.readImage(ctx, v)
		})
	}); waited != nil {
		return &preparedVM{vm: v, err: waited}
	}
	if err != nil {
		return &preparedVM{vm: v, err: fmt.Errorf("pid %d (%s): %w", v.PID(), v.Exe.Name, err)}
	}
	return p
}

// readImage reads the executable of a VM.
func (s *Source) readImage(ctx context.Context, v vm.VM) (*preparedVM, error) {
	file, err := v.Open(ctx)
	if err != nil {
		return nil, err
	}
	image, err := vm.ImageOf(file)
	if errors.Is(err, vm.ErrNoProbes) && !errors.Is(err, vm.ErrNotVM) {
		t := bpf.Target{Path: file.Path(), Name: file.Name(), NoProbes: err}
		return &preparedVM{vm: v, file: file, facts: facts{target: t, own: t}}, nil
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return &preparedVM{vm: v, file: file, facts: s.factsOf(ctx, v, image, file), build: image.Build, unknown: image.Unknown != nil}, nil
}

// await observes the VMs whose executables are being read. It waits for all of them, or for some
// time after the first one is ready. It fails if none can be observed.
func (s *Source) await(ctx context.Context) error {
	var ready []*preparedVM
	var others <-chan time.Time
	for waiting := true; waiting && len(ready) < len(s.preparing); {
		select {
		case p := <-s.prepared:
			ready = append(ready, p)
			if p.err == nil && p.target.NoProbes == nil && others == nil {
				others = time.After(othersPatience)
			}
		case <-others:
			waiting = false
		case <-ctx.Done():
			for _, p := range ready {
				_ = p.Close()
			}
			return context.Cause(ctx)
		}
	}
	slices.SortFunc(ready, func(a, b *preparedVM) int { return cmp.Compare(a.vm.PID(), b.vm.PID()) })
	return s.admitAll(ctx, ready)
}

// admitReady observes the VMs whose executables have been read, unless the context is done.
func (s *Source) admitReady(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	ready := s.ready
	s.ready = nil
	for {
		select {
		case p := <-s.prepared:
			if p.isCheck {
				s.noteError(s.checked(p))
			} else {
				ready = append(ready, p)
			}
			continue
		default:
		}
		break
	}
	if err := s.admitAll(ctx, ready); err != nil {
		s.note("%v", err)
	}
}

// admitAll observes VMs whose executables have been read. Errors become notices, unless no VM at
// all can be observed: then it returns the first error. If the context is done before all are
// observed, it returns the cause.
func (s *Source) admitAll(ctx context.Context, ready []*preparedVM) error {
	var errs []error
	began := time.Now()
	for i, p := range ready {
		if len(s.stages) > 0 && time.Since(began) > admitPatience {
			s.ready = append(s.ready, ready[i:]...)
			break
		}
		delete(s.preparing, p.vm.Process)
		if err := s.admit(ctx, p); err != nil {
			errs = append(errs, err)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(s.vms) == 0 && len(errs) > 0 {
		return errs[0]
	}
	for i, err := range errs {
		if i == refusedMost {
			s.note("%d more VMs cannot be observed", len(errs)-i)
			break
		}
		s.note("%v", err)
	}
	return nil
}

// orExited replaces an error by the report that the VM has exited, if it has.
func orExited(v vm.VM, err error) error {
	const zombie, dead = 'Z', 'X'
	switch state, gone := v.Process.State(); {
	case errors.Is(gone, usdt.ErrProcessGone), state == zombie, state == dead:
		return fmt.Errorf("pid %d (%s) has exited", v.PID(), v.Exe.Name)
	}
	return err
}

// reportsNone reports whether a VM is refused because its executable lacks probes, and functions that
// stand in for them, or is not opened.
func reportsNone(err error) bool {
	return errors.Is(err, usdt.ErrServed) || (errors.Is(err, vm.ErrNoProbes) || errors.Is(err, bpf.ErrNoProbe)) && !errors.Is(err, vm.ErrNotVM)
}

// admit observes a VM. It returns the error to report if it cannot.
func (s *Source) admit(ctx context.Context, p *preparedVM) error {
	v, id, begun := p.vm, outcome.VM{PID: p.vm.PID(), Node: p.vm.Node}, monotonic.Now()
	if p.file != nil && !s.attachedTo(v) {
		if wait, why := s.mayAttach(v, begun); why != nil {
			return errors.Join(s.postpone(v, wait, why), p.Close())
		}
	}
	err := p.err
	if s.strangers.doubts[v.PID()] != nil { // it was not clear whether this is a VM
		err = errors.Join(err, s.giveUp(v.PID()))
	}
	if err == nil {
		s.attachApart(p)
		if err = s.admitAlone(v); err != nil {
			err = errors.Join(fmt.Errorf("%v is not observed: %w", id, err), p.Close())
		}
	}
	if err == nil {
		s.observeThreads(v.PID()) // before it has spans
	}
	if err == nil && p.file != nil {
		err = errors.Join(s.attach(ctx, p), p.Close())
	}
	if err != nil {
		s.forget(v.PID())
		return s.refuse(v, orExited(v, err))
	}
	delete(s.refused, v.Process)
	if a := s.observations[0].covering(s.fileOf(v)); a != nil { // applies if another VM runs the same file too
		s.names.callers.add(v, a.Target().Probes)
	}
	watch, err := v.Watch()
	if errors.Is(err, unix.ESRCH) {
		return nil // it has exited already; adopt handles it if it was counted
	}
	if err != nil {
		s.note("beamscope will not notice the end of pid %d: %v", v.PID(), err)
	}
	o := &observedVM{id: id, process: v, file: s.fileOf(v), exe: v.Exe.Name, begun: begun, since: monotonic.Now(), watch: watch}
	s.add(o)
	s.note("observing %s", id)
	if p.build.ID != "" {
		s.note("%s has no probes: functions of its build stand in for some of them (%s), see beamscope probes", id, p.build.Package)
	}
	if p.unknown {
		s.note("%s has no probes, and its build is not known: few functions stand in, and only for run and run-wait, see beamscope probes", id)
	}
	if p.target.NoProbes != nil {
		s.note("%s has no probes: programs in the kernel observe only the waits of its threads for a processor (os-wait)", id)
	}
	s.noteClaims(o)
	if p.file == nil {
		return nil // it is checked in the background
	}
	return s.compare(o, p)
}

// noteClaims reports VMs of other users with the same node name. Any user can start a VM with
// another user's node name.
func (s *Source) noteClaims(o *observedVM) {
	if o.id.Node == "" {
		return
	}
	for _, pid := range slices.Sorted(maps.Keys(s.vms)) {
		v := s.vms[pid]
		if v.id.Node == o.id.Node && v.process.User != o.process.User && v.exe != "" && v.died == 0 {
			s.note("VMs of two users have the node name %s: pid %d of user %d and pid %d of user %d. In a scope file target: {node: %[1]s, user: %[3]d} observes those of one user",
				o.id.Node, v.id.PID, v.process.User, o.id.PID, o.process.User)
		}
	}
}

// errApart means that the kernel cannot tell VMs of the same executable from each other.
var errApart = fmt.Errorf("%w: before Linux 6.6 beamscope attaches to one VM of an executable, or to all, and already observes another one", bpf.ErrKernel)

// checkApart returns errApart if the file of a VM cannot be attached to beside another VM that runs it.
func (s *Source) checkApart(f file) error {
	if f.pid == 0 || attachesApart() {
		return nil
	}
	for _, o := range s.observations {
		for other := range o.files {
			if other.pid != f.pid && other.ofAll() == f.ofAll() {
				return errApart
			}
		}
	}
	return nil
}

// attach attaches to the executable of a VM, unless it is attached to for another VM.
func (s *Source) attach(ctx context.Context, p *preparedVM) error {
	f := s.fileOf(p.vm)
	err := s.checkApart(f)
	if err == nil {
		t := p.target
		if f.pid != 0 || !attachesApart() {
			t = p.own // less is not wrong for other VMs
		}
		t.PID = f.pid
		err = s.attachFile(ctx, f, p.vm, t)
	}
	if err != nil {
		return fmt.Errorf("pid %d (%s): %w", p.vm.PID(), p.vm.Exe.Name, err)
	}
	return nil
}

// attachFile attaches to the file of a VM for all observations.
func (s *Source) attachFile(ctx context.Context, f file, v vm.VM, t bpf.Target) error {
	began := monotonic.Now()
	defer func() { s.spend(v.Account, time.Duration(monotonic.Now()-began)) }()
	for _, o := range s.observations {
		missing, err := o.attach(ctx, f, t)
		if err != nil {
			return err
		}
		if missing != nil {
			s.note("pid %d: %v", v.PID(), missing)
		}
		if f.pid == 0 && s.files[f] == nil {
			s.files[f] = &sharedFile{user: v.Account, since: began}
		}
	}
	return nil
}
