// Package top shows how processes of running Erlang VMs use the time: by garbage collections, by
// running, and by messages that wait for them. It needs no configuration, and its cost is
// limited: if observing costs too much, it observes less and reports that.
package top

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/price"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/host/monotonic"
)

// ErrLimit means that even the lowest level costs too much.
var ErrLimit = errors.New("too many events")

// Options configure a [Top].
type Options struct {
	Window time.Duration // length of a window
	By     string        // kind of the rows, [outcome.GroupPID] or [outcome.GroupMFA]
	Sort   Column
	Filter string // see [Model.Filter]
	Limit  price.Limit

	// Source opens the source, for its first plan.
	Source func(context.Context, outcome.Plan) (outcome.Source, error)

	// System returns the system for a level; nil means [NewSystem].
	System func(l Level, by string, window time.Duration) (*scope.System, error)

	// NeedRun makes [Open] fail, with an error that wraps [bpf.ErrNoProbe], if run slices of no VM can
	// be seen. Otherwise it observes the rest.
	NeedRun bool

	// Surveyor reads the VMs' memory. If it is nil and the source is a Surveyor, that is used.
	// Otherwise nothing is read.
	Surveyor Surveyor

	// Processor returns the processor time of the VMs; nil: unknown.
	Processor Processor

	// Tabled, if not nil, is called for each window; an error ends Run. Noticed, if not nil, is
	// called with notices for people. The calls do not overlap.
	Tabled  func(*Table) error
	Noticed func(outcome.Notice)
}

// A Top observes a source with a model. It is a [scope.Observer] of the scope that it
// runs.
type Top struct {
	opts    Options
	source  outcome.Source
	scope   *scope.Scope
	changed chan struct{} // signals news; has a buffer of one
	wanted  chan struct{} // signals another request; has a buffer of one

	plain      bool // processor and dirty time are not available
	processors processors

	running bool // a VM was seen
	begun   bool // a window was observed

	mu    sync.Mutex
	model *Model
	plan  outcome.Plan // plan of the windows
	vms   []outcome.VM // VMs of the last batch

	telling sync.Mutex
}

// attaching is the usual time for attaching.
const attaching = 700 * time.Millisecond

// Open opens the source. If that fails because there is no probe for run time, Open leaves run time
// out. If the context ends before, the error is its cause. The caller closes the Top.
func Open(ctx context.Context, o Options) (*Top, error) {
	if o.System == nil {
		o.System = NewSystem
	}
	t := &Top{
		opts: o, model: NewModel(o.By, o.Limit),
		changed: make(chan struct{}, 1), wanted: make(chan struct{}, 1),
		processors: processors{of: o.Processor},
	}
	t.model.leave = t.leave
	t.model.SortBy(o.Sort)
	t.model.Filter(o.Filter)
	err := t.open(ctx, Everything)
	if errors.Is(err, bpf.ErrNoTracepoints) {
		t.plain = true
		t.notice(fmt.Sprintf("without processor and dirty time: %v", err))
		err = t.open(ctx, Everything)
	}
	if errors.Is(err, bpf.ErrNoProbe) && !o.NeedRun {
		if again := t.open(ctx, Level(Run)); again != nil {
			return nil, errors.Join(err, again)
		}
		t.model.Lack(Level(Run), err.Error())
		t.notice(fmt.Sprintf("without %s: %v", Run, err))
		err = nil
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// open opens the source at a level.
func (t *Top) open(ctx context.Context, l Level) error {
	system, err := t.system(l, t.opts.By)
	if err != nil {
		return err
	}
	plan := system.Plan(monotonic.Now() + int64(attaching))
	t.plan = plan
	if t.source, err = t.opts.Source(ctx, plan); err != nil {
		return err
	}
	if t.scope, err = scope.New(t.source, system, plan, t); err != nil {
		return errors.Join(err, t.Close())
	}
	return nil
}

// system returns what is observed at a level.
func (t *Top) system(l Level, by string) (*scope.System, error) {
	system, err := t.opts.System(l, by, t.opts.Window)
	if err != nil || !t.plain {
		return system, err
	}
	for i := range system.Outcomes {
		if p := &system.Outcomes[i].Spec; p.Name == Run.String() {
			p.Accounts = false
		}
	}
	return system, nil
}

// statusSource is a source that knows its VMs before the first window, as [vmsource.Source]
// does.
type statusSource interface {
	Status() []outcome.VMStatus
}

// attached returns the VMs that the source knows before the first window.
func (t *Top) attached() []outcome.VM {
	s, ok := t.source.(statusSource)
	if !ok {
		return nil
	}
	var vms []outcome.VM
	for _, v := range s.Status() {
		if v.Refused == "" && !v.Ended {
			vms = append(vms, v.VM)
		}
	}
	return vms
}

// gone reports that all VMs have exited, or which are stopped, see [outcome.Gone].
func (t *Top) gone() string {
	s, ok := t.source.(statusSource)
	if !ok {
		return ""
	}
	return outcome.Gone(s.Status())
}

// surveyor returns the surveyor of the VMs' memory, or nil if there is none.
func (t *Top) surveyor() Surveyor {
	if t.opts.Surveyor != nil {
		return t.opts.Surveyor
	}
	s, _ := t.source.(Surveyor)
	return s
}

// Close detaches.
func (t *Top) Close() error { return t.source.Close() }

// errEnded ends the scope when no VM is left.
var errEnded = errors.New("no VM is left")

// Run observes until the context is done, until the time limit (0: none), or until no VM is left.
// Windows that were over before it was attached do not count. Run must be called only once. The
// error wraps [ErrLimit] if observing costs too much.
func (t *Top) Run(ctx context.Context, limit time.Duration) error {
	t.meet(t.attached()) // so that the first window has figures of the system and of memory
	scopeDone, cancel := context.WithCancel(ctx)
	var changing sync.WaitGroup
	changing.Go(func() { t.change(scopeDone) })
	if s := t.surveyor(); s != nil {
		changing.Go(func() { t.survey(scopeDone, s) })
	}
	defer changing.Wait()
	defer cancel()
	err := t.scope.Run(ctx, limit)
	if errors.Is(err, errEnded) {
		t.notice("no VM is left")
		return nil
	}
	return err
}

// leave leaves out what costs too much, if the source supports it.
func (t *Top) leave(exclude *price.Exclusion, why string) (notice string, next, ok bool) {
	source, can := t.source.(outcome.Leaver)
	if !can {
		return "", false, false
	}
	length, next, err := exclude.LeaveOrSuccessors(source)
	if errors.Is(err, outcome.ErrNotLeft) {
		return "", false, false
	}
	notice = exclude.Left(why, length)
	if err != nil {
		notice += fmt.Sprintf(" (%v)", err)
	}
	if next {
		signal(t.wanted)
	}
	return notice, next, true
}

// change applies what the model wants, until the context is done.
func (t *Top) change(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.wanted:
		}
		t.mu.Lock()
		level, by := t.model.Wanted()
		t.mu.Unlock()
		system, err := t.system(level, by)
		if err == nil {
			err = t.scope.Apply(ctx, system)
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, outcome.ErrEnded) {
			t.Do(func(m *Model) { m.Refused() })
			t.notice(fmt.Sprintf("observation continues unchanged: %v", err))
		}
	}
}

