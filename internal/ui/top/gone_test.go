package top

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// A statused is a source with the status of VMs.
type statused struct {
	outcome.Source
	vms []outcome.VMStatus
}

func (s *statused) Status() []outcome.VMStatus { return s.vms }

// The head reports that the VM is stopped or has exited, because the figures are old then.
func TestHeadWithoutVM(t *testing.T) {
	h := start(t, 80, 24, 256, 3, shop)
	ended, stopped := outcome.VMStatus{VM: shop, Ended: true}, outcome.VMStatus{VM: shop, Stopped: "stopped by a signal"}
	for _, test := range []struct {
		vms  []outcome.VMStatus
		want string
	}{
		{[]outcome.VMStatus{{VM: shop}}, "● live │"},
		{[]outcome.VMStatus{stopped}, "● live, shop@host (pid 1801) stopped │"},
		{[]outcome.VMStatus{ended}, "● live, no VM: shop@host (pid 1801) exited │"},
		{[]outcome.VMStatus{ended, {VM: store}}, "● live │"},
	} {
		h.do(func() {
			h.v.top.source = &statused{vms: test.vms}
			h.v.refresh()
			if text := h.v.header.GetText(true); !strings.Contains(text, test.want) {
				t.Errorf("%q, want %q", text, test.want)
			}
		})
	}
}

// A VM whose events cannot be seen, beside one whose events are, is named below each table, with the
// command that shows what it does.
func TestUnseenVMs(t *testing.T) {
	const one = "no rows of shop@host (pid 1801): its events cannot be seen. beamscope top --sampled --pid 1801 takes samples of it"
	unseen := outcome.VMStatus{VM: shop, Refused: "no probes", NoEvents: true}
	many := []outcome.VMStatus{unseen}
	for pid := range 6 {
		many = append(many, outcome.VMStatus{VM: outcome.VM{PID: pid + 1}, Refused: "no probes", NoEvents: true})
	}
	h := start(t, 160, 24, 256, 3, store)
	for _, test := range []struct {
		vms   []outcome.VMStatus
		want  string
		names int
	}{
		{[]outcome.VMStatus{{VM: store}}, "", 0},
		{[]outcome.VMStatus{{VM: store}, {VM: shop, Refused: "it is no VM"}}, "", 0},
		{[]outcome.VMStatus{{VM: store}, unseen}, one, 1},
		{many, "no rows of shop@host (pid 1801), pid 1, pid 2, pid 3, 3 more: their events cannot be seen. beamscope top --sampled takes samples of all VMs", 7},
	} {
		h.do(func() {
			h.v.top.source = &statused{vms: test.vms}
			h.v.refresh()
			if got := strings.TrimSpace(h.v.without.GetText(true)); got != test.want {
				t.Errorf("the screen says %q, want %q", got, test.want)
			}
		})
		var text, lines strings.Builder
		table := h.v.top.Table()
		if err := errors.Join(NewText(&text, 3).Table(table), NewJSON(&lines, 3).Table(table)); err != nil {
			t.Fatal(err)
		}
		if test.want == "" && strings.Contains(text.String(), "no rows of") || !strings.Contains(text.String(), test.want+"\n") {
			t.Errorf("no %q in\n%s", test.want, text.String())
		}
		var total struct {
			Unseen []struct{ PID int } `json:"unseen_vms"`
		}
		for line := range strings.Lines(lines.String()) {
			if err := json.Unmarshal([]byte(line), &total); err != nil {
				t.Fatal(fmt.Errorf("%w: %s", err, line))
			}
		}
		if len(total.Unseen) != test.names {
			t.Errorf("JSON names %d VMs, want %d", len(total.Unseen), test.names)
		}
	}
}
