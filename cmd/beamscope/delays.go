package main

import (
	"strings"
	"time"

	"github.com/beamscope/beamscope/dq"
)

// A delayFlag is the value of a flag that is a delay. It is parsed exactly: a fraction of a
// nanosecond is rejected, not cut off.
type delayFlag struct{ value *time.Duration }

func (f delayFlag) String() string {
	if f.value == nil {
		return ""
	}
	return f.value.String()
}

func (f delayFlag) Type() string { return "delay" }

func (f delayFlag) Set(text string) (err error) {
	*f.value, err = dq.ParseDelay(text)
	return err
}

// A delaysFlag is the value of a flag that is a list of delays, separated by commas or given by
// several flags.
type delaysFlag struct{ values *[]time.Duration }

func (f delaysFlag) String() string {
	if f.values == nil || len(*f.values) == 0 {
		return ""
	}
	var texts []string
	for _, d := range *f.values {
		texts = append(texts, d.String())
	}
	return strings.Join(texts, ",")
}

func (f delaysFlag) Type() string { return "delay" }

func (f delaysFlag) Set(list string) error {
	for _, text := range strings.Split(list, ",") {
		d, err := dq.ParseDelay(strings.TrimSpace(text))
		if err != nil {
			return err
		}
		*f.values = append(*f.values, d)
	}
	return nil
}
