package vmsource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/beam/procname"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/host/guard"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/sources/target"
	"github.com/beamscope/beamscope/usdt"
)

// Facts about a VM come from its executable and, if that was stripped, from the symbols and the
// debugging information for the path by which its process runs it. The memory of the VM
// then confirms or denies it. Any user can run an executable of others by another path, and change the
// memory of the process. So the VM that is found first decides nothing for the others: an executable
// is attached to by what the file says, and each VM is compared with that. VMs that differ are
// attached to one by one, each by its own facts.

// facts are what is known of a VM.
type facts struct {
	target bpf.Target // by the executable, and the symbols for its path
	own    bpf.Target // the same without what the VM's memory does not confirm

	denied   error // what the VM's memory denies
	unproven error // why it does not confirm something yet
	guessed  guesses
}

// guesses are the reasons why facts about the processes of a VM are guessed. A reason is nil if
// the fact is known or if a notice has reported the guess.
type guesses struct {
	states   error // whether a process waits
	messages error // which message a process takes
	unproven error // whether flags of the processes have their known meaning
}

// factsOf determines what is known of a VM with an executable.
func (s *Source) factsOf(ctx context.Context, v vm.VM, image vm.Image, file *usdt.File) facts {
	var f facts
	var layout bpf.ProcessLayout
	layout, f.guessed.states = s.processLayout(ctx, v, image, file)
	var messages map[uint64]procname.Message
	if !image.StandIns() { // with stand-ins each function has this information
		messages, f.guessed.messages = s.names.layouts.Messages(ctx, v.Process, file)
	}
	of := func(image vm.Image, layout bpf.ProcessLayout) bpf.Target {
		t := target.Of(file.Path(), image)
		t.Name, t.Layout = file.Name(), layout
		for site, m := range messages {
			t.Messages[site] = bpf.Message(m)
		}
		return t
	}
	f.target = of(image, layout)
	terms := v.CheckTerms(file, image)
	var states error
	if f.guessed.states == nil {
		states = s.names.layouts.ProveStates(ctx, v.Process, image.Release)
	}
	if isDenied(terms) {
		image = image.WithoutTerms(terms)
		f.denied = terms
	}
	if states != nil {
		layout, f.guessed.states = layout.WithoutStates(), states
		if isDenied(states) {
			f.denied = cmp.Or(f.denied, states)
		} else {
			f.unproven = states
		}
	}
	f.own = of(image, layout)
	return f
}

// processLayout returns what is known about the processes of VMs with an executable, for explanations
// now or later. The error explains why something is unknown.
func (s *Source) processLayout(ctx context.Context, v vm.VM, image vm.Image, file *usdt.File) (bpf.ProcessLayout, error) {
	m, err := s.names.layouts.Process(ctx, v.Process, file)
	if err != nil {
		return bpf.ProcessLayout{}, err
	}
	layout := bpf.ProcessLayout(m)
	if !dtrace.KnownRelease(image.Release) {
		layout = bpf.ProcessLayout{}
	}
	if err := procname.KnowsStates(image.Release); err != nil {
		return layout.WithoutStates(), err
	}
	return layout, nil
}

// isDenied reports whether a check has found something else in a VM, not only nothing yet.
func isDenied(err error) bool {
	if err == nil {
		return false
	}
	for _, undecided := range []error{
		vm.ErrStarting, procname.ErrStarting, procname.ErrUnsettled, usdt.ErrProcessGone, guard.ErrNoAnswer,
		context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, undecided) {
			return false
		}
	}
	return true
}

// errOthers means that two VMs run one executable by different paths, and only one of these has
// symbols beside it, or that the time for reading them is used up for one user.
var errOthers = errors.New("beamscope knows other symbols or other debugging information for it")

