// Package fire makes an Erlang VM do what its probes tell of, counts which of them
// really fire, and compares that with the catalogue.
//
// It does so to a VM of its own, started for the purpose from a copy of an installation's
// executable: other VMs, those too that run the same executable, notice nothing. Which
// installation that is the caller says. Nothing that a running process says is executed.
package fire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/fire/hits"
	"github.com/beamscope/beamscope/internal/trusted"
	"github.com/beamscope/beamscope/internal/vm"
)

// patience is how long the whole test may take.
const patience = 3 * time.Minute

// Run tests the VM of an installation. It takes some seconds and, whatever the VM
// does, not much more than three minutes; when it returns, what it has started is gone.
// The error says why there is no report. That a scenario failed is in the report.
func Run(ctx context.Context, otp erlang.OTP) (report Report, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the VM under test took more than %v", patience))
	defer cancel()
	dir, err := os.MkdirTemp("", "beamscope-fire-")
	if err != nil {
		return Report{}, fmt.Errorf("test a copy of the VM: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if _, err := trusted.Path(dir); err != nil {
		return Report{}, fmt.Errorf("test a copy of the VM: %w", err)
	}
	private, err := otp.Private(dir)
	if err != nil {
		return Report{}, err
	}
	found, err := locate(private.Emulator())
	if err != nil {
		return Report{}, fmt.Errorf("%s: %w", otp.Emulator(), err)
	}
	counter, err := hits.New(private.Emulator(), found.list)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, counter.Close()) }()
	pair, err := startPair(ctx, dir, otp, private)
	if err != nil {
		return Report{}, err
	}
	defer pair.stop()
	flavour := vm.FlavourOf(private.Emulator())
	t := trial{counter: counter, places: found, flavour: flavour, pair: pair}
	results, totals, err := t.run(ctx)
	if err != nil {
		return Report{}, err
	}
	return judge(evidence{
		exe: otp.Emulator(), version: otp.Version, release: found.release, flavour: flavour,
		present: found.present, results: results, totals: totals,
	}, dtrace.Catalogue()), nil
}