// Do calls a function with the model. A change of the wanted level takes effect at the beginning of
// a window. Any goroutine may call it.
func (t *Top) Do(do func(*Model)) {
	t.mu.Lock()
	level, by := t.model.Wanted()
	do(t.model)
	newLevel, newBy := t.model.Wanted()
	t.mu.Unlock()
	if newLevel != level || newBy != by {
		signal(t.wanted)
	}
	signal(t.changed)
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Table returns the present table of the model. Any goroutine may call it.
func (t *Top) Table() *Table {
	unseen := t.unseen()
	t.mu.Lock()
	defer t.mu.Unlock()
	table := t.model.Table()
	table.Unseen = unseen
	return table
}

// unseen returns the VMs whose events cannot be seen.
func (t *Top) unseen() (vms []outcome.VM) {
	if s, ok := t.source.(statusSource); ok {
		for _, v := range s.Status() {
			if v.NoEvents {
				vms = append(vms, v.VM)
			}
		}
	}
	return vms
}

// Configured implements [scope.Observer].
func (t *Top) Configured(_ *scope.System, p outcome.Plan) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.model.Configure(p)
	t.plan = p
	return nil
}

// Framed implements [scope.Observer].
func (t *Top) Framed(b *outcome.Batch, _ *scope.Frame) error {
	t.meet(seenIn(b))
	if t.begun = t.begun || begun(b); !t.begun {
		return nil // top was not attached yet
	}
	var notice string
	var err error
	t.Do(func(m *Model) { notice, err = m.Add(b) })
	if err := t.show(t.Table()); err != nil {
		return err
	}
	if notice != "" {
		t.notice(notice)
	}
	if err != nil {
		return err
	}
	return t.left(b)
}

// seenIn returns the VMs of a batch.
func seenIn(b *outcome.Batch) []outcome.VM {
	var vms []outcome.VM
	for i := range b.Counts {
		if vm := b.Counts[i].VM; vm.PID != 0 && !slices.Contains(vms, vm) {
			vms = append(vms, vm)
		}
	}
	return vms
}

// meet records the current VMs and their processor time.
func (t *Top) meet(vms []outcome.VM) {
	used := t.processors.read(vms, monotonic.Now())
	t.mu.Lock()
	defer t.mu.Unlock()
	t.vms = vms
	t.model.Use(used)
}

// begun reports whether anything was observed for a whole window.
func begun(b *outcome.Batch) bool {
	return slices.ContainsFunc(b.Counts, func(c outcome.Counts) bool { return !c.Unobserved })
}

func (t *Top) show(table *Table) error {
	if t.opts.Tabled == nil {
		return nil
	}
	t.telling.Lock()
	defer t.telling.Unlock()
	return t.opts.Tabled(table)
}

// left returns errEnded if there were VMs and none is left.
func (t *Top) left(b *outcome.Batch) error {
	for i := range b.Counts {
		if b.Counts[i].VM.PID != 0 {
			t.running = true
			return nil
		}
	}
	if t.running {
		return errEnded
	}
	return nil
}

// Noticed implements [scope.Observer].
func (t *Top) Noticed(n outcome.Notice) error {
	t.tell(n)
	return nil
}

// notice gives a notice with the present time.
func (t *Top) notice(text string) { t.tell(outcome.Notice{Time: monotonic.Now(), Text: text}) }

func (t *Top) tell(n outcome.Notice) {
	if t.opts.Noticed == nil {
		return
	}
	t.telling.Lock()
	t.opts.Noticed(n)
	t.telling.Unlock()
	signal(t.changed)
}
