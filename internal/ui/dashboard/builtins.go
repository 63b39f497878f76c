package dashboard

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/engine/autorange"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/ui/tui"
)

// addHelp describes the key that adds outcomes.
const addHelp = "add or remove outcomes of the VM and discovered spans"

// errRecordedOnly means that a recording contains no other outcomes to add.
var errRecordedOnly = errors.New("a recording has the outcomes that were recorded, and no more")

// A choice is something that the dashboard can start or stop observing.
type choice struct {
	line          string // text in the list
	builtin, span string // exactly one of the two is set
}

// choices returns the outcomes that are built into the VM, and the discovered spans that have no
// outcome.
func (d *Dashboard) choices() []choice {
	var all []choice
	for _, b := range dtrace.Builtins() {
		all = append(all, choice{line: fmt.Sprintf("%s %s", tui.Fit(b.Name, 10, false), b.Cost), builtin: b.Name})
	}
	if a := d.attached(); a != nil {
		for _, name := range a.Status().Beyond {
			all = append(all, choice{line: "span «" + name + "»", span: name})
		}
	}
	return all
}

// addOutcomes asks which further outcomes to observe.
func (d *Dashboard) addOutcomes() {
	_, recorded := d.control.(player)
	switch {
	case d.scene != d.live:
		d.fail(errSnapshot)
		return
	case recorded:
		d.fail(errRecordedOnly)
		return
	}
	all := d.choices()
	lines := make([]string, len(all))
	var ticked []string
	c := d.control.Config()
	for i, x := range all {
		lines[i] = x.line
		if x.builtin != "" && slices.ContainsFunc(c.Outcomes, func(o config.Outcome) bool { return o.VM.Builtin == x.builtin }) {
			ticked = append(ticked, x.line)
		}
	}
	d.pick("outcomes of the VM, and what they cost", lines, ticked, func(chosen []string) error {
		var add, drop []choice
		for _, x := range all {
			was, is := slices.Contains(ticked, x.line), slices.Contains(chosen, x.line)
			switch {
			case is && !was:
				add = append(add, x)
			case was && !is:
				drop = append(drop, x)
			}
		}
		if len(add)+len(drop) > 0 {
			d.choose(add, drop)
		}
		return nil
	})
}

// choose adds and removes outcomes.
func (d *Dashboard) choose(add, drop []choice) {
	d.change("changing what is observed", func(c *config.Config) (err error) {
		for _, x := range drop {
			c.Outcomes = slices.DeleteFunc(c.Outcomes, func(o config.Outcome) bool { return o.VM.Builtin == x.builtin })
		}
		for _, x := range add {
			if x.span != "" {
				*c, err = c.WithSpan(x.span, autorange.Start(c.Base))
			} else {
				scale, _ := config.BuiltinScale(x.builtin)
				scale.Fitted = true
				*c, err = c.WithBuiltin(x.builtin, scale)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}, func(err error) {
		if err != nil {
			d.fail(err)
			return
		}
		d.say(good, "from the next window on: "+chosen(add, drop))
	})
}

// chosen describes what was added and removed.
func chosen(add, drop []choice) string {
	var parts []string
	for _, x := range add {
		if x.span != "" {
			parts = append(parts, "also «"+x.span+"»")
		} else {
			parts = append(parts, "also "+x.builtin)
		}
	}
	for _, x := range drop {
		parts = append(parts, x.builtin+" no more")
	}
	return strings.Join(parts, ", ")
}
