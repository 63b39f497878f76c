package trace

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// sound returns a valid trace.
func sound() *Trace {
	return &Trace{Spans: []Span{
		{Parent: -1, Start: 0, End: 100},
		{Parent: 0, Kind: Running, Start: 0, End: 20},
		{Parent: 0, Kind: Waiting, Start: 20, End: 90, Mark: Inferred},
		{Parent: 2, Kind: Ready, Start: 20, End: 30, Mark: Inferred},
		{Parent: 2, Kind: Waiting, Start: 30, End: 90, Mark: Ambiguous},
		{Parent: 0, Kind: Running, Start: 90, End: 100},
	}}
}

func TestCheck(t *testing.T) {
	if err := sound().Check(); err != nil {
		t.Fatal(err)
	}
	if err := (&Trace{Spans: []Span{{Parent: -1, Start: 5, End: 5}}}).Check(); err != nil {
		t.Error("an instance without duration:", err)
	}
	longest := &Trace{Spans: []Span{{Parent: -1, Start: 5, End: 5 + MaxDuration}, {Kind: Running, Start: 5, End: 5 + MaxDuration}}}
	if err := longest.Check(); err != nil {
		t.Error("the longest instance:", err)
	}
	for _, c := range []struct {
		name  string
		spoil func(*Trace)
		want  string
	}{
		{"nothing", func(t *Trace) { t.Spans = nil }, "without a root"},
		{"too many", func(t *Trace) { t.Spans = make([]Span, MaxSpans+1) }, "257 spans"},
		{"no parts", func(t *Trace) { t.Spans = t.Spans[:1] }, "span 0: it ends at 100, and its children have come to 0"},
		{"a root with a parent", func(t *Trace) { t.Spans[0].Parent = 0 }, "span 0: parent 0"},
		{"a root that is none", func(t *Trace) { t.Spans[0].Kind = Running }, "span 0: kind 1"},
		{"a second root", func(t *Trace) { t.Spans[1].Kind = Root }, "span 1: kind 0"},
		{"a duration that overflows", func(t *Trace) { t.Spans[0].Start, t.Spans[0].End = math.MinInt64, math.MaxInt64 }, "from -9223372036854775808 to 9223372036854775807"},
		{"a root that ends before it starts", func(t *Trace) { t.Spans[0].Start = 101 }, "span 0: parent -1, from 101 to 100"},
		{"too long", func(t *Trace) { t.Spans[0].End, t.Spans[5].End = MaxDuration+1, MaxDuration+1 }, "span 0: 17592186044417 ns: more than 17592186044416"},
		{"a kind that is none", func(t *Trace) { t.Spans[1].Kind = Kinds }, "span 1: kind 16"},
		{"a mark that is none", func(t *Trace) { t.Spans[1].Mark = Marks }, "span 1: mark 3"},
		{"a parent behind", func(t *Trace) { t.Spans[1].Parent = 2 }, "span 1: parent 2"},
		{"its own parent", func(t *Trace) { t.Spans[1].Parent = 1 }, "span 1: parent 1"},
		{"no length", func(t *Trace) { t.Spans[1].End = 0 }, "span 1: from 0 to 0"},
		{"a gap", func(t *Trace) { t.Spans[5].Start = 91 }, "span 5: it starts at 91, and its siblings before it have come to 90"},
		{"an overlap", func(t *Trace) { t.Spans[3].End = 31 }, "span 4: it starts at 30, and its siblings before it have come to 31"},
		{"too short", func(t *Trace) { t.Spans[5].End = 99 }, "span 0: it ends at 100, and its children have come to 99"},
		{"more certain than its parent", func(t *Trace) { t.Spans[3].Mark = Exact }, "span 3: mark 0 below one with mark 1"},
		{"below one that does not wait", func(t *Trace) { t.Spans[2].Kind = Mailbox }, "span 3: below one of kind 4"},
		{"followed though ambiguous", func(t *Trace) { t.Spans[2].Mark, t.Spans[3].Mark = Ambiguous, Ambiguous }, "span 3: below one of kind 7 and mark 2"},
		{"below one that is over", func(t *Trace) {
			t.Spans = append(t.Spans, Span{Parent: 2, Kind: Running, Start: 90, End: 95, Mark: Inferred})
		}, "span 6: it is not below its parent 2"},
		{"overtaken", func(t *Trace) { t.Spans[1].Overtaken = -1 }, "span 1: overtaken by -1"},
		{"behind", func(t *Trace) { t.Spans[1].Behind = -1 }, "span 1: behind -1"},
	} {
		bad := sound()
		c.spoil(bad)
		if err := bad.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestLeaves(t *testing.T) {
	var got []int
	for i, s := range sound().Leaves() {
		if s.Duration() <= 0 {
			t.Errorf("leaf %d of %d ns", i, s.Duration())
		}
		got = append(got, i)
	}
	if want := []int{1, 3, 4, 5}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for range sound().Leaves() {
		break
	}
}
