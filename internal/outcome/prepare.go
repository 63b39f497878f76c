package outcome

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/guard"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/procname"
	"github.com/beamscope/beamscope/internal/vm"
	"github.com/beamscope/beamscope/usdt"
)

// A preparedVM is one whose executable has been read. Whoever makes an executable can make
// that slow, and so it is done beside everything else.
type preparedVM struct {
	vm     vm.VM
	file   *usdt.File // the executable, open; nil with an error, and where it is attached to
	target bpf.Target

	guessed guesses
	err     error // why the VM cannot be observed
}

// Close closes the executable.
func (p *preparedVM) Close() error {
	if p.file == nil {
		return nil
	}
	return p.file.Close()
}

const (
	// preparePatience is how long the executable of a VM may take to be read.
	preparePatience = 8 * time.Second

	// othersPatience is how long the beginning waits for further VMs when there is one.
	othersPatience = 2 * time.Second

	// prepareMost is how many executables are read at a time.
	prepareMost = 4

	// refusedMost is how many VMs that cannot be observed are noted at a time.
	refusedMost = 8
)

// prepare begins to read the executables of the VMs that are new. Those whose executable is
// attached to are observed at once.
func (s *VMSource) prepare(ctx context.Context, vms []vm.VM) {
	for _, v := range vms {
		o := s.vms[v.PID()]
		known := o != nil && s.strangers.doubts[v.PID()] == nil
		if _, refused := s.refused[v.Process]; known || refused || s.preparing[v.Process] || s.left[v.PID()] != nil {
			continue
		}
		if s.attachedTo(v) {
			s.admit(ctx, &preparedVM{vm: v, guessed: s.guesses[s.fileOf(v)]})
			continue
		}
		s.preparing[v.Process] = true
		s.prepares.Go(func() {
			p := s.prepareOne(v)
			select {
			case s.prepared <- p:
			case <-s.running.Done():
				_ = p.Close() // it was only read
			}
		})
	}
}

// attachedTo reports whether the executable of a VM is attached to.
func (s *VMSource) attachedTo(v vm.VM) bool {
	f := s.fileOf(v)
	return !slices.ContainsFunc(s.observations, func(o *observation) bool { return o.covering(f) == nil })
}

// prepareOne reads the executable of a VM, a few at a time.
func (s *VMSource) prepareOne(v vm.VM) *preparedVM {
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-s.running.Done():
		return &preparedVM{vm: v, err: context.Cause(s.running)}
	}
	owner, err := v.Process.Owner()
	if err != nil {
		return &preparedVM{vm: v, err: err}
	}
	p, err := guard.Do(s.running, &s.guard, owner, preparePatience, func(ctx context.Context) (*preparedVM, error) {
		return s.readImage(ctx, v)
	})
	if err != nil {
		return &preparedVM{vm: v, err: fmt.Errorf("pid %d (%s): %w", v.PID(), v.Exe.Name, err)}
	}
	return p
}

// readImage reads the executable of a VM.
func (s *VMSource) readImage(ctx context.Context, v vm.VM) (*preparedVM, error) {
	file, err := v.Exe.Open()
	if err != nil {
		return nil, err
	}
	image, err := v.ImageIn(file)
	if err != nil {
		file.Close()
		return nil, err
	}
	var guessed guesses
	layout, err := s.processLayout(ctx, v, image, file)
	guessed.states = err
	messages, err := s.names.layouts.Messages(ctx, v.Process, file)
	guessed.messages = err
	return &preparedVM{vm: v, file: file, guessed: guessed, target: bpf.Target{
		Path:    file.Path(),
		PID:     s.fileOf(v).pid,
		Probes:  image.Probes,
		Release: image.Release,
		Terms:   bpf.Terms(image.Terms),
		NoTerms: image.NoTerms,
		Layout:  layout,

		Messages: messagesOf(messages),
	}}, nil
}

func messagesOf(at map[uint64]procname.Message) map[uint64]bpf.Message {
	all := make(map[uint64]bpf.Message, len(at))
	for site, m := range at {
		all[site] = bpf.Message(m)
	}
	return all
}

