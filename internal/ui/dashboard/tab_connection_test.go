package dashboard

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/sources/wrapper"
	"github.com/beamscope/beamscope/internal/ui/tui/tuitest"
)

// A connected control has a status.
type connected struct {
	*control
	mu     sync.Mutex
	status session.Status
}

func (c *connected) Status() session.Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

func (c *connected) StartWrappers() { c.send(true) }
func (c *connected) StopWrappers()  { c.send(false) }

func (c *connected) send(started bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.Wrappers = &session.WrapperStatus{Listen: c.status.Wrappers.Listen, Started: started, Peers: c.status.Wrappers.Peers}
}

// live runs a dashboard that is connected, with windows of 2 s made from frames.
func live(t *testing.T, status session.Status, width, height int, frames ...scope.Frame) *harness {
	t.Helper()
	t.Setenv("NO_COLOR", "")
	h := &harness{t: t, screen: tcell.NewSimulationScreen("UTF-8"), control: &control{config: config.Default()}}
	h.d = New(Options{Title: "live", Screen: tuitest.Colored{SimulationScreen: h.screen, Count: 256}, Wall: func(ns int64) time.Time { return time.Unix(0, ns) }})
	h.screen.SetSize(width, height)
	h.run(width, height)
	h.do(func() { h.d.control = &connected{control: h.control, status: status} })
	for i := range frames {
		f := &frames[i]
		f.Number, f.Window = uint64(i), outcome.Window{From: int64(i) * 2e9, To: int64(i+1) * 2e9}
		f.Time = time.Unix(int64(i+1)*2, 0)
		if err := h.d.Framed(nil, f); err != nil {
			t.Fatal(err)
		}
	}
	h.do(h.d.refresh)
	return h
}

// counted returns an outcome that has counts and nothing else.
func counted(t *testing.T, c outcome.Counts) scope.Outcome {
	t.Helper()
	grid, err := dq.NewGrid(time.Millisecond, 10)
	if err != nil {
		t.Fatal(err)
	}
	observed, err := dq.NewObserved(grid)
	if err != nil {
		t.Fatal(err)
	}
	return scope.Outcome{Name: c.Outcome, Counts: c, Window: outcome.Window{To: 2e9}, Observed: observed}
}

func TestConnection(t *testing.T) {
	status := session.Status{
		VMs: []outcome.VMStatus{
			{VM: outcome.VM{PID: 12, Node: "shop@host"}, Exe: "/usr/lib/erlang/bin/beam.smp", Since: 5e9, Probes: []outcome.ProbeStatus{
				{Name: "user_trace-n123", Sites: 2, Outcomes: []string{"pay", "ship"}},
				{Name: outcome.DiscoveryProbes, Sites: 951, Discover: true},
			}},
			{VM: outcome.VM{PID: 13}, Refused: "it has no probes"},
			{VM: outcome.VM{PID: 14}, Ended: true},
		},
		Wrappers: &session.WrapperStatus{Listen: "127.0.0.1:8080", Started: true, Peers: []wrapper.Peer{
			{Address: "127.0.0.1:38212", VM: outcome.VM{PID: 12}, Connected: true, Active: true, Lines: 100, Rejected: 2, Unwanted: 3},
			{Address: "127.0.0.1:8081", Direction: wrapper.Outbound},
		}},
	}
	for _, width := range []int{80, 120} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			h := live(t, status, width, 50)
			h.keys("c")
			h.shows("shop@host (pid 12)", "since 00:00:05", "/usr/lib/erlang/bin/beam.smp",
				"user_trace-n123    2 sites pay, ship", "user_trace-n*    951 sites discovery",
				"refused", "it has no probes", "pid 14", "ended",
				"listening at 127.0.0.1:8080", "asked to send instances; h stops them", "pid 12; asked to send",
				"100 lines, 2 rejected, 3 of no outcome", "not connected", "VM not known; takes commands", "No window yet.")
			h.keys("h")
			h.shows("asked to send none; r starts them", "beamscope asked the wrappers to stop")
			h.keys("r")
			h.shows("asked to send instances; h stops them", "beamscope asked the wrappers to send instances")
		})
	}
}

