package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/beamscope/beamscope/internal/engine/scope"
)

// A windowChoice selects a window of a replay.
type windowChoice struct {
	kind   windowKind
	text   string // the text of the flag
	number uint64
	time   time.Time // the year 0 means a time of day
}

type windowKind uint8

const (
	windowDefault     windowKind = iota // windowSnapshot for a snapshot, otherwise windowLast
	windowLast                          // the last window with data
	windowFired                         // windowSnapshot for a snapshot, otherwise windowFirstFiring
	windowSnapshot                      // the window that triggered the snapshot
	windowFirstFiring                   // the first window in which a trigger fired
	windowNumber
	windowTime // the window that contains the time
)

// parseWindow parses the value of --window. An empty text is the default.
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

// of returns the meaning of the choice for a snapshot, or for another recording.
func (c windowChoice) of(snapshot bool) windowChoice {
	switch {
	case snapshot && (c.kind == windowDefault || c.kind == windowFired):
		c.kind = windowSnapshot
	case c.kind == windowDefault:
		c.kind = windowLast
	case c.kind == windowFired:
		c.kind = windowFirstFiring
	}
	return c
}

// chooses reports whether this is the chosen window, and whether no later one can be. fired means
// that it triggered the snapshot.
func (c windowChoice) chooses(f *scope.Frame, fired bool) (here, done bool) {
	switch c.kind {
	case windowLast:
		return true, false
	case windowSnapshot:
		here = fired
	case windowFirstFiring:
		here = len(f.Fired) > 0
	case windowNumber:
		here = f.Number == c.number
	case windowTime:
		here = c.within(f)
	}
	return here, here
}

// within reports whether the time lies in a window. This includes the end of the window, because
// that is the time shown for it.
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

// String returns the choice as text for messages.
func (c windowChoice) String() string {
	switch c.kind {
	case windowSnapshot, windowFirstFiring:
		return "in which a trigger fired"
	case windowTime:
		return "at " + c.text
	}
	return c.text
}

// An extent is the range of windows of a recording.
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

// String describes the range.
func (s extent) String() string {
	if s.count == 1 {
		return fmt.Sprintf("there is %d, from %s to %s", s.first, clock(s.from), clock(s.to))
	}
	return fmt.Sprintf("there are %d to %d, from %s to %s", s.first, s.last, clock(s.from), clock(s.to))
}

// clock formats a time as local time of day.
func clock(t time.Time) string { return t.Local().Format("15:04:05.000") }
