package session

import (
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/files/snapshot"
)

// fireIn makes a snapshot of a window whose trigger fires in a VM of a user.
func fireIn(t *testing.T, c config.Config, n int, user string) {
	t.Helper()
	k, err := newKeeper(c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer k.close()
	plan := outcome.Plan{Window: time.Second, Specs: []outcome.Spec{{Name: "a", Span: "a", BinWidth: time.Millisecond, Bins: 1}}}
	if err := k.Configured(&scope.System{}, plan); err != nil {
		t.Fatal(err)
	}
	vm, w := outcome.VM{PID: 10 + n}, plan.At(uint64(n))
	b := &outcome.Batch{Window: w, Time: time.Unix(0, w.To), Owners: map[outcome.VM]string{vm: user}}
	f := &scope.Frame{Number: uint64(n), Window: w, Fired: []scope.Firing{{Trigger: "silence", Outcome: "a", VM: vm}}}
	if err := k.Framed(b, f); err != nil {
		t.Fatal(err)
	}
}

// A user whose VMs fire all the time does not evict the snapshot of another user.
func TestSnapshotsOfUsers(t *testing.T) {
	dir := t.TempDir()
	c := config.Config{Snapshots: config.Snapshots{Dir: dir, Keep: 3, Size: 1 << 30}}
	fireIn(t, c, 0, "user 1")
	for n := range 10 {
		fireIn(t, c, 1+n, "user 2")
	}
	infos, err := snapshot.List(dir)
	if err != nil || len(infos) != 3 {
		t.Fatalf("%+v, %v", infos, err)
	}
	if oldest := infos[2].Causes[0].VM; oldest.PID != 10 {
		t.Errorf("the oldest snapshot is of %v", oldest)
	}
}
