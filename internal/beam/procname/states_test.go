package procname

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
	"github.com/beamscope/beamscope/usdt"
)

// withSystem adds the system processes of a release to a fake VM, and returns their addresses. All
// of them wait, the first one with a timer.
func withSystem(f *fake, release int) (all []uint64) {
	l := fakeLayout.process
	slot, _ := f.slot(0, 0)
	f.set32(f.word(slot)+l.flags, flagTrapsExit)
	for i, p := range systemProcesses(release) {
		module, _, _ := strings.Cut(p.spawned, ":")
		process := f.spawn(uint32(i)+1, 0, f.mfa(module, "start", 0))
		f.set32(process+l.state, p.priority<<priorityShift|stateOffHeap)
		all = append(all, process)
	}
	f.set32(all[0]+l.flags, flagTimer)
	f.set(all[0]+l.timer, fakeBase+0x300)
	return all
}

// The flags of a VM are known if its system processes have the flags of the release.
func TestProveStates(t *testing.T) {
	l := fakeLayout.process
	for _, test := range []struct {
		what    string
		want    error
		release int
		change  func(f *fake, system []uint64)
	}{
		{"OTP 25", nil, 25, func(*fake, []uint64) {}},
		{"OTP 27", nil, 27, func(*fake, []uint64) {}},
		{"OTP 29", nil, 29, func(*fake, []uint64) {}},
		{"last turn at another priority", nil, 27, func(f *fake, system []uint64) {
			f.set32(system[3]+l.state, stateOffHeap|priorityHigh<<priorityShift|stateLeft)
		}},
		{"all but one work", nil, 27, func(f *fake, system []uint64) {
			for _, p := range system[1:] {
				f.set32(p+l.state, uint32(f.word(p+l.state))|1<<13|1<<15)
			}
		}},
		{"all work", ErrUnsettled, 27, func(f *fake, system []uint64) {
			for _, p := range system {
				f.set32(p+l.state, uint32(f.word(p+l.state))|1<<13|1<<15)
			}
		}},
		{"init has just started", ErrStarting, 27, func(f *fake, _ []uint64) {
			slot, _ := f.slot(0, 0)
			f.set32(f.word(slot)+l.flags, 0)
		}},
		{"a bit further left", ErrNoStates, 27, func(f *fake, system []uint64) {
			for _, p := range system {
				f.set32(p+l.state, uint32(f.word(p+l.state))<<1)
			}
		}},
		{"another priority", ErrNoStates, 27, func(f *fake, system []uint64) {
			f.set32(system[4]+l.state, stateOffHeap|priorityNormal<<priorityShift)
		}},
		{"messages on the heap", ErrNoStates, 27, func(f *fake, system []uint64) {
			f.set32(system[4]+l.state, 0)
		}},
		{"exiting", ErrNoStates, 27, func(f *fake, system []uint64) {
			f.set32(system[4]+l.state, stateOffHeap|stateExiting)
		}},
		{"timer without its flag", ErrNoStates, 27, func(f *fake, system []uint64) {
			f.set(system[2]+l.timer, fakeBase+0x300)
		}},
		{"flag without its timer", ErrNoStates, 27, func(f *fake, system []uint64) {
			f.set32(system[2]+l.flags, flagTimer)
		}},
		{"suspended without its flag", ErrNoStates, 27, func(f *fake, system []uint64) {
			f.set32(system[2]+l.suspensions, 1)
		}},
		{"another process", ErrNoStates, 27, func(f *fake, system []uint64) {
			f.set(system[1]+l.function, uint64(f.atom("stop")))
		}},
		{"no such process", ErrNoStates, 27, func(f *fake, _ []uint64) {
			slot, _ := f.slot(6, 0)
			f.set(slot, 0)
		}},
		{"changes all the time", ErrUnsettled, 27, func(f *fake, system []uint64) {
			f.before = func(read int) { f.set32(system[0]+l.flags, uint32(read)<<8) }
		}},
	} {
		t.Run(test.what, func(t *testing.T) {
			f := newFake()
			r := f.reader(t)
			test.change(f, withSystem(f, test.release))
			if err := r.tryStates(systemProcesses(test.release)); !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
		})
	}
}

// A VM that has just started gets some time, but not forever.
func TestProveStatesWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		r := f.reader(t)
		slot, _ := f.slot(0, 0)
		init := f.word(slot)
		withSystem(f, 27)
		f.set32(init+fakeLayout.process.flags, 0)
		if err := r.proveStates(t.Context(), systemProcesses(27)); !errors.Is(err, ErrNoStates) {
			t.Errorf("error %v", err)
		}
		f.reads = 0
		f.before = func(read int) {
			if read == 1000 {
				f.set32(init+fakeLayout.process.flags, flagTrapsExit)
			}
		}
		if err := r.proveStates(t.Context(), systemProcesses(27)); err != nil {
			t.Error(err)
		}
	})
}

