package intake

import (
	"fmt"
	"testing"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// The number of notices is limited, and the same notice occurs once.
func TestNotices(t *testing.T) {
	n := NewNotices(func() int64 { return 7 })
	for i := range maxNotices + 5 {
		n.Add("notice %d", i)
		n.Add("notice 3")
	}
	got := n.Take()
	want := outcome.Notice{Time: 7, Text: fmt.Sprintf("notice 3 (%d times)", maxNotices+6)}
	if len(got) != maxNotices+1 || got[1] != want || got[maxNotices].Text != "5 more notices" {
		t.Errorf("%d notices: %v", len(got), got)
	}
	if got := n.Take(); got != nil {
		t.Errorf("repeated: %v", got)
	}
}
