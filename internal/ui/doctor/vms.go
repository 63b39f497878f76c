package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/seen"
	"github.com/beamscope/beamscope/usdt"
)

// What to do about VMs.
const (
	startVM    = "start an Erlang VM: spans are seen in any, and more in most, see docs/reference/vm-outcomes.md. `beamscope demo` starts one"
	withProbes = "use a VM built with --with-dynamic-trace=systemtap: `make otp` builds one, docs/how-to/vm-with-probes.md lists others"
)

// vms checks each VM.
func (e *examination) vms(ctx context.Context) {
	vms, skipped, err := e.VMs(ctx)
	if skipped.Count > 0 && !errors.Is(err, vm.ErrHidden) {
		e.add("processes", Warning, skipped.String()+". beamscope does not know whether VMs are among them", "")
	}
	if err != nil {
		e.done(e.noVM(err))
		return
	}
	for _, v := range vms {
		if v.Further > 0 {
			e.add("Erlang VM", Warning, fmt.Sprintf("%d further VMs of user %d are not examined", v.Further, v.User),
				"to examine one of them: beamscope doctor --pid PID")
			continue
		}
		e.vm(ctx, v)
	}
}

// noVM explains why there is no VM to check.
func (e *examination) noVM(err error) Check {
	c := Check{Name: "Erlang VMs", Status: Missing, Found: err.Error(), Do: startVM}
	switch {
	case errors.Is(err, vm.ErrHidden):
		c.Status, c.Found, c.Do = Unknown, "none "+vm.ErrHidden.Error(), asRoot
		e.must(onPermission, asRoot)
	case errors.Is(err, fs.ErrPermission) && e.privileged && e.PID != 0:
		c.Found = fmt.Sprintf("pid %d cannot be inspected, although no privilege is missing: it is probably not a VM of this machine", e.PID)
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
		e.none = true
	default:
		e.must(onVM, "make the processes readable: "+err.Error())
	}
	return c
}

// vm checks one VM, and tries to attach to it if that can work.
func (e *examination) vm(ctx context.Context, v VM) {
	e.done(e.executable(v))
	var tried Check
	switch {
	case errors.Is(v.Err, vm.ErrNotVM):
		return
	case errors.Is(v.Err, vm.ErrNoProbes):
		tried = e.spans(ctx, v)
	case v.Err != nil:
		return
	default:
		tried = e.trial(ctx, v)
	}
	e.done(tried)
	if c, ok := symbolsOf(v); ok {
		e.done(c)
	}
	readable := tried.Status == OK
	if v.Err == nil && e.ebpfErr != nil {
		recorded, err := e.Spans(ctx, v)
		if readable = recorded && err == nil; readable {
			e.done(e.recorded(v))
		}
	}
	if readable || errors.Is(v.Err, vm.ErrNoProbes) && tried.Found != endedMeanwhile {
		e.done(e.events(v, readable))
	}
}

// executable checks what the executable of a VM has.
func (e *examination) executable(v VM) Check {
	c := Check{Name: "Erlang VM", PID: v.PID, Status: OK, Found: e.describe(v)}
	switch {
	case errors.Is(v.Err, vm.ErrNotVM):
		c.Status, c.Found, c.Do = Warning, c.Found+": "+v.Err.Error(), startVM
		e.must(onVM, startVM)
		return c
	case errors.Is(v.Err, vm.ErrNoProbes):
		e.withoutProbes(v, &c)
		return c
	case ended(v.Err):
		c.Status, c.Found = Unknown, c.Found+": "+endedMeanwhile
		return c
	case v.Err != nil:
		c.Status, c.Found = Unknown, c.Found+": "+v.Err.Error()
		if errors.Is(v.Err, fs.ErrPermission) {
			c.Do = asRoot
			e.must(onPermission, asRoot)
		}
		return c
	case v.Unknown != "":
		v.unknownBuild(&c)
	case v.Build == "":
		c.Found += fmt.Sprintf(", %d probes", v.Probes)
	default:
		v.knownBuild(&c)
	}
	if v.Stopped != "" {
		c.Status, c.Found = Warning, c.Found+": "+v.Stopped+", so nothing happens in it"
		c.Do = fmt.Sprintf("let it go on: kill -CONT %d, or end the debugger", v.PID)
	}
	return c
}

