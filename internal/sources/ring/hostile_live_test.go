package ring

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// awaitNotice collects windows until a notice contains a text.
func (r *run) awaitNotice(text string) {
	r.t.Helper()
	for !slices.ContainsFunc(r.notices, func(n outcome.Notice) bool { return strings.Contains(n.Text, text) }) {
		r.collectTo(r.plan.At(r.number).From)
	}
}

// array begins Erlang expressions that write to the words of a ring, counted from 1.
const array = `A = element(2, persistent_term:get(beamscope_ring_5)), `

// If a VM damages its ring while it is read, a notice says so. The spans that are open are lost, and
// later windows are not observed.
func TestDamagedRing(t *testing.T) { onBoth(t, damagedRingOn) }

func damagedRingOn(t *testing.T, otp erlang.OTP) {
	for _, test := range []struct{ what, damage, notice string }{
		{"a head goes back", `atomics:put(A, 65, 5)`, "ring 0 went from"},
		{"a head is far ahead", `atomics:put(A, 65, 1 bsl 60)`, "ring 0 went from"},
		{"its beginning is overwritten", `atomics:put(A, 1, 7)`, "it does not begin as one"},
		{"it is not ready any more", `atomics:put(A, 16, 0)`, "it does not begin as one"},
		{"a control word is overwritten", `atomics:put(A, 66, 1 bsl 63)`, "the control word of ring 0"},
		{"it is freed", `persistent_term:erase(beamscope_ring_5), persistent_term:erase(beamscope_facilities_5)`, "read a ring at"},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			beam := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Ring, Args: []string{"+S", "1:1", "+MMmcs", "0"}}) // freed memory is unmapped at once
			r := observe(t, beam, spec("a", time.Second))
			r.awaitObserved()
			vmtest.Eval(t, beam, `[beamscope:start_span(<<"a">>) || _ <- [1, 2, 3]], `+array+test.damage+`, ok`)
			r.awaitNotice("are not read any more")
			r.awaitNotice(test.notice)
			r.collectTo(monotonic.Now() + 2*int64(time.Second))
			if n := r.total["a"]; n.Starts > 3 || n.Instances() != 0 || n.Loss.Missed != n.Starts || !n.Unobserved {
				t.Errorf("%+v", n)
			}
			if r.lastObserved {
				t.Error("the windows after it are observed")
			}
		})
	}
}

// If the memory of a ring is freed and the VM makes another ring, the first one is not read any more, and a
// notice says so. Its open spans are lost, and later windows are not observed. A collector that begins
// then reads the other ring.
func TestMovedRing(t *testing.T) { onBoth(t, movedRingOn) }

func movedRingOn(t *testing.T, otp erlang.OTP) {
	beam := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Ring, Args: []string{"+S", "1:1", "+MMmcs", "0"}}) // freed memory is unmapped at once
	first := observe(t, beam, spec("a", time.Second))
	first.awaitObserved()
	vmtest.Eval(t, beam, `[beamscope:start_span(<<"a">>) || _ <- [1, 2, 3]], ok`)
	first.collectTo(monotonic.Now())
	vmtest.Eval(t, beam, `[persistent_term:erase(K) || {K, _} <- persistent_term:get(), K =:= beamscope_ring_5 orelse element(1, K) =:= beamscope_ring_5],
		persistent_term:erase(beamscope_facilities_5), Keep = binary:copy(<<1>>, 1 bsl 24), ok = beamscope:with_span(<<"a">>, fun() -> ok end), persistent_term:put(keep, Keep)`)
	first.awaitNotice("are not read any more")
	second := observe(t, beam, spec("a", time.Second))
	second.awaitObserved()
	want := recordedSpans(t, beam, 50)
	second.collectTo(monotonic.Now())
	second.mustCount(want)
	first.collectTo(monotonic.Now() + 2*int64(time.Second))
	if n := first.total["a"]; n.Starts != 3 || n.Instances() != 0 || n.Loss.Missed != 3 || !n.Unobserved || first.lastObserved {
		t.Errorf("the first ring: %+v", n)
	}
}

// A ring that describes itself wrongly is not read, and a notice says so. It is read when it is right.
func TestLyingRing(t *testing.T) {
	otp := vmtest.Private(t)
	for _, test := range []struct{ what, lie, truth string }{
		{"200 rings", `P = atomics:exchange(A, 5, 200)`, `atomics:put(A, 5, P)`},
		{"2^60 slots", `P = atomics:exchange(A, 6, 60)`, `atomics:put(A, 6, P)`},
		{"it is longer than the memory", `[P, X] = [atomics:get(A, W) || W <- [6, 4]], atomics:put(A, 6, 24), atomics:put(A, 14, atomics:get(A, 9) + (2 bsl 24)), atomics:put(A, 4, atomics:get(A, 9) - 1 + (3 bsl 24))`,
			`atomics:put(A, 6, P), atomics:put(A, 14, atomics:get(A, 9) + (2 bsl P)), atomics:put(A, 4, X)`},
		{"its slots are elsewhere", `atomics:add(A, 9, 1 bsl 40)`, `atomics:sub(A, 9, 1 bsl 40)`},
		{"a head before its beginning", `P = atomics:exchange(A, 65, 3)`, `atomics:put(A, 65, P)`},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			beam := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Ring, Args: []string{"+S", "1:1"}})
			vmtest.Eval(t, beam, `Self = self(), spawn(fun() -> register(liar, self()), `+array+test.lie+`, Self ! lies, receive truth -> ok end, `+test.truth+` end), receive lies -> ok end`)
			r := observe(t, beam, spec("a", time.Second))
			r.awaitNotice(ErrLayout.Error())
			if r.Found() || !r.total["a"].Unobserved {
				t.Errorf("it is read: %v, and the windows are %+v", r.Found(), r.total["a"])
			}
			vmtest.Eval(t, beam, `Monitor = monitor(process, liar), liar ! truth, receive {'DOWN', Monitor, process, _, _} -> ok end`)
			r.awaitObserved()
			want := recordedSpans(t, beam, 10)
			r.collectTo(monotonic.Now())
			r.mustCount(want)
		})
	}
}
