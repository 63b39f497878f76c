package snapshot

import (
	"regexp"
	"strings"
	"time"

	"github.com/beamscope/beamscope/internal/files/recording"
)

// The name of a snapshot's file consists of the time of the trigger in UTC, the outcome, if there
// is one, and the trigger.
const (
	timeLayout = "20060102T150405.000Z"
	extension  = ".bsr"
	maxPart    = 64 // characters of an outcome or a trigger
)

// fileName returns the file name of a snapshot that was triggered at a wall time.
func fileName(t time.Time, c *recording.Cause) string {
	name := t.UTC().Format(timeLayout)
	for _, part := range []string{c.Outcome, c.Trigger} {
		if part != "" {
			name += "-" + sanitised(part)
		}
	}
	return name + extension
}

// sanitised returns a text that contains only ASCII letters, digits and _.
func sanitised(text string) string {
	text = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, text)
	return text[:min(len(text), maxPart)]
}

// isName reports whether a snapshot's file may have this name.
func isName(name string) bool {
	ok, err := regexp.MatchString(`^\d{8}T\d{6}\.\d{3}Z(-\w+){0,2}\.bsr$`, name)
	return ok && err == nil
}

// timeOf returns the time in the name of a snapshot's file, or zero if there is none.
func timeOf(name string) time.Time {
	t, err := time.Parse(timeLayout, name[:min(len(name), len(timeLayout))])
	if err != nil {
		return time.Time{}
	}
	return t
}
