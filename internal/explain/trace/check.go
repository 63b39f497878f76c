package trace

import (
	"errors"
	"fmt"
	"iter"
)

// MaxSpans is the maximum number of spans of a trace.
const MaxSpans = 256

// MaxDuration is the longest duration of the instance of a trace, in nanoseconds: the sum of 2¹⁸
// such durations does not overflow.
const MaxDuration = 1 << 44

// Leaves returns the indices and spans of the leaves, in order of time. A root without children is
// not a leaf: it has no time to divide.
func (t *Trace) Leaves() iter.Seq2[int, *Span] {
	return func(yield func(int, *Span) bool) {
		inner := make([]bool, len(t.Spans))
		for i := range t.Spans {
			if p := t.Spans[i].Parent; p >= 0 && p < len(inner) {
				inner[p] = true
			}
		}
		for i := range t.Spans {
			if i > 0 && !inner[i] && !yield(i, &t.Spans[i]) {
				return
			}
		}
	}
}

// Check returns an error if a trace is invalid: it is not a tree in depth-first order, the children
// of a span do not divide its time, a kind or mark does not exist, an ambiguous step is followed,
// there are more than [MaxSpans] spans, or it takes longer than [MaxDuration].
func (t *Trace) Check() error {
	if len(t.Spans) == 0 {
		return errors.New("a trace without a root")
	}
	if len(t.Spans) > MaxSpans {
		return fmt.Errorf("%d spans: more than %d", len(t.Spans), MaxSpans)
	}
	divided := make([]int64, len(t.Spans)) // end of the last child so far, by span
	path := []int{0}                       // spans from the root to the previous span
	for i := range t.Spans {
		s := &t.Spans[i]
		divided[i] = s.Start
		if err := t.checkSpan(i); err != nil {
			return fmt.Errorf("span %d: %w", i, err)
		}
		if i == 0 {
			continue
		}
		for len(path) > 0 && path[len(path)-1] != s.Parent {
			path = path[:len(path)-1]
		}
		if len(path) == 0 {
			return fmt.Errorf("span %d: it is not below its parent %d: another one has come in between", i, s.Parent)
		}
		path = append(path, i)
		if s.Start != divided[s.Parent] {
			return fmt.Errorf("span %d: it starts at %d, and its siblings before it have come to %d", i, s.Start, divided[s.Parent])
		}
		divided[s.Parent] = s.End
	}
	for i := range t.Spans {
		s := &t.Spans[i]
		if leaf := divided[i] == s.Start; divided[i] != s.End && !(leaf && i > 0) {
			return fmt.Errorf("span %d: it ends at %d, and its children have come to %d", i, s.End, divided[i])
		}
	}
	return nil
}

// checkSpan checks the fields of a span and its relation to its parent.
func (t *Trace) checkSpan(i int) error {
	s := &t.Spans[i]
	if s.Kind >= Kinds || (s.Kind == Root) != (i == 0) {
		return fmt.Errorf("kind %d", s.Kind)
	}
	if s.Mark >= Marks {
		return fmt.Errorf("mark %d", s.Mark)
	}
	if s.Behind < 0 || s.Parts < 0 {
		return fmt.Errorf("behind %d, parts %d", s.Behind, s.Parts)
	}
	if s.Overtaken < 0 {
		return fmt.Errorf("overtaken by %d", s.Overtaken)
	}
	if i == 0 {
		if s.Parent != -1 || s.End < s.Start || s.Duration() < 0 { // the difference may overflow
			return fmt.Errorf("parent %d, from %d to %d", s.Parent, s.Start, s.End)
		}
		if s.Duration() > MaxDuration {
			return fmt.Errorf("%d ns: more than %d", s.Duration(), int64(MaxDuration))
		}
		return nil
	}
	if s.Parent < 0 || s.Parent >= i {
		return fmt.Errorf("parent %d", s.Parent)
	}
	if s.End <= s.Start {
		return fmt.Errorf("from %d to %d", s.Start, s.End)
	}
	p := &t.Spans[s.Parent]
	if s.Mark < p.Mark {
		return fmt.Errorf("mark %d below one with mark %d", s.Mark, p.Mark)
	}
	if s.Parent > 0 && (p.Mark == Ambiguous || p.Kind != Waiting) {
		return fmt.Errorf("below one of kind %d and mark %d", p.Kind, p.Mark)
	}
	return nil
}