// withoutProbes completes the check of a VM that has no probes, and whose build is not known.
func (e *examination) withoutProbes(v VM, c *Check) {
	c.Status, c.Found = Warning, c.Found+", without probes, which explanations and most events of the VM need"
	if e.ebpfErr == nil {
		c.Found += "; top takes samples"
	}
	c.Do = "for these " + withProbes
	if unknown := (*vm.UnknownBuildError)(nil); errors.As(v.Err, &unknown) {
		c.Found += "; " + unknown.Error()
	}
}

// unknownBuild completes the check of a VM that has no probes, and whose build is not known. A few
// functions stand in for probes on all builds.
func (v VM) unknownBuild(c *Check) {
	c.Status, c.Found = Warning, c.Found+", without probes, which explanations and most events of the VM need; "+v.Unknown+". A few functions stand in on all builds"
	c.Do = "for all events " + withProbes
}

// knownBuild completes the check of a VM that has no probes, and whose functions stand in for them.
func (v VM) knownBuild(c *Check) {
	known := "known build: " + v.Build
	if v.ByCode {
		known = "same code as " + v.Build
	}
	c.Found += fmt.Sprintf(", %s. It has no probes, and its functions stand in for them", known)
	var unseen []string
	if names := v.unseen(); len(names) > 0 {
		unseen = append(unseen, strings.Join(names, ", "))
	}
	if v.Explains {
		c.Found += ". Slow spans can be explained"
	} else {
		c.Found += ". Explanations need probes"
		unseen = append(unseen, "explanations")
	}
	if len(unseen) > 0 {
		c.Do = "only for " + strings.Join(unseen, ", ") + ": " + withProbes
	}
}

// withSymbols tells the user how to get the symbols of a VM.
const withSymbols = "install the package with the VM's debugging symbols (Debian: erlang-base-dbgsym, Fedora: erlang-erts-debuginfo); " +
	"or give its folder with --symbols; or set DEBUGINFOD_URLS, such as https://debuginfod.debian.net"

// symbolsOf reports where the symbols of a stripped VM are, and what is missing without them. It
// returns false if there is nothing to report: a known build needs no symbols.
func symbolsOf(v VM) (c Check, ok bool) {
	c = Check{Name: "symbols", PID: v.PID, Status: OK}
	switch {
	case !v.Stripped || v.Build != "":
		return Check{}, false
	case v.Forged != nil:
		c.Status, c.Do = Warning, "remove it, or give the folder of the right file with --symbols"
		c.Found = fmt.Sprintf("stripped from the executable, and found in %s, which is not of this executable or is forged: %v", v.Symbols, v.Forged)
		return c, true
	case v.Symbols != "":
		c.Found = "stripped from the executable, and found in " + v.Symbols
		return c, true
	}
	c.Status, c.Do = Warning, withSymbols
	c.Found = "stripped from the executable, so the names and the memory of its processes are not known"
	if v.BuildID != "" {
		c.Found += "; its build ID is " + v.BuildID
	} else {
		c.Found += "; it has no build ID"
	}
	if v.Unfound != nil {
		c.Found += "; " + v.Unfound.Error()
	}
	if unseen := v.unseen(); len(unseen) > 0 {
		c.Found += ". These outcomes cannot be observed: " + strings.Join(unseen, ", ")
	}
	return c, true
}

// spans checks whether the spans of a VM can be read if beamscope cannot attach to it.
func (e *examination) spans(ctx context.Context, v VM) Check {
	recorded, err := e.Spans(ctx, v)
	c := Check{Name: "spans", PID: v.PID}
	switch {
	case err == nil && recorded:
		return e.recorded(v)
	case err == nil && e.ebpfErr == nil:
		e.report.Works = true
		c.Status, c.Found = OK, "the VM's memory can be read, and contains no spans yet: run and record find spans when they start"
	case err == nil:
		c.Status, c.Found = Missing, "the VM has recorded none yet, and without eBPF beamscope cannot wait for them"
		c.Do = "start a span in the VM first, see docs/reference/erlang.md; or " + asRoot
		e.must(onPermission, c.Do)
	case ended(err):
		c.Status, c.Found = Unknown, endedMeanwhile
	case errors.Is(err, fs.ErrPermission):
		c.Status, c.Found, c.Do = Unknown, "this user may not read the VM's memory", asOwner
		e.must(onPermission, asOwner)
	default:
		c.Status, c.Found, c.Do = Missing, err.Error(), "see what the error says"
		e.must(onTrial, fmt.Sprintf("make the memory of pid %d readable: %v", v.PID, err))
	}
	return c
}

