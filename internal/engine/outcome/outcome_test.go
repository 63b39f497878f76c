package outcome_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// Statuses, VMs and pids have the expected texts.
func TestStrings(t *testing.T) {
	for _, test := range []struct {
		value interface{ String() string }
		want  string
	}{
		{outcome.Success, "success"},
		{outcome.Failure, "failure"},
		{outcome.Timeout, "timeout"},
		{outcome.Status(9), "Status(9)"},
		{outcome.VM{}, "no VM"},
		{outcome.VM{PID: 7}, "pid 7"},
		{outcome.VM{PID: 7, Node: "a@b"}, "a@b (pid 7)"},
		{outcome.PID(123), "<0.123.0>"},
		{outcome.PID(4294967295 | 2<<32 | 3<<48), "<3.4294967295.2>"},
	} {
		if got := test.value.String(); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

// Every time belongs to exactly one window, and Number returns that window's number. Windows are
// half-open.
func TestWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := outcome.Plan{
			From:   rapid.Int64Range(0, 1<<50).Draw(t, "start"),
			Window: time.Duration(rapid.Int64Range(1, 1<<40).Draw(t, "length")),
		}
		at := w.From + rapid.Int64Range(0, 1<<55).Draw(t, "after")
		n := w.Number(at)
		if !w.At(n).Contains(at) || w.At(n+1).Contains(at) || n > 0 && w.At(n-1).Contains(at) {
			t.Fatalf("%d is not in window %d alone: %+v", at, n, w.At(n))
		}
		if w.At(n).Duration() != w.Window || w.At(n).To != w.At(n+1).From {
			t.Fatalf("window %d is %+v, the next %+v", n, w.At(n), w.At(n+1))
		}
	})
	w := outcome.Window{From: 10, To: 20}
	for at, want := range map[int64]bool{9: false, 10: true, 19: true, 20: false} {
		if w.Contains(at) != want {
			t.Errorf("%+v contains %d: %v", w, at, !want)
		}
	}
}

// Add adds every counter and every reason of loss, and Total counts every reason.
// Fields are set by reflection, so that a new one cannot be forgotten.
func TestCountsAddUp(t *testing.T) {
	a := outcome.Counts{Outcome: "o", VM: outcome.VM{PID: 1}}
	b, want := a, a
	fields := setAll(reflect.ValueOf(&a).Elem(), 1)
	setAll(reflect.ValueOf(&b).Elem(), 100)
	setAll(reflect.ValueOf(&want).Elem(), 101)
	if fields != 19 {
		t.Errorf("%d counters", fields)
	}
	if diff := cmp.Diff(want, a.Add(b)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := a.Loss.Total(); got != 8 {
		t.Errorf("the total of 8 reasons is %d", got)
	}
	if got := a.Instances(); got != 3 {
		t.Errorf("%d instances of 3 statuses", got)
	}
}

// setAll sets the counters of a struct and of the structs in it, and returns their number.
func setAll(v reflect.Value, to uint64) int {
	n := 0
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Uint64:
			f.SetUint(to)
			n++
		case reflect.Struct:
			n += setAll(f, to)
		}
	}
	return n
}

// An instance's delay lasts from its start to its end. dMax is the width of all bins.
func TestDelays(t *testing.T) {
	if got := (outcome.Instance{Start: 100, End: 350}).Elapsed(); got != 250 {
		t.Errorf("elapsed %v", got)
	}
	if got := (outcome.Spec{BinWidth: time.Millisecond, Bins: 50}).DMax(); got != 50*time.Millisecond {
		t.Errorf("dMax %v", got)
	}
}