// sameFacts reports whether two targets describe the same. Their paths may differ, and the processes.
func sameFacts(a, b bpf.Target) bool {
	if text(a.NoTerms) != text(b.NoTerms) || text(a.NoProbes) != text(b.NoProbes) {
		return false
	}
	for _, t := range []*bpf.Target{&a, &b} {
		t.Path, t.Name, t.PID, t.NoTerms, t.NoProbes = "", "", 0, nil, nil
	}
	return reflect.DeepEqual(a, b)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// check compares a VM that is observed already with the facts by which its executable was attached to,
// in the background.
func (s *Source) check(v vm.VM) {
	s.prepares.Go(func() {
		p := s.prepareOne(v)
		p.isCheck = true
		select {
		case s.prepared <- p:
		case <-s.running.Done():
			_ = p.Close() // it was only opened for reading
		}
	})
}

// checkAgain checks the VMs whose pause is over.
func (s *Source) checkAgain(now int64) {
	for _, o := range s.vms {
		if o.recheck != 0 && now >= o.recheck && o.died == 0 {
			o.recheck = 0
			s.check(o.process)
		}
	}
}

// checked takes the result of a check.
func (s *Source) checked(p *preparedVM) error {
	o := s.vms[p.vm.PID()]
	if o == nil || o.process.Process != p.vm.Process || o.died != 0 {
		return p.Close()
	}
	if p.err == nil {
		return errors.Join(s.compare(o, p), p.Close())
	}
	if o.pause == 0 && !errors.Is(p.err, usdt.ErrProcessGone) {
		s.note("%v: it is not known yet whether it is like other VMs with its executable: %v", o.id, p.err)
	}
	o.checkLater()
	return p.Close()
}

// checkLater has a VM checked again after a pause, which grows.
func (o *observedVM) checkLater() {
	o.pause = min(max(firstPause, 2*o.pause), lastPause)
	o.recheck = monotonic.Now() + int64(o.pause)
}

// compare leaves out a VM that differs from the facts by which its executable was attached to.
func (s *Source) compare(o *observedVM, p *preparedVM) error {
	a := s.observations[len(s.observations)-1].covering(o.file)
	if a == nil {
		return nil
	}
	by, own, denied := a.Target(), p.target, p.denied
	if !o.compared {
		o.guessed, o.compared = p.guessed, true
		if by.Layout.State != 0 && p.unproven != nil {
			o.guessed.states, o.guessed.unproven = nil, p.unproven
		}
	}
	if by.PID != 0 || !attachesApart() && sameFacts(by, p.own) {
		own, denied = p.own, nil // such facts are enough for it
	}
	switch {
	case denied != nil:
		return s.leaveDiffering(o, denied)
	case by.PID != 0 && by.Layout.State != 0 && p.unproven != nil:
		o.checkLater() // it was separated from others before it confirmed what is known of them
	case !sameFacts(by, own):
		return s.leaveDiffering(o, errOthers)
	case p.unproven != nil && by.PID == 0:
		o.checkLater()
	}
	return nil
}

// leaveDiffering leaves out a VM until it is attached to by its own facts. Where the kernel cannot
// attach to some VMs of an executable, only a VM whose memory denies the facts is left out, for good.
func (s *Source) leaveDiffering(o *observedVM, why error) error {
	if !attachesApart() && errors.Is(why, errOthers) {
		s.note("%v differs from another VM with its executable: %v. It is observed as that one, because the kernel is older than Linux 6.6", o.id, why)
		return nil
	}
	if !attachesApart() {
		s.forget(o.id.PID)
		why = fmt.Errorf("%v is not observed: %w (%w)", o.id, why, errApart)
		return errors.Join(s.giveUp(o.id.PID), o.close(), s.refuse(o.process, why))
	}
	s.note("%v differs from another VM with its executable: %v. It is not observed until beamscope has attached to VMs one by one", o.id, why)
	s.left[o.id.PID] = &leftVM{observedVM: o, until: monotonic.Now(), why: oneLine(why.Error()), differs: true}
	return s.giveUp(o.id.PID)
}

// differing reports whether a VM waits to be attached to by its own facts.
func (s *Source) differing() bool {
	for _, l := range s.left {
		if l.differs && l.died == 0 {
			return true
		}
	}
	return false
}

// attachApart decides that VMs of an executable are attached to one by one, if the first one that is
// found denies what the file says. So the others need not do without.
func (s *Source) attachApart(p *preparedVM) {
	f := s.fileOf(p.vm)
	if p.file == nil || p.denied == nil || f.pid != 0 || !attachesApart() {
		return
	}
	for _, o := range s.observations {
		if o.files[f] != nil {
			return
		}
	}
	s.apart[f] = true
	s.note("pid %d: %v: beamscope attaches to the VMs of its executable one by one", p.vm.PID(), p.denied)
}
