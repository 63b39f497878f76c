package scope

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// silentWindows is the number of windows without an instance after which a silence trigger
// without a duration fires.
const silentWindows = 3

// A silence trigger fires if no instance has ended for some time. An outage may look like this:
// nothing fails, because nothing happens.
type silence struct{ after time.Duration } // 0: silentWindows windows

func parseSilence(setting string) (Trigger, error) {
	if setting == isTrue {
		return silence{}, nil
	}
	after, err := time.ParseDuration(setting)
	if err != nil || after <= 0 {
		return nil, fmt.Errorf("%q: write true, or how long nothing may happen, as in 10s", setting)
	}
	return silence{after}, nil
}

func (t silence) Kind() string { return "silence" }

func (t silence) Setting() string {
	if t.after == 0 {
		return isTrue
	}
	return t.after.String()
}

func (t silence) Possible(*OutcomeSystem, bool) error { return nil }

// Patience returns 1, because Check itself compares the duration.
func (t silence) Patience() int { return 1 }

func (t silence) Check(p *Outcome) State {
	if t.after == 0 {
		return fewer(p, 1, p.Silent >= silentWindows*p.Window.Duration())
	}
	return fewer(p, 1, p.Silent >= t.after)
}

func (t silence) Cause(p *Outcome) string {
	text := fmt.Sprintf("no instance has ended for %v", p.Silent)
	if p.Counts.Starts > 0 {
		text += fmt.Sprintf(", %d started in this window", p.Counts.Starts)
	}
	return text
}

// A fall trigger, whose kind is rate, fires if fewer instances end a second than its limit.
type fall struct{ limit float64 } // instances a second

func parseFall(setting string) (Trigger, error) {
	number, below := strings.CutPrefix(strings.TrimSpace(setting), "<")
	limit, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !below || err != nil || !(limit > 0) || limit > maxRate {
		hint := ""
		if err == nil && !below && limit > 0 && limit <= maxRate {
			hint = fmt.Sprintf(": did you mean < %s?", formatShare(limit))
		}
		return nil, fmt.Errorf("%q: write below how many instances a second it fires, as in < 50%s", setting, hint)
	}
	return fall{limit}, nil
}

// maxRate is the largest limit of a rate, in instances a second.
const maxRate = 1e12

func (t fall) Kind() string                        { return "rate" }
func (t fall) Setting() string                     { return "< " + formatShare(t.limit) }
func (t fall) Possible(*OutcomeSystem, bool) error { return nil }

// Patience returns more than 1, because rare instances come unevenly.
func (t fall) Patience() int { return 3 }

func (t fall) Check(p *Outcome) State {
	return fewer(p, t.limit*p.Window.Duration().Seconds(), p.Rate() < t.limit)
}

func (t fall) Cause(p *Outcome) string {
	rate, limit := distinct(p.Rate(), t.limit)
	return fmt.Sprintf("%s instances a second, less than %s", rate, limit)
}

// fewer returns the state of a window, where yes means that fewer instances were counted than the
// limit. The state is insufficient if the window was not completely observed, or if lost
// instances might be the missing ones.
func fewer(p *Outcome, limit float64, yes bool) State {
	possible := float64(p.Counts.Instances() + p.Counts.Loss.Total())
	switch {
	case p.Counts.Unobserved:
		return Insufficient
	case yes && possible >= limit:
		return Insufficient
	}
	return alarmIf(yes)
}
