package bpf

import (
	"slices"
	"testing"
	"time"
)

func TestParseProcessors(t *testing.T) {
	for text, want := range map[string][]int{"0": {0}, "0-3": {0, 1, 2, 3}, "0-1,4,6-7": {0, 1, 4, 6, 7}, "": nil, "3-1": nil, "0-9999999": nil, "-1": nil, "a": nil} {
		if all, err := parseProcessors(text); !slices.Equal(all, want) || (err == nil) != (want != nil) {
			t.Errorf("%q: %v %v", text, all, err)
		}
	}
}

// There is room for all samples that a window can have, within limits.
func TestSampleRows(t *testing.T) {
	for _, test := range []struct {
		opts       SamplerOptions
		processors int
		want       uint32
	}{
		{SamplerOptions{Rate: 99, Window: int64(time.Second)}, 64, 6969},
		{SamplerOptions{Rate: 99, Window: int64(100 * time.Millisecond)}, 2, 256},
		{SamplerOptions{Rate: 999, Window: int64(10 * time.Second)}, 512, maxSampleRows},
		{SamplerOptions{Rows: 7}, 1, 7},
	} {
		if n := test.opts.rows(test.processors); n != test.want {
			t.Errorf("%+v: %d", test, n)
		}
	}
}
