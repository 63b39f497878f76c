package vmsource

import (
	"context"
	"errors"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/host/monotonic"
)

// A successor is an observation that will replace the current one. Its programs are loaded and
// attached, and count nothing until it begins.
type successor struct {
	*observation
	missing error // what could not be attached to
	made    int64 // time in nanoseconds of CLOCK_MONOTONIC

	// The state for which it was made:
	plan     outcome.Plan // without its beginning
	apart    []file
	attached map[file]*bpf.Attachment // of the old observation
	vms      map[int]*observedVM
}

// succeeds reports whether the successor can still be used, because nothing has changed since it
// was made.
func (n *successor) succeeds(s *Source, old *observation, p outcome.Plan, apart []file) bool {
	return n != nil && n.plan.Window == p.Window && reflect.DeepEqual(n.plan.Specs, p.Specs) && slices.Equal(n.apart, apart) &&
		maps.Equal(n.attached, old.files) && maps.Equal(n.vms, s.vms)
}

// dropSuccessor closes the successor, if there is one.
func (s *Source) dropSuccessor() error {
	n := s.successor
	if s.successor = nil; n == nil {
		return nil
	}
	return n.close()
}

// successorKept is how long a successor stays attached after its plan came too late. The caller
// either requests the same plan again within some seconds, or not at all.
const successorKept = 10 * time.Second

// dropLateSuccessor closes the successor if its plan is no longer requested.
func (s *Source) dropLateSuccessor(now int64) error {
	if s.successor == nil || now-s.successor.made < int64(successorKept) {
		return nil
	}
	return s.dropSuccessor()
}

// takeOver replaces the old observation with a new one at the beginning of a plan. It attaches to
// the VMs of the executables in apart one by one. Making the new observation takes long. If the
// plan has begun by then, the error wraps [bpf.ErrLate], and the new observation stays as the
// successor, ready for the same plan with a later beginning.
func (s *Source) takeOver(ctx context.Context, old *observation, p outcome.Plan, apart []file) (o *observation, missing, err error) {
	if len(apart) > 0 {
		if err := s.leaveCrowd(); err != nil {
			return nil, nil, err
		}
	}
	if !s.successor.succeeds(s, old, p, apart) {
		if err := s.dropSuccessor(); err != nil {
			return nil, nil, err
		}
		n, err := s.makeSuccessor(ctx, old, p, apart)
		if err != nil {
			return nil, nil, err
		}
		s.successor = n
	}
	s.shareRoom(s.successor.observation)
	switch err := s.successor.collector.Begin(p.From); {
	case errors.Is(err, bpf.ErrLate):
		return nil, nil, err
	case err != nil:
		return nil, nil, errors.Join(bpf.ErrLate, err, s.dropSuccessor())
	}
	o, missing = s.successor.observation, s.successor.missing
	s.successor = nil
	if err := old.collector.End(p.From); err != nil {
		return nil, nil, errors.Join(err, o.close())
	}
	s.observations = append(s.observations, o)
	for _, f := range apart {
		s.separate(f)
	}
	s.oneByOne = s.oneByOne || len(apart) > 0
	s.note("what is observed has changed, so programs are attached anew: instances that are open at that moment are lost")
	return o, missing, nil
}

// makeSuccessor makes an observation for a plan with the attachments of the old one. Meanwhile it
// reads windows of the old one as they become due, so that none is lost.
func (s *Source) makeSuccessor(ctx context.Context, old *observation, p outcome.Plan, apart []file) (*successor, error) {
	n := &successor{plan: p, apart: slices.Clone(apart), attached: maps.Clone(old.files), vms: maps.Clone(s.vms)}
	pids := make(map[file][]int)
	for f := range old.files {
		if pids[f] = []int{f.pid}; slices.Contains(apart, f) {
			pids[f] = s.runningIn(f)
		}
	}
	first := p
	first.From = math.MaxInt64 / 2 // the real beginning is not known yet
	made := make(chan error, 1)
	go func() {
		var err error
		if n.observation, err = newObservation(first, s.cfg, s.names, len(n.vms)); err != nil {
			made <- err
			return
		}
		for pid, v := range n.vms {
			if v.exe != "" { // otherwise it may be no VM
				n.missing = errors.Join(n.missing, n.collector.ObserveThreads(pid))
			}
		}
		n.missing = errors.Join(n.missing, n.attachLike(ctx, old, func(f file) []int { return pids[f] }))
		made <- nil
	}()
	err := s.readUntil(ctx, n, made)
	n.made = monotonic.Now()
	return n, err
}

// readUntil reads windows as they become due until a successor is made.
func (s *Source) readUntil(ctx context.Context, n *successor, made <-chan error) error {
	tick := time.NewTicker(streamPeriod)
	defer tick.Stop()
	var failed error
	for {
		select {
		case err := <-made:
			if err == nil {
				err = errors.Join(failed, context.Cause(ctx))
			}
			if err != nil && n.observation != nil {
				err = errors.Join(err, n.close())
			}
			return err
		case <-tick.C:
			for _, o := range s.observations {
				if failed == nil {
					failed = s.readAhead(o)
				}
			}
		}
	}
}

// aheadMost is the largest number of windows that are read ahead of Collect. It is more than
// would otherwise be lost, and few enough for memory.
const aheadMost = 256

// readAhead reads the windows of an observation that ended at least one window length ago, and
// stores them for Collect.
func (s *Source) readAhead(o *observation) error {
	for len(o.ready) < aheadMost {
		n := o.collector.Next()
		from, to := o.collector.Window(n)
		if n < o.unobserved || monotonic.Now() < to+(to-from) {
			return nil
		}
		if _, err := o.collector.Sweep(to); err != nil {
			return err
		}
		counts, err := s.readWindow(o, n)
		if err != nil {
			return err
		}
		o.keepWhole(n, counts)
	}
	return nil
}
