package dtrace

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrRefused means that a probe must not be attached to on a release of Erlang/OTP,
// because it is not known to be harmless there.
var ErrRefused = errors.New("refused")

// Releases returns the releases of Erlang/OTP that the catalogue knows, such as 27, the oldest
// first. On each of them a test attached to all harmless probes while a VM caused their events.
func Releases() []int { return []int{25, 27, 29} }

// KnownRelease reports whether the catalogue knows a release of Erlang/OTP.
func KnownRelease(release int) bool { return slices.Contains(Releases(), release) }

// Refusal returns why attaching to the probe is refused on a release of Erlang/OTP, or "" if it is
// allowed. The release 0 is an unknown one.
func (p Probe) Refusal(release int) string {
	switch {
	case slices.Contains(p.Harmless, release):
		return ""
	case !KnownRelease(release):
		return fmt.Sprintf("attaching was tried on %s only", releaseList(Releases()))
	case p.Hazard != "":
		return p.Hazard
	}
	return "attaching to it was never tried"
}

// Refuse returns nil if attaching to a probe is allowed on a release of Erlang/OTP, and otherwise
// an error that wraps [ErrRefused] and gives the reason. The name is in either form. Probes that
// the catalogue does not have are refused.
func Refuse(probe string, release int) error {
	p, known := Lookup(probe)
	why := p.Refusal(release)
	switch {
	case why == "":
		return nil
	case !known && KnownRelease(release):
		why = "it is not in the catalogue"
	}
	return fmt.Errorf("%s is %w on %s: %s", Hyphened(probe), ErrRefused, ReleaseName(release), why)
}

// ReleaseName returns a release in words: "OTP 27".
func ReleaseName(release int) string {
	if release == 0 {
		return "a release of OTP that its executable does not tell"
	}
	return "OTP " + strconv.Itoa(release)
}

// releaseList returns releases in words: "OTP 25, 27 and 29".
func releaseList(releases []int) string {
	var words []string
	for _, r := range releases {
		words = append(words, strconv.Itoa(r))
	}
	last := len(words) - 1
	if last == 0 {
		return "OTP " + words[0]
	}
	return "OTP " + strings.Join(words[:last], ", ") + " and " + words[last]
}
