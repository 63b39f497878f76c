package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/beamscope/beamscope/bpf"
)

// read returns the text of a file without surrounding white space.
func (e *examination) read(name string) (string, error) {
	data, err := fs.ReadFile(e.Root, name)
	return strings.TrimSpace(string(data)), err
}

// system checks the operating system and its kernel. Later checks try the features; the version
// only helps to explain their failures.
func (e *examination) system() {
	if e.OS != "linux" {
		e.add("operating system", Missing, e.OS, "run beamscope on Linux: eBPF is there only")
		e.must(onPlatform, "run beamscope on Linux: eBPF is there only")
		return
	}
	var err error
	if e.release, err = e.read("proc/sys/kernel/osrelease"); err != nil {
		e.add("operating system", Unknown, "Linux, version unknown: "+err.Error(), "mount /proc")
		return
	}
	found := fmt.Sprintf("Linux %s on %s", e.release, e.Arch)
	switch {
	case e.Arch != "amd64" && e.Arch != "arm64":
		e.add("operating system", Missing, found, "run beamscope on x86-64 or arm64")
		e.must(onPlatform, "run beamscope on x86-64 or arm64")
	case older(e.release, 6, 1):
		e.add("operating system", Warning, found+": before 6.1", "use Linux 6.1 or later, unless the features below are there")
	case older(e.release, 6, 10):
		e.add("operating system", Warning, found+": cannot tell one process of several that run the same file", "use Linux 6.10 or later for --pid, or observe all VMs of an executable")
	default:
		e.add("operating system", OK, found, "")
	}
}

// older reports whether a kernel release is older than a version.
func older(release string, major, minor int) bool {
	var version [2]int
	for i, digits := range regexp.MustCompile(`\d+`).FindAllString(release, 2) {
		version[i], _ = strconv.Atoi(digits)
	}
	return slices.Compare(version[:], []int{major, minor}) < 0
}

// asRoot tells the user how to get the privileges.
const asRoot = "run as root, or once: sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep \"$(command -v beamscope)\""

// asOwner tells the user how to read the memory of another user's VM. It suggests no capabilities: the
// check of privileges names the missing ones.
const asOwner = "run as root, or as the VM's user"

// privileges checks the capabilities of this process.
func (e *examination) privileges() {
	status, err := e.read("proc/self/status")
	if err != nil {
		e.add("privileges", Unknown, err.Error(), "mount /proc")
		return
	}
	who := "uid " + field(status, "Uid", 1)
	if field(status, "Uid", 1) == "0" {
		who = "root"
	}
	effective, err := strconv.ParseUint(field(status, "CapEff", 0), 16, 64)
	if err != nil {
		e.add("privileges", Unknown, who+", capabilities unknown", "")
		return
	}
	lacking := lackingCapabilities(effective)
	if len(lacking) == 0 {
		e.privileged = true
		e.add("privileges", OK, who+" with the capabilities needed", "")
		return
	}
	do := asRoot
	if who == "root" {
		do = "start the container with --cap-add BPF --cap-add PERFMON --cap-add SYS_PTRACE"
	}
	found := who + " without " + strings.Join(lacking, ", ")
	if who != "root" {
		found += e.explanations()
	}
	e.add("privileges", Missing, found, do)
	if len(lacking) > 1 || lacking[0] != "CAP_SYS_PTRACE" { // a user may inspect their own VMs without CAP_SYS_PTRACE
		e.must(onPermission, do)
	}
}

// field returns a word, counted from 0, of a field of a status file (proc(5)).
func field(status, name string, word int) string {
	for line := range strings.Lines(status) {
		values, ok := strings.CutPrefix(line, name+":")
		if words := strings.Fields(values); ok && word < len(words) {
			return words[word]
		}
	}
	return ""
}

// lackingCapabilities returns the needed capabilities that are missing (capabilities(7)).
// CAP_SYS_ADMIN implies the first two.
func lackingCapabilities(effective uint64) []string {
	const (
		sysPtrace = 1 << 19
		sysAdmin  = 1 << 21
		perfmon   = 1 << 38
		bpf       = 1 << 39
	)
	var lacking []string
	for _, c := range []struct {
		name string
		any  uint64
	}{
		{"CAP_BPF", bpf | sysAdmin},
		{"CAP_PERFMON", perfmon | sysAdmin},
		{"CAP_SYS_PTRACE", sysPtrace},
	} {
		if effective&c.any == 0 {
			lacking = append(lacking, c.name)
		}
	}
	return lacking
}