// guesses are why something is guessed of the processes of a VM; nil where it is known, or
// that was said.
type guesses struct {
	states   error // whether a process waits
	messages error // which message a process takes
}

// processLayout returns what is known of the processes of a VM, for outcomes that are to
// be explained, at whatever time; or why nothing is.
func (s *VMSource) processLayout(ctx context.Context, v vm.VM, image vm.Image, file *usdt.File) (bpf.ProcessLayout, error) {
	m, err := s.names.layouts.Process(ctx, v.Process, file)
	if err == nil && !image.StateBits() {
		err = errors.New("it is not known to be OTP 25")
	}
	if err != nil {
		return bpf.ProcessLayout{}, err
	}
	return bpf.ProcessLayout(m), nil
}

// await observes the VMs whose executables are being read: all of them, or those that are
// ready some time after the first. It fails where there is none that can be observed.
func (s *VMSource) await(ctx context.Context) error {
	var ready []*preparedVM
	var others <-chan time.Time
	for waiting := true; waiting && len(ready) < len(s.preparing); {
		select {
		case p := <-s.prepared:
			ready = append(ready, p)
			if p.err == nil && others == nil {
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

// admitReady observes the VMs whose executables have been read meanwhile, unless the
// context is done.
func (s *VMSource) admitReady(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	var ready []*preparedVM
	for {
		select {
		case p := <-s.prepared:
			ready = append(ready, p)
			continue
		default:
		}
		break
	}
	if err := s.admitAll(ctx, ready); err != nil {
		s.note("%v", err)
	}
}

// admitAll observes VMs whose executables have been read. Only where there is none that
// can be observed is that an error; otherwise it is noted. Where the context is done before
// all are observed, the error is its cause.
func (s *VMSource) admitAll(ctx context.Context, ready []*preparedVM) error {
	var errs []error
	for _, p := range ready {
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

// admit observes a VM.
func (s *VMSource) admit(ctx context.Context, p *preparedVM) error {
	v, id := p.vm, VM{PID: p.vm.PID(), Node: p.vm.Node}
	err := p.err
	if s.strangers.doubts[v.PID()] != nil { // it was not known what it is
		err = errors.Join(err, s.giveUp(v.PID()))
	}
	if err == nil {
		if err = s.admitAlone(v.User); err != nil {
			err = errors.Join(fmt.Errorf("%v is not observed: %w", id, err), p.Close())
		}
	}
	s.observeThreads(v.PID()) // before it has spans
	if err == nil && p.file != nil {
		err = errors.Join(s.attach(ctx, p), p.Close())
	}
	if err != nil {
		s.forget(v.PID())
		s.refused[v.Process] = VMStatus{VM: id, Exe: v.Exe.Name, Refused: err.Error()}
		return err
	}
	if a := s.observations[0].covering(s.fileOf(v)); a != nil { // also where another VM runs the same file
		s.names.callers.add(v, a.Target().Probes)
	}
	watch, err := v.Watch()
	if errors.Is(err, unix.ESRCH) {
		return nil // gone already: adopt sees to it, if it did anything
	}
	if err != nil {
		s.note("the end of pid %d will not be noticed: %v", v.PID(), err)
	}
	o := &observedVM{id: id, process: v, file: s.fileOf(v), exe: v.Exe.Name, since: monotonic.Now(), watch: watch, guessed: p.guessed}
	s.add(o)
	s.note("observing %s", id)
	s.noteClaims(o)
	return nil
}

// noteClaims says which VMs of other users have the node name of a VM: any user can start
// one with the name of another's.
func (s *VMSource) noteClaims(o *observedVM) {
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

// attach attaches to the executable of a VM, unless that was done for another.
func (s *VMSource) attach(ctx context.Context, p *preparedVM) error {
	f := s.fileOf(p.vm)
	p.target.PID = f.pid // since it was prepared it may have come to be attached to by itself
	for _, o := range s.observations {
		missing, err := o.attach(ctx, f, p.target)
		if err != nil {
			return fmt.Errorf("pid %d (%s): %w", p.vm.PID(), p.vm.Exe.Name, err)
		}
		if missing != nil {
			s.note("pid %d: %v", p.vm.PID(), missing)
		}
	}
	s.guesses[f] = p.guessed
	return nil
}
