package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/beamscope/beamscope/internal/scope"
)

// A windowChoice says which window of a replay is wanted.
type windowChoice struct {
	kind   windowKind
	text   string // as it was given
	number uint64
	time   time.Time // with the year 0: a time of the day
}

type windowKind uint8

const (
	windowDefault windowKind = iota // fired of a snapshot, last of a recording
	windowLast                      // of which anything is known
	windowFired                     // that fired the snapshot; of a recording the first that fired anything
	windowNumber
	windowTime // within which it lies
)

// parseWindow parses what --window says; an empty text is the default.
func parseWindow(text string) (windowChoice, error) {
	c := windowChoice{text: text}
	switch text {
	case "":
		return c, nil
	case "last":
		c.kind = windowLast
		return c, nil
	case "fired":
		c.kind = windowFired
		return c, nil
	}
	var err error
	if c.number, err = strconv.ParseUint(text, 10, 64); err == nil {
		c.kind = windowNumber
		return c, nil
	}
	c.kind = windowTime
	for _, layout := range []string{"15:04:05", "2006-01-02 15:04:05"} { // a fraction may follow
		if c.time, err = time.ParseInLocation(layout, text, time.Local); err == nil {
			return c, nil
		}
	}
	if c.time, err = time.Parse(time.RFC3339, text); err == nil {
		return c, nil
	}
	return c, fmt.Errorf("--window %s: not a number, a time such as 15:04:05.000, fired or last", text)
}

// chooses tells whether a window is the one, and whether no later one can be. Given
// are whether it fired the snapshot, and whether it is of a snapshot at all.
func (c windowChoice) chooses(f *scope.Frame, fired, snapshot bool) (here, done bool) {
	kind := c.kind
	if kind == windowDefault && snapshot {
		kind = windowFired
	}
	switch kind {
	case windowFired:
		here = fired || !snapshot && len(f.Fired) > 0
	case windowNumber:
		here = f.Number == c.number
	case windowTime:
		here = c.within(f)
	default:
		return true, false
	}
	return here, here
}

// within tells whether the time lies in a window, its end included, as that is what
// is shown of windows.
func (c windowChoice) within(f *scope.Frame) bool {
	t := c.time
	if t.Year() == 0 {
		end := f.Time.Local()
		t = time.Date(end.Year(), end.Month(), end.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.Local)
		if t.After(end) {
			t = t.AddDate(0, 0, -1) // the window began before midnight
		}
	}
	before := f.Time.Sub(t)
	return before >= 0 && before < f.Window.Duration()
}

// String returns the choice as in messages.
func (c windowChoice) String() string {
	switch c.kind {
	case windowFired, windowDefault:
		return "in which a trigger fired"
	case windowTime:
		return "at " + c.text
	}
	return c.text
}

// An extent is of which windows a recording is.
type extent struct {
	count       int
	first, last uint64
	from, to    time.Time
}

// add adds a window.
func (s *extent) add(f *scope.Frame) {
	if s.count == 0 {
		s.first, s.from = f.Number, f.Time.Add(-f.Window.Duration())
	}
	s.count++
	s.last, s.to = f.Number, f.Time
}

// String says which windows there are.
func (s extent) String() string {
	if s.count == 1 {
		return fmt.Sprintf("there is %d, from %s to %s", s.first, clock(s.from), clock(s.to))
	}
	return fmt.Sprintf("there are %d to %d, from %s to %s", s.first, s.last, clock(s.from), clock(s.to))
}

// clock shows a time by the clock on the wall here.
func clock(t time.Time) string { return t.Local().Format("15:04:05.000") }
