package session_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/internal/session"
)

// A name that is wrong is said to be, once, and one that is right is not.
func TestMissing(t *testing.T) {
	r := start(t, []string{"mm1k", "rate=200", "loops=0", "delay=1"}, "window: 200ms\ndiagram: p = worker_1 -> wroker_2;\noutcomes: {}\n", session.Options{})
	const want = `no span named "wroker_2" has been seen: is that the name, and is it started in this VM?`
	texts := func() []string {
		r.mu.Lock()
		defer r.mu.Unlock()
		return slices.Clone(r.notices)
	}
	said := func() (n int) {
		for _, text := range texts() {
			if strings.Contains(text, "no span named") {
				n++
				if text != want {
					t.Fatalf("%s", text)
				}
			}
		}
		return n
	}
	r.await(t, "what is missing", func() bool { return said() > 0 })
	r.next(8)
	if n := said(); n != 1 {
		t.Errorf("said %d times", n)
	}
}
