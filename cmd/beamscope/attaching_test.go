package main

import (
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/sources/vmsource"

	"github.com/google/go-cmp/cmp"
)

// The log shows the progress of attaching once a second, and its end if it showed any progress.
// Fast attaching is not logged.
func TestAttachingSaysHowFarItIs(t *testing.T) {
	for _, test := range []struct {
		name string
		each time.Duration // time for each program
		want []string
	}{
		{"quick", 100 * time.Millisecond, nil},
		{"slow", 300 * time.Millisecond, []string{"4 of 9", "8 of 9", "9 of 9"}},
		{"very slow", 5 * time.Second, []string{"1 of 9", "2 of 9", "3 of 9", "4 of 9", "5 of 9", "6 of 9", "7 of 9", "8 of 9", "9 of 9"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			now := time.Unix(1, 0)
			var log strings.Builder
			a := newAttaching(&log, func() time.Time { return now })
			for i := range 9 {
				now = now.Add(test.each)
				a.progress(vmsource.Progress{Loaded: i + 1, All: 9})
			}
			a.end()
			now = now.Add(time.Hour)
			a.progress(vmsource.Progress{Loaded: 1, All: 2})
			var want string
			for _, text := range test.want {
				want += "attaching: " + text + " programs are loaded\n"
			}
			if diff := cmp.Diff(want, log.String()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
