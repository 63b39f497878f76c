package bpf_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/beam/procname"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/sources/target"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// A VM of Debian's own package runs in a root file system of its own, with the C library of its suite.
// It is found, its executable is read as the VM sees it, and it is observed like any other. Names of
// processes come from its memory. For OTP 29 beamscope says why not.
func TestVMInAnotherRoot(t *testing.T) {
	for _, release := range vmtest.RootReleases() {
		t.Run(fmt.Sprintf("stock %d", release), func(t *testing.T) { vmInAnotherRoot(t, release) })
	}
}

func vmInAnotherRoot(t *testing.T, release int) {
	const lives = 500
	root := vmtest.StockRoot(t, release)
	v := vmtest.StartRooted(t, root, fmt.Sprintf(`io:format("ready~n"), io:get_line(""),
		[begin {P, R} = spawn_monitor(lists, seq, [1, 2]), receive {'DOWN', R, process, P, _} -> ok end end || _ <- lists:seq(1, %d)],
		io:format("done~n"), io:get_line(""), halt().`, lives))
	v.Await("ready")
	found, _, err := vm.Find(t.Context(), vm.Target{PID: v.PID})
	if err != nil || len(found) != 1 {
		t.Fatalf("%d VMs are found: %v", len(found), err)
	}
	file, err := found[0].Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if got := vm.ReleaseOf(file.Path()); got != release {
		t.Errorf("release %d, want %d", got, release)
	}
	image, err := found[0].ImageIn(file)
	// The suite may have a newer build than the table, with other code. No build of OTP 29 exports its
	// functions.
	if _, known := dtrace.LookupBuild(file.BuildID()); !known && err != nil || release >= 29 {
		if unknown := (*vm.UnknownBuildError)(nil); !errors.Is(err, vm.ErrNoProbes) || !errors.As(err, &unknown) || unknown.ID == "" || unknown.Release != release {
			t.Errorf("error %v, want that the build is unknown", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	checkNames(t, v.PID)

	o := builtin(t, "lifetime", bpf.GroupByMFA)
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{o}, Window: int64(time.Second / 2)})
	to := target.Of(file.Path(), image)
	to.PID = v.PID
	if _, err := c.Attach(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	c.ReadTo(monotonic.Now())
	v.Tell("go")
	c.While(func() error {
		v.Await("done")
		return nil
	})
	c.ReadTo(monotonic.Now())
	if got := groupsOf(c, 0)["lists:seq/2"].Successes; got != lives {
		t.Errorf("%d lives of the function, want %d: %+v", got, lives, c.Total(0, v.PID).Counters)
	}
}

// checkNames checks that processes which every VM has are among those of a VM.
func checkNames(t *testing.T, pid int) {
	t.Helper()
	r, err := new(procname.Layouts).Open(t.Context(), pid)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	all, err := r.All()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range all {
		names = append(names, p.Name.Registered)
	}
	for _, name := range []string{"init", "kernel_sup", "code_server"} {
		if !slices.Contains(names, name) {
			t.Errorf("no process is named %s: %s", name, strings.Join(names, " "))
		}
	}
}
