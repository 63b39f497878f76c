package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"time"

	"github.com/beamscope/beamscope/internal/vm"
)

// What to do about VMs.
const (
	startVM    = "start an Erlang VM with probes, such as that of `beamscope demo`"
	withProbes = "use a VM built with --with-dynamic-trace=systemtap: `make otp` builds one, docs/vm-with-probes.md tells of others"
)

// vms looks at each VM.
func (e *examination) vms(ctx context.Context) []Check {
	var checks []Check
	vms, skipped, err := e.VMs(ctx)
	if skipped.Count > 0 && !errors.Is(err, vm.ErrHidden) {
		checks = append(checks, Check{Name: "processes", Status: Warning, Found: skipped.String() + ": whether they are VMs is not known"})
	}
	if err != nil {
		return append(checks, e.noVM(err))
	}
	for _, v := range vms {
		checks = append(checks, e.vm(ctx, v)...)
	}
	return checks
}

// noVM says why there is no VM to look at.
func (e *examination) noVM(err error) Check {
	c := Check{Name: "Erlang VMs", Status: Missing, Found: err.Error(), Do: startVM}
	switch {
	case errors.Is(err, vm.ErrHidden):
		c.Status, c.Found, c.Do = Unknown, "none "+vm.ErrHidden.Error(), asRoot
		e.must(onPermission, asRoot)
	case errors.Is(err, fs.ErrPermission) && e.privileged && e.PID != 0:
		c.Found = fmt.Sprintf("pid %d may not be looked at, though nothing is lacking: it is hardly a VM of this machine", e.PID)
		c.Do = "give --pid the id of a running VM, its beam.smp: pgrep -a beam"
		e.must(onVM, c.Do)
	case errors.Is(err, fs.ErrPermission):
		c.Status, c.Do = Unknown, asRoot
		e.must(onPermission, asRoot)
	case errors.Is(err, vm.ErrNotVM), errors.Is(err, vm.ErrNone) && e.PID != 0:
		c.Do = "give --pid the id of a running VM, its beam.smp: pgrep -a beam"
		e.must(onVM, c.Do)
	case errors.Is(err, vm.ErrNone):
		c.Found = "none is running"
		e.must(onVM, startVM)
	default:
		e.must(onVM, "make the processes readable: "+err.Error())
	}
	return c
}

// vm looks at one VM, and attaches to it if that can work.
func (e *examination) vm(ctx context.Context, v VM) []Check {
	c := Check{Name: "Erlang VM", PID: v.PID, Status: OK, Found: e.describe(v)}
	switch {
	case errors.Is(v.Err, vm.ErrNoProbes):
		c.Status, c.Found, c.Do = Missing, c.Found+", without probes: only its spans can be observed", "for all else "+withProbes
		e.must(onVM, fmt.Sprintf("pid %d has no probes: only its spans can be observed; for all else %s", v.PID, withProbes))
		return []Check{c}
	case v.Err != nil:
		c.Status, c.Found = Unknown, c.Found+": "+v.Err.Error()
		if errors.Is(v.Err, fs.ErrPermission) {
			c.Do = asRoot
			e.must(onPermission, asRoot)
		}
		return []Check{c}
	}
	c.Found += fmt.Sprintf(", %d probes", v.Probes)
	if v.Stopped != "" {
		c.Status, c.Found = Warning, c.Found+": "+v.Stopped+", so nothing happens in it"
		c.Do = fmt.Sprintf("let it go on: kill -CONT %d, or end the debugger", v.PID)
	}
	return []Check{c, e.trial(ctx, v)}
}

// describe says what a VM is.
func (e *examination) describe(v VM) string {
	var out []string
	if v.Node != "" {
		out = append(out, v.Node)
	}
	out = append(out, v.Exe)
	if erts := ertsVersion(v.Exe); erts != "" {
		out = append(out, "ERTS "+erts)
	}
	if v.Flavour != "" {
		out = append(out, v.Flavour)
	}
	ours, err := fs.ReadLink(e.Root, "proc/self/ns/mnt")
	theirs, theirErr := fs.ReadLink(e.Root, fmt.Sprintf("proc/%d/ns/mnt", v.PID))
	if err == nil && theirErr == nil && ours != theirs {
		out = append(out, "in a mount namespace of its own")
	}
	return strings.Join(out, ", ")
}

// ertsVersion returns the version of the runtime system in the path of its
// executable, "" where it is not there.
func ertsVersion(exe string) string {
	found := regexp.MustCompile(`/erts-(\d+(?:\.\d+)*)/`).FindStringSubmatch(exe)
	if found == nil {
		return ""
	}
	return found[1]
}

// trial attaches to a VM in earnest.
func (e *examination) trial(ctx context.Context, v VM) Check {
	c := Check{Name: "attach", PID: v.PID}
	if e.ebpfErr != nil {
		c.Status, c.Found = Unknown, "not tried: eBPF is not usable"
		return c
	}
	e.tried = true
	t, err := e.Try(ctx, v)
	if err != nil {
		c.Status, c.Found, c.Do = Missing, err.Error(), "see what the error says; other tracers of this VM may be in the way"
		e.must(onTrial, fmt.Sprintf("make attaching to pid %d work: %v", v.PID, err))
		return c
	}
	e.report.Works = true
	c.Status = OK
	c.Found = fmt.Sprintf("programs loaded and attached in %v, all undone in %v", t.Attach.Round(time.Millisecond), t.Detach.Round(time.Millisecond))
	return c
}
