package outcome

import (
	"context"
	"errors"
	"time"
)

// A Source delivers outcome instances. One goroutine calls its methods.
type Source interface {
	// Plan changes the outcomes. It is called before p.From, which is the end of a window of the
	// old plan. Windows up to there still belong to the old plan. Outcomes with an unchanged spec
	// are observed without a gap. If a spec changes, instances that began before p.From and end
	// later are lost as cut. If only the name or the detail changes, nothing is lost, but the
	// parent and the process of an instance that began before may be unknown. After an error
	// everything stays unchanged. The error wraps [ErrLate] if a later From would work, and the
	// cause of a context that ends before the change is made.
	Plan(ctx context.Context, p Plan) error

	// Collect returns the instances and counts of the window. Windows follow each other without
	// gaps according to the plans. The caller requests each window when it has been over for some
	// time: usually the length of one window, or of one window of the next plan if those are
	// shorter and already wait. The batch, and everything that it refers to, is valid until the
	// next call. When the source has nothing more to deliver, the error wraps [ErrEnded], perhaps
	// with a last batch.
	Collect(ctx context.Context, w Window) (Batch, error)

	// Watch maintains the observation, for example attaches to new VMs, and returns notices for
	// people. Call it about once a second. After the context has ended, it attaches to nothing.
	Watch(ctx context.Context) []Notice

	// Close detaches from everything that the source observes.
	Close() error
}

// A Leaver is a [Source] that can leave out a VM while it observes the others.
type Leaver interface {
	// LeaveOut leaves out a VM for some time, and longer each time, and returns that time. From now
	// on batches contain nothing of the VM: its open instances are not counted. If next is true,
	// the VM pays until the next plan begins. That plan may equal the current one. Everything that
	// is open when it begins is lost as cut. The goroutine of the other methods calls it. The error
	// wraps [ErrNotLeft].
	LeaveOut(v VM) (length time.Duration, next bool, err error)

	// LeaveOutLater leaves out, like LeaveOut, the VMs of a user that are not observed yet, and
	// those that start later. VMs of the user that are already observed stay observed. If
	// executables are attached to for all processes, the batches ask for a new plan
	// ([Batch.Renew]), and those VMs pay until it begins. The error wraps [ErrNotLeft] if the
	// user's later VMs are already left out.
	LeaveOutLater(user int) (length time.Duration, err error)
}

// ErrNotLeft means that a VM cannot be left out, because it is not observed or because no other
// VM is.
var ErrNotLeft = errors.New("the VM cannot be left out")

// A Discoverer is a [Source] that finds the names of spans automatically.
type Discoverer interface {
	// Discovered returns the names of spans that were seen since the last call and belonged to no
	// spec when they were first seen. The goroutine of the other methods calls it.
	Discovered() []Discovery
}

// A Discovery is a name of spans, and the user of the VM where it was first seen.
type Discovery struct {
	Name string
	User int // id
}
