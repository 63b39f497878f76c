package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/beamscope/beamscope/internal/engine/price"
	"github.com/beamscope/beamscope/internal/files/config"
)

// firstLook returns the outcomes of the VM that are observed from the beginning without a scope
// file, because they cost next to nothing. Others are added one after the other while there are
// no spans.
func firstLook() []string { return []string{"gc", "file-io"} }
func laterLook() []string { return []string{"run", "message"} }

// withLook returns the configuration with these outcomes of the VM.
func withLook(c config.Config) (config.Config, error) {
	for _, name := range firstLook() {
		scale, _ := config.BuiltinScale(name)
		scale.Fitted = true
		var err error
		if c, err = c.WithBuiltin(name, scale); err != nil {
			return c, err
		}
	}
	return c, nil
}

// A shareFlag is a share of a core, such as 10% or 0.1. It implements [pflag.Value].
type shareFlag float64

const (
	maxShare = 10_000 // no machine has more cores
	maxPlain = 1      // without %; a larger number is more likely a forgotten %
)

// Set implements [pflag.Value].
func (s *shareFlag) Set(text string) error {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	most := float64(maxPlain)
	x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		x, most = x/100, maxShare
	}
	if err == nil && !percent && x > maxPlain && x <= 100*maxShare {
		return fmt.Errorf("a number without %% is a part of a core, at most 1: did you mean %s%%?", number)
	}
	if err != nil || !(x >= 0 && x <= most) {
		return errors.New("not a share of a core: write 10% or 0.1")
	}
	*s = shareFlag(x)
	return nil
}

// String implements [pflag.Value].
func (s *shareFlag) String() string { return strconv.FormatFloat(float64(*s)*100, 'g', -1, 64) + "%" }

// Type implements [pflag.Value].
func (*shareFlag) Type() string { return "share" }

// limit returns the limit; a share of 0 means no limit.
func (s shareFlag) limit() price.Limit { return price.Limit{Share: float64(s)} }
