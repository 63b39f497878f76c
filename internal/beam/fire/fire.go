// Package fire makes an Erlang VM cause the events of its probes, counts the probes that really
// fire, and compares that with the catalogue.
//
// It uses a VM of its own, started from a copy of an installation's executable. So other VMs notice
// nothing, even if they run the same executable. The caller chooses the installation. The package
// executes nothing that a running process provides.
package fire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/fire/hits"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/files/trusted"
)

// patience limits the time of the whole test.
const patience = 3 * time.Minute

// Run tests the VM of an installation. It takes some seconds, and not much more than three minutes
// even if the VM misbehaves. When it returns, everything that it started has ended. An error means
// that there is no report. The report contains failed scenarios.
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
	found, err := locate(ctx, private.Emulator())
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
