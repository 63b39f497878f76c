package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/beamscope/beamscope/internal/beam/procname"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/guard"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/usdt"
)

// A Surveyor reads the figures of processes from the memory of VMs, as [vmsource.Source] does.
// One goroutine uses it, in the background.
type Surveyor interface {
	Survey(vm int, from uint32, processes int) (all []procname.Figures, next uint32, err error)
	ProcessName(vm int, p outcome.PID) string
	ProcessFunction(vm int, p outcome.PID) string
}

// Seen is the data from the VM's memory for a row at one moment: for a process, or for all
// processes of a function. If it is not Known, all other fields are 0.
type Seen struct {
	Known      bool
	Processes  int   // number of processes of the row
	Waiting    int64 // messages in their queues
	Unfetched  int64 // number of these messages that the processes have not fetched
	AtLeast    bool  // there may be more messages than Waiting
	Memory     int64 // total size of their heaps in bytes, -1 if unknown
	Rated      bool  // Reductions is known
	Reductions float64
	Function   string // function in which a process last stopped running; "" if unknown
	Growing    bool   // the queue grows, see growth

	Aged   bool          // Oldest is known
	Oldest time.Duration // lower bound of the age of the oldest waiting message
	Before bool          // that message came before the observation began

	// Stale means that the memory was read before the window began, see [Table.Stale]. Then the
	// age of waiting messages and the growth of the queue are unknown.
	Stale bool

	Settled  bool // no message is in transit between the parts of the queue, so ages can be known
	Messages bool // everything that is not fetched is a message
}

// add adds a process.
func (s *Seen) add(p *Seen) {
	if !s.Known {
		*s = *p
		return
	}
	s.Processes += p.Processes
	s.Waiting += p.Waiting
	s.Unfetched += p.Unfetched
	s.AtLeast = s.AtLeast || p.AtLeast
	s.Settled = s.Settled && p.Settled
	s.Messages = false // for several processes it is unknown which one has fetched
	if s.Memory < 0 || p.Memory < 0 {
		s.Memory = -1
	} else {
		s.Memory += p.Memory
	}
	s.Rated = s.Rated && p.Rated
	s.Reductions += p.Reductions
	if s.Function != p.Function {
		s.Function = ""
	}
}

// A Survey is the data from the memory of all VMs at about one time.
type Survey struct {
	From, To int64 // when it was read, nanoseconds of CLOCK_MONOTONIC
	By       string
	Rows     map[ID]Seen
	Names    map[ID]name // names of the rows with most waiting messages, and of those with the largest heaps
	Rest     Seen        // processes without a row: their function is unknown, or there are too many
	Total    Seen
}

// before returns the data as read before the window began.
func (s Seen) before() Seen {
	s.Stale, s.Growing, s.Aged, s.Oldest = true, false, false, 0
	return s
}

const (
	// surveyProcesses is the number of processes that are read at once.
	surveyProcesses = 512

	// firstSurvey is the time until the next attempt if nothing could be read.
	firstSurvey = 100 * time.Millisecond

	// surveyedMost is the largest number of rows of a survey.
	surveyedMost = 1 << 17

	// waitingMost and largestMost are the largest numbers of rows that are shown although only the
	// survey knows them: those with most waiting messages, and those with the largest heaps, of at
	// least largeHeaps bytes.
	waitingMost = 200
	largestMost = 50
	largeHeaps  = 1 << 20
)

// A reading contains what a surveyor keeps from one survey to the next.
type reading struct {
	surveyor   Surveyor
	noticed    map[outcome.VM]bool // VMs whose missing data a notice has reported
	reductions map[ID]spent
}

// spent is the number of reductions that a process had used at a time.
type spent struct {
	reductions uint64
	at         int64
}

// survey surveys VMs shortly before the end of each window, until the context is done. It skips
// windows if surveys take too large a part of the time.
func (t *Top) survey(ctx context.Context, s Surveyor) {
	r := reading{surveyor: s, noticed: make(map[outcome.VM]bool)}
	var pay allowance
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		}
		t.mu.Lock()
		vms, by, plan := t.vms, t.model.live.by, t.plan
		t.mu.Unlock()
		from := monotonic.Now()
		found, why := r.read(ctx, vms, by)
		for _, text := range why {
			t.notice(text)
		}
		pause := firstSurvey
		if found.Total.Known {
			t.mu.Lock()
			t.model.Survey(found)
			t.mu.Unlock()
			now := monotonic.Now()
			pause = time.Duration(beforeEnd(plan, max(now, pay.survey(from, now)), time.Duration(now-from)) - now)
		}
		wait.Reset(pause)
	}
}

// beforeEnd returns when the next survey should begin, no earlier than from: shortly before the end
// of a window of a plan, so that its figures belong to that window and are as new as possible. took
// is the duration of the previous survey.
func beforeEnd(p outcome.Plan, from int64, took time.Duration) int64 {
	lead := int64(min(max(p.Window/10, 2*took), p.Window/2))
	due := p.From - lead
	if due < from {
		due = p.At(p.Number(from)).To - lead
	}
	if due < from {
		due += int64(p.Window)
	}
	return due
}