// recorded reports that the spans of a VM can be read.
func (e *examination) recorded(v VM) Check {
	e.report.Works = true
	return Check{Name: "spans", PID: v.PID, Status: OK, Found: string(seen.Ring) + ": recorded in the VM's memory, which can be read"}
}

// events reports how the events of a VM are seen: first its spans, and then its outcomes, by the way.
// readable reports whether the spans that it records in its memory can be read.
func (e *examination) events(v VM, readable bool) Check {
	c := Check{Name: "events", PID: v.PID, Status: OK}
	spans := seen.Not("")
	if readable {
		spans = spans.With(seen.Ring)
	}
	var others []string
	switch {
	case e.ebpfErr != nil:
		others = []string{seen.NotAtAll + ": all others, because eBPF is not usable"}
	case errors.Is(v.Err, vm.ErrNoProbes):
		others = []string{string(seen.Kernel) + ": os-wait", seen.NotAtAll + ": all others"}
	case v.Build == "" && v.Unknown == "":
		spans, others = spans.With(seen.Probe), v.byWay()
	default:
		if v.Explains {
			spans = spans.With(seen.StandIn)
		}
		others = v.byWay()
	}
	c.Found = strings.Join(append([]string{spans.Ways() + ": spans"}, others...), "; ")
	return c
}

// byWay returns a text for each way in which outcomes of a VM are seen, with their names. Those that are
// not seen come last.
func (v VM) byWay() (texts []string) {
	var ways []string
	names := make(map[string][]string)
	for _, o := range v.Outcomes {
		way := o.Sight.Ways()
		if names[way] == nil {
			ways = append(ways, way)
		}
		names[way] = append(names[way], o.Name)
	}
	slices.SortStableFunc(ways, func(a, b string) int {
		return cmp.Compare(strings.Count(a, seen.NotAtAll), strings.Count(b, seen.NotAtAll))
	})
	for _, way := range ways {
		texts = append(texts, way+": "+strings.Join(names[way], ", "))
	}
	return texts
}

// endedMeanwhile is the result for a VM that has ended since it was found.
const endedMeanwhile = "the VM has ended meanwhile"

// ended reports whether an error says that a VM has ended.
func ended(err error) bool {
	return errors.Is(err, vm.ErrNone) || errors.Is(err, usdt.ErrProcessGone)
}

// describe returns a description of a VM.
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

// ertsVersion returns the version of the runtime system from the executable's path, or "".
func ertsVersion(exe string) string {
	found := regexp.MustCompile(`/erts-(\d+(?:\.\d+)*)/`).FindStringSubmatch(exe)
	if found == nil {
		return ""
	}
	return found[1]
}

// trial attaches to a VM.
func (e *examination) trial(ctx context.Context, v VM) Check {
	c := Check{Name: "attach", PID: v.PID}
	if e.ebpfErr != nil {
		c.Status, c.Found = Unknown, "not tried: eBPF is not usable"
		return c
	}
	e.tried = true
	t, err := e.Try(ctx, v)
	if ended(err) {
		c.Status, c.Found = Unknown, endedMeanwhile
		return c
	}
	if err != nil {
		c.Status, c.Found, c.Do = Missing, err.Error(), "see what the error says; other tracers of this VM may be in the way"
		e.must(onTrial, fmt.Sprintf("make attaching to pid %d work: %v", v.PID, err))
		return c
	}
	e.report.Works, e.attached = true, true
	c.Status = OK
	c.Found = fmt.Sprintf("programs loaded and attached in %v, all undone in %v", t.Attach.Round(time.Millisecond), t.Detach.Round(time.Millisecond))
	return c
}
