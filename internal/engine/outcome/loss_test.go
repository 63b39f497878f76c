package outcome_test

import (
	"reflect"
	"testing"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// Each counter of a loss has exactly one reason, and counts.
func TestLossReasons(t *testing.T) {
	var l outcome.Loss
	v := reflect.ValueOf(&l).Elem()
	names := make(map[string]bool)
	for i, r := range outcome.LossReasons() {
		*r.Of(&l) = uint64(1) << i
		names[r.Name], names[r.Key] = true, true
	}
	var want uint64
	for i := range v.NumField() {
		want += uint64(1) << i
		if v.Field(i).Uint() == 0 {
			t.Errorf("%s has no reason", v.Type().Field(i).Name)
		}
	}
	if got := l.Total(); got != want {
		t.Errorf("total %d, want %d", got, want)
	}
	if got := l.Add(l).Total(); got != 2*want {
		t.Errorf("the total of the sum of two is %d, want %d", got, 2*want)
	}
	if got := (outcome.Loss{NoRoom: 3}).ByKey(); !reflect.DeepEqual(got, map[string]uint64{"no_room": 3}) {
		t.Errorf("by key: %v", got)
	}
	if got := (outcome.Loss{}).ByKey(); got != nil {
		t.Errorf("by key, of nothing: %v", got)
	}
}
