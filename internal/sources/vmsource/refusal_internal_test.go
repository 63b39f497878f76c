package vmsource

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/host/budget"
	"github.com/beamscope/beamscope/internal/host/guard"
	"github.com/beamscope/beamscope/usdt"
)

// bare returns a source without programs.
func bare(t *testing.T) *Source {
	s := &Source{
		vms: make(map[int]*observedVM), left: make(map[int]*leftVM), loud: make(map[usdt.Process]int),
		refused: make(map[usdt.Process]refusal), preparing: make(map[usdt.Process]claim), prepared: make(chan *preparedVM),
		turns: newTurns(), names: newNames(nil), files: make(map[file]*sharedFile), attaching: make(map[int]*budget.Budget), apart: make(map[file]bool), observations: []*observation{{}},
	}
	s.running, s.stop = context.WithCancel(context.Background())
	t.Cleanup(func() {
		s.stop()
		s.prepares.Wait()
	})
	return s
}

// self returns this process as if it were a VM.
func self(t *testing.T) vm.VM {
	p, err := usdt.OpenProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	return vm.VM{Process: p}
}

// A VM that did not answer in time is tried again, after pauses that grow. A notice reports it once, as
// undecided. Other reasons are final.
func TestTriedAgain(t *testing.T) {
	s, v := bare(t), self(t)
	noAnswer := fmt.Errorf("pid 1 (beam.smp): %w within 8s", guard.ErrNoAnswer)
	last := firstPause / 2
	for i := range 10 {
		err := s.refuse(v, noAnswer)
		if (err != nil) != (i == 0) || i == 0 && !strings.Contains(err.Error(), "undecided") {
			t.Errorf("try %d: reported %v", i, err)
		}
		r := s.refused[v.Process]
		if r.pause != min(2*last, lastPause) || r.due(r.again-1) || !r.due(r.again) || !strings.Contains(r.Refused, "undecided") {
			t.Errorf("try %d: %+v", i, r)
		}
		last = r.pause
		s.prepare(t.Context(), []vm.VM{v})
		if len(s.preparing) > 0 || s.isFinal(v.Process) {
			t.Error("it is prepared before the pause is over, or refused for good")
		}
	}
	r := s.refused[v.Process]
	r.again = 1
	s.refused[v.Process] = r
	s.prepare(t.Context(), []vm.VM{v})
	if len(s.preparing) == 0 {
		t.Error("it is not prepared after the pause")
	}
	if err := s.refuse(v, errors.New("no VM")); err == nil || s.refused[v.Process].due(1<<62) || !s.isFinal(v.Process) {
		t.Errorf("another reason: %v, %+v", err, s.refused[v.Process])
	}
}

// The source forgets processes that have ended.
func TestForgetEnded(t *testing.T) {
	s, v := bare(t), self(t)
	gone, left := usdt.Process{PID: 1 << 22, StartTime: 1}, usdt.Process{PID: 1 << 22, StartTime: 2}
	s.observations = nil
	s.left[left.PID] = &leftVM{observedVM: &observedVM{process: vm.VM{Process: left}}}
	s.strangers.known = map[int]bool{gone.PID: true, os.Getpid(): true}
	for _, p := range []usdt.Process{v.Process, gone, left} {
		s.refused[p], s.loud[p] = refusal{}, 1
	}
	s.forgetEnded([]vm.VM{v})
	if len(s.refused) != 2 || len(s.loud) != 2 || len(s.strangers.known) != 1 {
		t.Errorf("%v, %v, %v", s.refused, s.loud, s.strangers.known)
	}
}
