package vmsource_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// A VM may have the PID of one that has just ended. It is observed under its own name, though it has
// open spans from its beginning on.
func TestReusedPID(t *testing.T) {
	otp := vmtest.Private(t)
	before := vmtest.StartOn(t, otp, node("before@localhost", 43705))
	s := newSourceEvery(t, exe(t, before), 200*time.Millisecond, []outcome.Spec{
		{Name: "load", Span: "load", BinWidth: 10 * time.Millisecond, Bins: 50},
		{Name: "endless", Span: "endless", BinWidth: time.Second, Bins: 3600},
	})
	open := func(v *erlang.VM, n int) {
		vmtest.Eval(t, v, fmt.Sprintf(`_ = [beamscope:start_span(<<"endless">>) || _ <- lists:seq(1, %d)], ok`, n))
	}
	open(before, 3)
	s.collectNow()
	if err := syscall.Kill(before.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var after *erlang.VM
	s.collectDuring(func() {
		<-before.Done()
		after = vmtest.StartWithPID(t, otp, before.PID(), node("after@localhost", 43706))
		open(after, 5)
	})
	s.collectUntil("the other VM", s.noticed(fmt.Sprintf("observing after@localhost (pid %d)", after.PID())))
	run(t, after, 20)
	s.collectUntil("its spans", func() bool {
		return s.totals()[outcome.VM{PID: after.PID(), Node: "after@localhost"}].Successes == 20
	})
}