// An allowance limits surveys to a part of the time, on average. A survey that takes long because
// others use the processors is balanced by the surveys before and after it.
type allowance struct {
	saved time.Duration // time that surveys may take at time at; negative after they took too much
	at    int64         // nanoseconds of CLOCK_MONOTONIC; 0 before the first survey
}

const (
	// surveyShare limits surveys to one part in surveyShare of the time.
	surveyShare = 20

	// surveySaved is the largest amount of unused time that is saved for later surveys.
	surveySaved = 250 * time.Millisecond
)

// survey records a survey from one time to another. It returns when the next one may begin.
func (a *allowance) survey(from, to int64) int64 {
	if a.at != 0 {
		a.saved = min(a.saved+time.Duration(from-a.at)/surveyShare, surveySaved)
	}
	a.saved, a.at = a.saved-time.Duration(to-from), from
	return max(to, from-surveyShare*int64(a.saved))
}

// read surveys VMs once. It also returns the reason for each VM whose data cannot be read, once for
// each VM.
func (r *reading) read(ctx context.Context, vms []outcome.VM, by string) (s *Survey, why []string) {
	s = &Survey{From: monotonic.Now(), By: by, Rows: make(map[ID]Seen), Names: make(map[ID]name)}
	reductions := make(map[ID]spent)
	for _, vm := range vms {
		if vm.PID == 0 {
			continue
		}
		err := r.readVM(ctx, s, vm, reductions)
		if err == nil || errors.Is(err, procname.ErrStarting) || errors.Is(err, usdt.ErrProcessGone) || errors.Is(err, guard.ErrNoAnswer) || r.noticed[vm] {
			continue
		}
		r.noticed[vm] = true
		why = append(why, fmt.Sprintf("%s: waiting messages, memory, reductions and functions of processes are not known: %v", vm, err))
	}
	r.reductions = reductions
	r.name(s)
	s.To = monotonic.Now()
	return s, why
}

// name keeps the names of only those rows that have most waiting messages or the largest heaps, and
// looks up their processes' names.
func (r *reading) name(s *Survey) {
	shown := make(map[ID]name)
	r.nameMost(s, shown, waitingMost, 1, func(row Seen) int64 { return row.Waiting })
	r.nameMost(s, shown, largestMost, largeHeaps, func(row Seen) int64 { return row.Memory })
	s.Names = shown
}

// nameMost adds the most rows with a value of at least this to those that are shown, the largest values first.
func (r *reading) nameMost(s *Survey, shown map[ID]name, most int, least int64, value func(Seen) int64) {
	ids := slices.DeleteFunc(slices.Collect(maps.Keys(s.Names)), func(id ID) bool { return value(s.Rows[id]) < least })
	slices.SortFunc(ids, func(a, b ID) int {
		return cmp.Or(cmp.Compare(value(s.Rows[b]), value(s.Rows[a])), cmp.Compare(a.Key, b.Key), compareVMs(a.VM, b.VM))
	})
	for _, id := range ids[:min(len(ids), most)] {
		if _, ok := shown[id]; ok {
			continue
		}
		known := s.Names[id]
		if known.process != 0 {
			known.name = r.surveyor.ProcessName(id.VM.PID, known.process)
		}
		shown[id] = known
	}
}

// readVM surveys a VM.
func (r *reading) readVM(ctx context.Context, s *Survey, vm outcome.VM, reductions map[ID]spent) error {
	for from := uint32(0); ctx.Err() == nil; {
		all, next, err := r.surveyor.Survey(vm.PID, from, surveyProcesses)
		if err != nil {
			return err
		}
		now := monotonic.Now()
		for i := range all {
			r.add(s, vm, &all[i], now, reductions)
		}
		if from = next; next == 0 {
			return nil
		}
	}
	return context.Cause(ctx)
}

// add adds a process to a survey.
func (r *reading) add(s *Survey, vm outcome.VM, f *procname.Figures, now int64, reductions map[ID]spent) {
	process := outcome.PID(f.Number) | outcome.PID(f.Serial)<<32
	id := ID{vm, process.String()}
	seen := Seen{
		Known: true, Processes: 1, Waiting: f.Waiting, Unfetched: f.Unfetched, AtLeast: f.AtLeast,
		Memory: f.Memory, Function: f.Function,
		Settled: !f.Unhandled, Messages: !f.UnfetchedSignals && !f.AtLeast,
	}
	if before, ok := r.reductions[id]; ok && before.at < now && before.reductions <= f.Reductions {
		seen.Rated = true
		seen.Reductions = float64(f.Reductions-before.reductions) / time.Duration(now-before.at).Seconds()
	}
	if len(reductions) < surveyedMost {
		reductions[id] = spent{f.Reductions, now}
	}
	s.Total.add(&seen)
	known := name{process: process}
	if s.By == outcome.GroupMFA {
		id.Key, known.process = r.surveyor.ProcessFunction(vm.PID, process), 0
	}
	row, has := s.Rows[id]
	if id.Key == "" || !has && len(s.Rows) >= surveyedMost && f.Waiting == 0 {
		s.Rest.add(&seen)
		return
	}
	row.add(&seen)
	s.Rows[id] = row
	if f.Waiting > 0 || row.Memory >= largeHeaps {
		s.Names[id] = known
	}
}