// The flags of releases outside the table are unknown.
func TestProveStatesOfUnknownRelease(t *testing.T) {
	for release := range 40 {
		known := dtrace.KnownRelease(release)
		if got := systemProcesses(release) != nil; got != known {
			t.Errorf("OTP %d: known %v", release, got)
		}
	}
	var layouts Layouts
	err := layouts.ProveStates(t.Context(), usdt.Process{}, 26)
	if !errors.Is(err, ErrNoStates) || !strings.Contains(err.Error(), "OTP 26") {
		t.Errorf("error %v", err)
	}
}

// On every release, the flags of processes in each state are those that the programs in the kernel
// expect.
func TestStatesAreTheVMs(t *testing.T) {
	t.Run("with probes", func(t *testing.T) {
		vmtest.OnEach(t, func(t *testing.T, otp erlang.OTP) {
			statesAreTheVMs(t, otp)
		})
	})
	for _, release := range vmtest.StockReleases() {
		t.Run(fmt.Sprintf("stock OTP %d", release), func(t *testing.T) { statesAreTheVMs(t, vmtest.Stock(t, release)) })
	}
}

// As in bpf/detail.bpf.h.
const (
	stateActive       = 1 << 13
	stateSuspended    = 1 << 16
	stateDirtyCPU     = 1 << 26
	stateDirtyRunning = 1 << 29 // ERTS_PSFLG_DIRTY_RUNNING
	flagTimedOut      = 1 << 2
)

func statesAreTheVMs(t *testing.T, otp erlang.OTP) {
	vm := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes, Args: []string{"+SDcpu", "1:1"}})
	r := open(t, vm)
	release, err := strconv.Atoi(strings.Trim(vmtest.Eval(t, vm, "erlang:system_info(otp_release)"), `"`))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.proveStates(t.Context(), systemProcesses(release)); err != nil {
		t.Error(err)
	}
	const loop = "fun Loop() -> Loop() end"
	const native = "spawn(fun() -> erts_debug:dirty_cpu(wait, 20000) end)" // longer than the test runs
	for _, test := range []struct {
		what, process string // an expression whose value is the process
		want          state  // expected state bits below, flags of timers, and 1 if there is a timer
	}{
		{"waits", "spawn(fun() -> receive stop -> ok end end)", state{}},
		{"waits for some time", "spawn(fun() -> timer:sleep(1000000) end)", state{flags: flagTimer, timer: 1}},
		{"waits for a time that is infinite", "Forever = fun(T) -> receive after T -> ok end end, spawn(fun() -> Forever(infinity) end)", state{flags: flagTimedOut}},
		{"runs", "spawn(" + loop + ")", state{state: stateActive}},
		{"runs a native function", native, state{state: stateActive | stateDirtyRunning}},
		{"waits for a dirty scheduler", "lists:last([" + native + " || _ <- [1, 2, 3]])", state{state: stateActive | stateDirtyCPU}},
		{
			"is suspended twice", "P = spawn(" + loop + "), [spawn(fun() -> erlang:suspend_process(P), receive stop -> ok end end) || _ <- [1, 2]], P",
			state{state: stateActive | stateSuspended, suspensions: 2},
		},
	} {
		t.Run(test.what, func(t *testing.T) {
			number, serial := numbers(t, written(t, vm, fmt.Sprintf("[[pid_to_list(begin %s end)]]", test.process))[0][0])
			if serial != 0 {
				t.Fatalf("its serial is %d", serial)
			}
			var is state
			for deadline := time.Now().Add(10 * time.Second); is != test.want && time.Now().Before(deadline); {
				var err error
				if _, is, err = r.stateOf(number); err != nil && !errors.Is(err, ErrUnsettled) {
					t.Fatal(err)
				}
				is.state &= stateActive | stateSuspended | stateDirtyCPU | stateDirtyRunning | stateExiting
				is.flags &= flagTimer | flagTimedOut
				is.timer = min(is.timer, 1)
			}
			if is != test.want {
				const info = "[{P, process_info(P, [status, current_function, initial_call])} || P <- processes()]"
				t.Errorf("%+v, want %+v\n%s\ndirty schedulers: %s", is, test.want, vmtest.Eval(t, vm, info), vmtest.Eval(t, vm, "erlang:system_info(dirty_cpu_schedulers)"))
			}
		})
	}
}