func TestNothingConnected(t *testing.T) {
	h := live(t, session.Status{}, 80, 24)
	h.keys("c")
	h.shows("None is observed.", "None are waited for.")
	h.keys("h")
	h.shows("no wrappers are waited for")

	h = start(t, "mm1k", 20, 80, 40, 256, withSnapshots(testSnapshots))
	h.keys("c")
	h.shows("This is a recording: nothing is connected.", "this window")
	h.keys("r")
	h.shows("no wrappers are waited for")
	h.open(testSnapshots, second)
	h.keys("c")
	h.shows("This is a snapshot: nothing is connected to it.", "all of it")
}

// The figures of the last window and of all windows match a calculation by hand.
func TestFigures(t *testing.T) {
	h := live(t, session.Status{}, 80, 50,
		scope.Frame{
			// 1000 events × 2 µs = 2 ms of 2 s, which is 0.1 %; 20 ms of ours are 1 %.
			Cost:     outcome.Cost{Events: 1000, PerEvent: 2 * time.Microsecond, Collector: 20 * time.Millisecond},
			Outcomes: []scope.Outcome{counted(t, outcome.Counts{Outcome: "a", Successes: 7, Failures: 2, Timeouts: 1, Orphans: 3, Lates: 4, Unobserved: true, Loss: outcome.Loss{NoRoom: 5, Cut: 1}})},
			Rejected: outcome.Rejected{Count: 6, Last: `"x": no name`},
			Notices:  []outcome.Notice{{Text: "a new history begins"}},
		},
		scope.Frame{
			// 3000 × 4 µs = 12 ms of 2 s, 0.6 %. Of both: 14 ms of 4 s, 0.35 %, and 14 ms of
			// 4000 events, 3.5 µs. Ours: 80 ms of 4 s, 2 %.
			Cost:     outcome.Cost{Events: 3000, PerEvent: 4 * time.Microsecond, Collector: 60 * time.Millisecond},
			Outcomes: []scope.Outcome{counted(t, outcome.Counts{Outcome: "a", Successes: 20, Loss: outcome.Loss{NoRoom: 2}})},
		})
	h.keys("c")
	for name, want := range map[string][2]string{
		"events a second":   {"1500", "1000"},
		"price of an event": {"4.00µs", "3.50µs"},
		"of a core, in VMs": {"0.60%", "0.35%"},
		"of a core, here":   {"3.00%", "2.00%"},
		"instances":         {"20", "30"},
		"orphans       ends whose start was not seen":        {"0", "3"},
		"late          ends of what had ended before":        {"0", "4"},
		"not observed  windows, as a whole":                  {"0", "1"},
		"rejected      lines that were not understood":       {"0", "6"},
		"no room       too many spans were open":             {"2", "7"},
		"cut           open at a change, or at the VM's end": {"0", "1"},
		"in all": {"2", "8"},
		"missed        we were late, or clocks differ":    {"0", "0"},
		"unreadable    an argument could not be read":     {"0", "0"},
		"exits         exits that found no room":          {"0", "0"},
		"crowded       of VMs beyond the 64th":            {"0", "0"},
		"rejected      a line was not understood":         {"0", "0"},
		"                                               ": {"this window", "since 00:00:02"},
	} {
		h.shows(fmt.Sprintf("║%-51s%12s%15s║", name, want[0], want[1]))
	}
	h.shows(`the last, 00:00:02: "x": no name`, "00:00:02 a new history begins")
}

// Unknown prices are shown as unknown.
func TestUnknownPrice(t *testing.T) {
	h := live(t, session.Status{}, 120, 50,
		scope.Frame{Cost: outcome.Cost{Events: 10, PerEvent: 2 * time.Millisecond}},
		scope.Frame{Cost: outcome.Cost{Events: 10}})
	h.keys("c")
	h.shows("of a core, in VMs     not known         ≥0.50%", "price of an event     not known         2.00ms")
}
