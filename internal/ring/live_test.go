package ring

import (
	"testing"
	"time"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/usdt"
)

type counter struct{ starts, ends, fails, lates, orphans int }

func (c *counter) started(uint16, int64) { c.starts++ }
func (c *counter) ended(e *ended) {
	c.ends++
	if e.failed {
		c.fails++
	}
}
func (c *counter) late(uint16, int64)   { c.lates++ }
func (c *counter) orphan(uint16, int64) { c.orphans++ }

func TestLive(t *testing.T) {
	otp, err := erlang.FindOTP(t.Context())
	if err != nil {
		t.Skip(err)
	}
	vm, err := erlang.StartVM(t.Context(), otp, erlang.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer vm.Stop()
	if _, err := vm.Call(t.Context(), "beamscope", "start_span", `[<<"first">>]`); err != nil {
		t.Fatal(err)
	}
	p, err := usdt.OpenProcess(vm.PID())
	if err != nil {
		t.Fatal(err)
	}
	memory, err := p.WritableMemory()
	if err != nil {
		t.Fatal(err)
	}
	s, err := newScanner(p, memory)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	address, err := s.find(t.Context(), vm.PID())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("found at %#x in %v", address, time.Since(began))
	r, err := open(memory, address, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r.header)
	var l lease
	if silent, err := r.renew(&l, control{sample: 0xffff}, monotonic.Now()); err != nil || silent {
		t.Fatal(silent, err)
	}
	out, err := vm.Call(t.Context(), "span_load", "run", `[#{procs => 4, spans => 5000}]`)
	t.Log(out, err)
	c := new(counter)
	pair := newPairer(r.pending, c)
	lost, err := r.records(monotonic.Now(), pair.add)
	pair.settle()
	t.Logf("%+v lost %d open %d early %d err %v", *c, lost, len(pair.open), len(pair.early), err)
	for i := range uint16(5) {
		t.Log(r.text(i))
	}
}