// explanations returns the settings that keep users other than root from using eBPF.
func (e *examination) explanations() string {
	var out []string
	for _, name := range []string{"kernel.perf_event_paranoid", "kernel.unprivileged_bpf_disabled"} {
		if value, err := e.read("proc/sys/" + strings.ReplaceAll(name, ".", "/")); err == nil {
			out = append(out, name+"="+value)
		}
	}
	if len(out) == 0 {
		return ""
	}
	return " (" + strings.Join(out, ", ") + ")"
}

// withTypes is what to do in a container if the kernel has no type information.
const withTypes = "run beamscope on the host, or use a kernel built with CONFIG_DEBUG_INFO_BTF"

// ebpf tries whether a collector can work.
func (e *examination) ebpf() {
	e.ebpfErr = e.EBPF()
	switch {
	case e.ebpfErr == nil:
		e.add("eBPF", OK, "usable, tried", "")
	case errors.Is(e.ebpfErr, bpf.ErrPermission):
		e.add("eBPF", Missing, "not permitted", "see privileges")
		e.must(onPermission, asRoot)
	case errors.Is(e.ebpfErr, bpf.ErrNamespace):
		e.add("eBPF", Missing, e.ebpfErr.Error(), withTypes)
		e.must(onKernel, withTypes)
	case errors.Is(e.ebpfErr, bpf.ErrKernel):
		const do = "use Linux 6.1 or later, built with CONFIG_BPF_SYSCALL and CONFIG_UPROBES"
		e.add("eBPF", Missing, e.ebpfErr.Error(), do)
		e.must(onKernel, do)
	default:
		e.add("eBPF", Missing, e.ebpfErr.Error(), "see what the error says")
		e.must(onKernel, "make eBPF work: "+e.ebpfErr.Error())
	}
}

// features tries the needed kernel features one by one.
func (e *examination) features() {
	for _, f := range e.Features {
		err := f.Try()
		switch {
		case err == nil:
			e.add(f.Name, OK, "there, tried", "")
		case errors.Is(err, ebpf.ErrNotSupported) && f.Without != "":
			e.add(f.Name, Warning, "not in this kernel: "+f.Without, "use Linux 6.6 or later")
		case errors.Is(err, ebpf.ErrNotSupported):
			e.add(f.Name, Missing, "not in this kernel", "use Linux 6.1 or later")
			e.must(onKernel, "use Linux 6.1 or later: this kernel has no "+f.Name)
		case errors.Is(err, fs.ErrPermission):
			e.add(f.Name, Unknown, "not permitted to try", "see privileges")
		default:
			e.add(f.Name, Unknown, err.Error(), "")
		}
	}
}

// uprobes checks whether the kernel was built with uprobes.
func (e *examination) uprobes() {
	_, err := fs.Stat(e.Root, "sys/bus/event_source/devices/uprobe")
	switch {
	case err == nil:
		e.add("uprobes", OK, "on", "")
	case errors.Is(err, fs.ErrNotExist) && exists(e.Root, "sys/bus/event_source/devices"):
		const do = "use a kernel built with CONFIG_UPROBE_EVENTS"
		e.add("uprobes", Missing, "the kernel was built without", do)
		e.must(onKernel, do)
	default:
		e.add("uprobes", Unknown, "/sys is not mounted", "mount sysfs on /sys")
	}
}

// subjects checks which outcomes the kernel refuses.
func (e *examination) subjects(ctx context.Context) {
	const name = "outcomes"
	if e.ebpfErr != nil {
		e.add(name, Unknown, "not tried: eBPF is not usable", "")
		return
	}
	subjects, err := e.Subjects(ctx)
	if err != nil {
		e.add(name, Unknown, "could not be tried: "+err.Error(), "")
		return
	}
	var refused []string
	var first error
	for _, s := range subjects {
		if s.Err == nil {
			continue
		}
		refused = append(refused, s.Name)
		if first == nil {
			first = s.Err
		}
	}
	if len(refused) == 0 {
		e.add(name, OK, fmt.Sprintf("this kernel loads the programs of all %d", len(subjects)), "")
		return
	}
	do := "use another kernel for these, and report this one, with what it says: " + oneLine(first)
	status := Warning
	if len(refused) == len(subjects) {
		status = Missing
		e.must(onKernel, do)
	}
	e.add(name, status, fmt.Sprintf("this kernel refuses %s: %d of %d", strings.Join(refused, ", "), len(refused), len(subjects)), do)
}

// oneLine returns the first line of an error: the verifier's messages are very long.
func oneLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

func exists(root fs.FS, name string) bool {
	_, err := fs.Stat(root, name)
	return err == nil
}

