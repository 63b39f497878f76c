package dashboard

import (
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/session"
)

// A message longer than a line can be read to its end, on a small screen too.
func TestLongMessage(t *testing.T) {
	h := start(t, "mm1k", 20, 40, 10, 256)
	const text = "the end: pid 3 exited. What was seen is still here. q quits"
	h.do(func() { h.d.say(plain, text) })
	if got := strings.Join(strings.Fields(h.text()), " "); !strings.Contains(got, text) {
		t.Errorf("the screen has no %q:\n%s", text, h.text())
	}
	h.do(func() { h.d.say(plain, "short") })
	if lines := strings.Split(strings.TrimRight(h.text(), "\n"), "\n"); strings.TrimSpace(lines[len(lines)-2]) != "short" {
		t.Errorf("a short message takes more than a line:\n%s", h.text())
	}
}

// If all outcomes that had instances are silent, the head shows for how long, and does not look
// healthy.
func TestSilentHead(t *testing.T) {
	grid, err := dq.NewGrid(time.Millisecond, 10)
	if err != nil {
		t.Fatal(err)
	}
	observed, err := dq.NewObserved(grid)
	if err != nil {
		t.Fatal(err)
	}
	probe := func(seen bool, silent time.Duration) scope.Outcome {
		return scope.Outcome{Name: "p", VM: outcome.VM{PID: 1}, Window: outcome.Window{To: 2e9}, Observed: observed, Seen: seen, Silent: silent}
	}
	for _, test := range []struct {
		probes []scope.Outcome
		want   string
	}{
		{[]scope.Outcome{probe(true, 18*time.Second), probe(true, 12*time.Second)}, "● live, silent 12s │"},
		{[]scope.Outcome{probe(true, 18*time.Second), probe(false, 0)}, "● live, silent 18s │"},
		{[]scope.Outcome{probe(true, 18*time.Second), probe(true, 0)}, "● live │"},
		{[]scope.Outcome{probe(false, 0)}, "● live │"},
	} {
		h := live(t, session.Status{}, 120, 40, scope.Frame{Outcomes: test.probes})
		h.do(func() {
			h.d.head()
			if text := h.d.header.GetText(true); !strings.Contains(text, test.want) {
				t.Errorf("%q, want %q", text, test.want)
			}
			h.d.ended = true
			h.d.head()
			if text := h.d.header.GetText(true); !strings.Contains(text, "■ ended │") {
				t.Errorf("at the end: %q", text)
			}
		})
		h.stop()
	}
}

// The head reports that the VM has exited or is stopped, and does not report silence then.
func TestHeadWithoutVM(t *testing.T) {
	grid, err := dq.NewGrid(time.Millisecond, 10)
	if err != nil {
		t.Fatal(err)
	}
	observed, err := dq.NewObserved(grid)
	if err != nil {
		t.Fatal(err)
	}
	frame := scope.Frame{Outcomes: []scope.Outcome{{Name: "p", VM: outcome.VM{PID: 3}, Window: outcome.Window{To: 2e9}, Observed: observed}}}
	running, ended := outcome.VMStatus{VM: outcome.VM{PID: 2}}, outcome.VMStatus{VM: outcome.VM{PID: 3}, Ended: true}
	stopped := outcome.VMStatus{VM: outcome.VM{PID: 4}, Stopped: "stopped by a signal"}
	refused := outcome.VMStatus{VM: outcome.VM{PID: 5}, Refused: "no probes"}
	for _, test := range []struct {
		vms  []outcome.VMStatus
		want string
	}{
		{[]outcome.VMStatus{running}, "● live │"},
		{[]outcome.VMStatus{ended, refused}, "● live, no VM: pid 3 exited │"},
		{[]outcome.VMStatus{running, ended}, "● live │"},
		{[]outcome.VMStatus{running, ended, stopped}, "● live, pid 4 stopped │"},
		{[]outcome.VMStatus{refused}, "● live │"},
	} {
		h := live(t, session.Status{VMs: test.vms}, 120, 40, frame)
		h.do(func() {
			h.d.head()
			if text := h.d.header.GetText(true); !strings.Contains(text, test.want) {
				t.Errorf("%q, want %q", text, test.want)
			}
		})
		h.stop()
	}
}
