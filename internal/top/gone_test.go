package top

import (
	"strings"
	"testing"

	"github.com/beamscope/beamscope/internal/outcome"
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