// lockdown checks whether the kernel is locked down. The stricter mode, confidentiality, may refuse
// programs that read memory. It did not if attaching to a VM succeeded.
func (e *examination) lockdown() {
	const name, path = "lockdown", "sys/kernel/security/lockdown"
	modes, err := e.read(path)
	switch {
	case err != nil && e.attached:
		e.add(name, OK, "not in the way: beamscope attached to a VM", "")
	case errors.Is(err, fs.ErrNotExist) && exists(e.Root, "sys/kernel/security/lsm"):
		e.add(name, OK, "not in this kernel", "")
	case err != nil:
		e.add(name, Unknown, "/"+path+" cannot be read", "mount -t securityfs none /sys/kernel/security, to know")
	case !strings.Contains(modes, "[confidentiality]"):
		e.add(name, OK, modeOf(modes), "")
	case e.attached:
		e.add(name, Warning, "confidentiality, but beamscope attached to a VM", "")
	default:
		const do = "boot the kernel with lockdown=integrity or without lockdown: confidentiality keeps eBPF programs from reading memory"
		status := Warning
		if e.ebpfErr != nil || e.tried {
			status = Missing
			e.must(onLockdown, do)
		}
		e.add(name, status, "confidentiality", do)
	}
}

// modeOf returns the mode in brackets of "none [integrity] confidentiality".
func modeOf(modes string) string {
	_, rest, _ := strings.Cut(modes, "[")
	mode, _, ok := strings.Cut(rest, "]")
	if !ok {
		return modes
	}
	return mode
}

// comfort checks things that are not needed, but improve speed or messages.
func (e *examination) comfort() {
	e.types()
	e.jit()
	e.add("RLIMIT_MEMLOCK", OK, "not needed", "")
	e.pidNamespace()
	e.clock()
}

// types checks whether the kernel has type information.
func (e *examination) types() {
	const name, missing = "BTF", "no /sys/kernel/btf/vmlinux; "
	switch {
	case exists(e.Root, "sys/kernel/btf/vmlinux"):
		e.add(name, OK, "/sys/kernel/btf/vmlinux", "")
	case errors.Is(e.ebpfErr, bpf.ErrNamespace):
		e.add(name, Missing, missing+"without it programs do not know the pids of a container", withTypes)
	default:
		e.add(name, Warning, missing+"the programs that count spans do without", "use a kernel built with CONFIG_DEBUG_INFO_BTF")
	}
}

// jit checks whether the kernel compiles eBPF programs.
func (e *examination) jit() {
	const name, key = "eBPF JIT", "net.core.bpf_jit_enable"
	value, err := e.read("proc/sys/net/core/bpf_jit_enable")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.add(name, Unknown, key+" is not there", "")
	case err != nil:
		e.add(name, Unknown, key+" cannot be read", "look as root")
	case value == "0":
		e.add(name, Warning, "off: each hit costs the VM several times as much", "sudo sysctl -w "+key+"=1")
	case value == "2":
		e.add(name, Warning, "on, and writes what it compiles to the kernel's log", "sudo sysctl -w "+key+"=1")
	default:
		e.add(name, OK, "on", "")
	}
}

// initialPIDNamespace is the target of /proc/self/ns/pid on the host itself (PROC_PID_INIT_INO,
// linux/proc_ns.h).
const initialPIDNamespace = "pid:[4026531836]"

// pidNamespace checks whether this is the host's pid namespace.
func (e *examination) pidNamespace() {
	link, err := fs.ReadLink(e.Root, "proc/self/ns/pid")
	switch {
	case err != nil:
		e.add("pid namespace", Unknown, err.Error(), "")
	case link == initialPIDNamespace:
		e.add("pid namespace", OK, "that of the host", "")
	default:
		e.add("pid namespace", OK, "a container's: beamscope sees only the VMs in it, with their pids there, and attaches to them one by one", "")
	}
}

// clock checks the source of CLOCK_MONOTONIC, which the programs read once or twice per hit.
func (e *examination) clock() {
	source, err := e.read("sys/devices/system/clocksource/clocksource0/current_clocksource")
	switch {
	case err != nil:
		e.add("clock", Unknown, "the clock source cannot be read", "mount sysfs on /sys")
	case source == "hpet", source == "acpi_pm", source == "jiffies":
		e.add("clock", Warning, "CLOCK_MONOTONIC from "+source+", which is slow to read or coarse", "see why the kernel does not trust tsc: dmesg | grep -i clocksource")
	default:
		e.add("clock", OK, "CLOCK_MONOTONIC from "+source, "")
	}
}
