package dq

import (
	"errors"
	"reflect"
	"testing"
	"time"
)

// No method of a nil DeltaQ or of a zero value panics for any argument. These values have no
// data.
func TestZeroValuesDoNotPanic(t *testing.T) {
	for _, v := range []any{
		(*DeltaQ)(nil), new(DeltaQ), new(Observed), new(Window), new(Comparison), new(Calculator),
		new(Judgement), Grid{}, QTA{}, Bounds{}, Interval{},
	} {
		value := reflect.ValueOf(v)
		for i := range value.NumMethod() {
			name := value.Type().String() + "." + value.Type().Method(i).Name
			for _, zero := range []bool{true, false} {
				func() {
					defer func() {
						if r := recover(); r != nil {
							t.Errorf("%s panics: %v", name, r)
						}
					}()
					method := value.Method(i)
					method.Call(arguments(method.Type(), zero))
				}()
			}
		}
	}
}

// arguments returns zero values or small values. A first argument that is a pointer is never nil,
// because a method may write to it.
func arguments(f reflect.Type, zero bool) []reflect.Value {
	var out []reflect.Value
	n := f.NumIn()
	if f.IsVariadic() {
		n--
	}
	for i := range n {
		in := f.In(i)
		switch {
		case in.Kind() == reflect.Pointer && (i == 0 || !zero):
			out = append(out, reflect.New(in.Elem()))
		case zero:
			out = append(out, reflect.Zero(in))
		case in.Kind() == reflect.Int || in.Kind() == reflect.Int64:
			out = append(out, reflect.ValueOf(3).Convert(in))
		case in.Kind() == reflect.Uint64:
			out = append(out, reflect.ValueOf(uint64(3)))
		case in.Kind() == reflect.Float64:
			out = append(out, reflect.ValueOf(0.5))
		default:
			out = append(out, reflect.Zero(in))
		}
	}
	return out
}

// A zero Window has no room, and rejects every ΔQ.
func TestEmptyWindow(t *testing.T) {
	var w Window
	d, err := Wait(mustGrid(t, ms, 10), 3*ms)
	if err != nil {
		t.Fatal(err)
	}
	o, err := FromDelays(mustGrid(t, ms, 10), []time.Duration{ms}, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Insert(o); !errors.Is(err, ErrGrid) {
		t.Errorf("insert: %v", err)
	}
	if err := w.Insert(nil); !errors.Is(err, ErrNoData) {
		t.Errorf("insert nil: %v", err)
	}
	for _, d := range []*DeltaQ{d, Never(), Immediate()} {
		if err := w.InsertCalculated(d, 1); !errors.Is(err, ErrGrid) {
			t.Errorf("insert calculated: %v", err)
		}
	}
	w.RemoveOldest()
	if w.Len() != 0 {
		t.Error("the zero Window contains a ΔQ")
	}
}
