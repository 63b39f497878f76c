package bpf

import "testing"

func TestMeasureTrap(t *testing.T) {
	d, err := MeasureTrap()
	if err != nil {
		t.Fatal(err)
	}
	t.Log(d)
}
