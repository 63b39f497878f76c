package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/vm"
)

func benchEdges(ctx context.Context, length time.Duration) error {
	return errors.ErrUnsupported
}

var _ = fmt.Sprint
var _ = os.Args
var _ tabwriter.Writer
var _ bpf.Event
var _ = monotonic.Now
var _ vm.VM
