package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/seen"
	"github.com/beamscope/beamscope/usdt"
)

// healthy is a machine on which everything works, with one VM.
func healthy() System {
	return System{
		OS:   "linux",
		Arch: "amd64",
		Root: root(nil),
		EBPF: func() error { return nil },
		Features: []Feature{
			{"uprobe_multi", func() error { return nil }, "each place has a link of its own"},
			{"ring buffer", func() error { return nil }, ""},
		},
		Subjects: refusing(),
		VMs: func(context.Context) ([]VM, usdt.Skipped, error) {
			return []VM{{PID: 4711, Node: "shop@host", Exe: "/opt/otp/erts-13.1.5/bin/beam.smp", Flavour: "JIT", Probes: 1004,
				Outcomes: []Outcome{{"gc", seen.By(seen.Probe)}, {"run", seen.By(seen.StandIn)}, {"file-io", seen.By(seen.Probe)}, {"os-wait", seen.By(seen.Kernel)}}}}, usdt.Skipped{}, nil
		},
		Spans: spans(false, nil),
		Try: func(context.Context, VM) (Trial, error) {
			return Trial{Attach: 12300 * time.Microsecond, Detach: 24 * time.Millisecond}, nil
		},
	}
}

// refusing is the Subjects function of a kernel that refuses some of three subjects.
func refusing(names ...string) func(context.Context) ([]bpf.Subject, error) {
	return func(context.Context) ([]bpf.Subject, error) {
		subjects := []bpf.Subject{{Name: "spans"}, {Name: "os-wait"}, {Name: "explanations"}}
		for i, s := range subjects {
			if slices.Contains(names, s.Name) {
				subjects[i].Err = errors.New("the verifier refuses it\nand says more")
			}
		}
		return subjects, nil
	}
}

const (
	rootStatus = "Name:\tbeamscope\nUid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n"
	userStatus = "Name:\tbeamscope\nUid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\n"
)

// root is the file system of a healthy machine, with some files changed. A nil file does not exist.
func root(changes fstest.MapFS) fs.FS {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text + "\n")} }
	link := func(text string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(text), Mode: fs.ModeSymlink}
	}
	files := fstest.MapFS{
		"proc/sys/kernel/osrelease":                                       file("6.12.9-amd64"),
		"proc/sys/kernel/perf_event_paranoid":                             file("3"),
		"proc/sys/kernel/unprivileged_bpf_disabled":                       file("2"),
		"proc/sys/net/core/bpf_jit_enable":                                file("1"),
		"proc/self/status":                                                file(rootStatus),
		"proc/self/ns/pid":                                                link(initialPIDNamespace),
		"proc/self/ns/mnt":                                                link("mnt:[1]"),
		"proc/4711/ns/mnt":                                                link("mnt:[2]"),
		"sys/bus/event_source/devices/uprobe/type":                        file("9"),
		"sys/kernel/btf/vmlinux":                                          file(""),
		"sys/kernel/security/lockdown":                                    file("none [integrity] confidentiality"),
		"sys/devices/system/clocksource/clocksource0/current_clocksource": file("tsc"),
	}
	maps.Copy(files, changes)
	maps.DeleteFunc(files, func(_ string, f *fstest.MapFile) bool { return f == nil })
	return files
}

func text(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }

func containerWithoutBTF(s *System) {
	s.Root = root(fstest.MapFS{"sys/kernel/btf/vmlinux": nil})
	s.EBPF = func() error { return fmt.Errorf("%w: %w", bpf.ErrKernel, bpf.ErrNamespace) }
}

func unprivileged(s *System) {
	denied := fmt.Errorf("%w: %w", bpf.ErrPermission, fs.ErrPermission)
	s.Root = root(fstest.MapFS{"proc/self/status": text(userStatus)})
	s.EBPF = func() error { return denied }
	for i := range s.Features {
		s.Features[i].Try = func() error { return denied }
	}
}

func oldKernel(s *System) {
	s.Root = root(fstest.MapFS{"proc/sys/kernel/osrelease": text("5.4.0-91-generic\n")})
	s.EBPF = func() error {
		return fmt.Errorf("%w: Linux 6.1 or later is needed: ring buffers: %w", bpf.ErrKernel, ebpf.ErrNotSupported)
	}
	for i := range s.Features {
		s.Features[i].Try = func() error { return ebpf.ErrNotSupported }
	}
}

func withoutMulti(s *System) {
	s.Root = root(fstest.MapFS{"proc/sys/kernel/osrelease": text("6.1.0-50-amd64\n")})
	s.Features[0].Try = func() error { return ebpf.ErrNotSupported }
}

func find(err error) func(*System) {
	return func(s *System) {
		s.VMs = func(context.Context) ([]VM, usdt.Skipped, error) { return nil, usdt.Skipped{}, err }
	}
}

// withoutProbes has one VM, without probes, that records spans.
func withoutProbes(s *System) {
	unknown := &vm.UnknownBuildError{ID: "abcd", Release: 25}
	s.VMs = func(context.Context) ([]VM, usdt.Skipped, error) {
		return []VM{{PID: 42, Exe: "/usr/lib/erlang/erts-13.1.5/bin/beam.smp", Err: fmt.Errorf("%w (%w)", vm.ErrNoProbes, unknown)}}, usdt.Skipped{}, nil
	}
	s.Spans = spans(true, nil)
}

// standIns has one VM, whose functions stand in for some probes.
func standIns(s *System) {
	s.VMs = func(context.Context) ([]VM, usdt.Skipped, error) {
		return []VM{{
			PID: 42, Exe: "/usr/lib/erlang/erts-13.1.5/bin/beam.smp", Build: "erlang-base 1:25.2.3",
			Outcomes: []Outcome{
				{"hop", seen.Not("no function is known")}, {"gc", seen.By(seen.StandIn)}, {"message", seen.By(seen.StandIn)}, {"os-wait", seen.By(seen.Kernel)},
			},
			Explains: true,
		}}, usdt.Skipped{}, nil
	}
	s.Spans = spans(true, nil)
}

// spans returns a Spans function with the same result for every VM.
func spans(found bool, err error) func(context.Context, VM) (bool, error) {
	return func(context.Context, VM) (bool, error) { return found, err }
}

// stopped makes every VM a stopped one.
func stopped(s *System) {
	find := s.VMs
	s.VMs = func(ctx context.Context) ([]VM, usdt.Skipped, error) {
		vms, skipped, err := find(ctx)
		for i := range vms {
			vms[i].Stopped = "stopped by a signal (SIGSTOP or SIGTSTP)"
		}
		return vms, skipped, err
	}
}

func ignore(Check) {}

// VMs of users with few come first, and of each user only some are examined. A line gives the number
// of the others.
func TestManyVMs(t *testing.T) {
	var found []vm.VM
	for pid := range 20 {
		found = append(found, vm.VM{Process: usdt.Process{PID: pid}, Account: 1001})
	}
	kept, further := examined(append(found, vm.VM{Process: usdt.Process{PID: 20}}))
	if len(kept) != 1+mostOfUser || kept[0].PID() != 20 || len(further) != 1 || further[1001] != 20-mostOfUser {
		t.Errorf("kept %v, further %v", kept, further)
	}
	s := healthy()
	find := s.VMs
	s.VMs = func(ctx context.Context) ([]VM, usdt.Skipped, error) {
		vms, skipped, err := find(ctx)
		return append(vms, VM{Further: 4, User: 1001}), skipped, err
	}
	checks := Examine(t.Context(), s, ignore).Checks
	if !slices.ContainsFunc(checks, func(c Check) bool {
		return c.Status == Warning && c.Found == "4 further VMs of user 1001 are not examined"
	}) {
		t.Errorf("no check says that there are further VMs: %+v", checks)
	}
}

// Examine reports each check before the next one begins. Otherwise a slow check looks like a hang.
func TestAtOnce(t *testing.T) {
	s := healthy()
	var told []string
	last := func(want string) {
		t.Helper()
		if len(told) == 0 || told[len(told)-1] != want {
			t.Errorf("told so far: %q, and the last one is to be %s", told, want)
		}
	}
	s.EBPF = func() error { last("privileges"); return nil }
	s.Features = []Feature{
		{"uprobe_multi", func() error { last("eBPF"); return nil }, ""},
		{"ring buffer", func() error { last("uprobe_multi"); return nil }, ""},
	}
	s.Subjects = func(context.Context) ([]bpf.Subject, error) { last("uprobes"); return nil, nil }
	vms := s.VMs
	s.VMs = func(ctx context.Context) ([]VM, usdt.Skipped, error) { last("clock"); return vms(ctx) }
	s.Try = func(context.Context, VM) (Trial, error) { last("Erlang VM"); return Trial{}, nil }
	r := Examine(t.Context(), s, func(c Check) { told = append(told, c.Name) })
	last("lockdown") // attaching to VMs shows whether it is in the way
	var all []string
	for _, c := range r.Checks {
		all = append(all, c.Name)
	}
	if diff := cmp.Diff(all, told); diff != "" {
		t.Errorf("told otherwise than reported (-want +got):\n%s", diff)
	}
}

// The same holds for each check of a VM that is not attached to.
func TestAtOnceWithoutProbes(t *testing.T) {
	s := healthy()
	withoutProbes(&s)
	var told []string
	s.Spans = func(context.Context, VM) (bool, error) {
		if n := len(told); n == 0 || told[n-1] != "Erlang VM" {
			t.Errorf("told before the spans are looked for: %q", told)
		}
		return false, nil
	}
	Examine(t.Context(), s, func(c Check) { told = append(told, c.Name) })
}

// After the user has interrupted Examine, it reports no more checks.
func TestInterrupted(t *testing.T) {
	s := healthy()
	ctx, cancel := context.WithCancel(t.Context())
	s.Subjects = func(context.Context) ([]bpf.Subject, error) { cancel(); return nil, ctx.Err() }
	Examine(ctx, s, func(c Check) {
		if ctx.Err() != nil {
			t.Errorf("told after the interruption: %+v", c)
		}
	})
}

// A known build, or one with the same code, is reported as such. Only what it cannot show needs another
// VM.
func TestKnownBuild(t *testing.T) {
	s, byCode := healthy(), false
	standIns(&s)
	find := s.VMs
	s.VMs = func(ctx context.Context) ([]VM, usdt.Skipped, error) {
		vms, skipped, err := find(ctx)
		vms[0].Outcomes, vms[0].ByCode = vms[0].Outcomes[1:], byCode
		return vms, skipped, err
	}
	for _, want := range []string{"known build: erlang-base 1:25.2.3", "same code as erlang-base 1:25.2.3"} {
		r := Examine(t.Context(), s, ignore)
		i := slices.IndexFunc(r.Checks, func(c Check) bool { return c.Name == "Erlang VM" })
		c := r.Checks[i]
		if c.Status != OK || !strings.Contains(c.Found, want) || c.Do != "" {
			t.Errorf("%+v, want %q", c, want)
		}
		byCode = true
	}
}

// A line says of each VM how its events are seen. Events with the same answer share it.
func TestEvents(t *testing.T) {
	memory := fs.ErrPermission
	for name, test := range map[string]struct {
		change func(*System)
		want   string
	}{
		"with probes":   {func(*System) {}, "probe, ring: spans; probe: gc, file-io; stand-in: run; kernel: os-wait"},
		"known build":   {standIns, "stand-in, ring: spans; stand-in: gc, message; kernel: os-wait; not at all: hop"},
		"unknown build": {withoutProbes, "ring: spans; kernel: os-wait; not at all: all others"},
		"unknown build, memory that is protected": {func(s *System) { withoutProbes(s); s.Spans = spans(false, memory) }, "not at all: spans; kernel: os-wait; not at all: all others"},
		"without eBPF":          {func(s *System) { unprivileged(s); s.Spans = spans(true, nil) }, "ring: spans; not at all: all others, because eBPF is not usable"},
		"nothing":               {unprivileged, ""},
		"cannot be attached to": {func(s *System) { s.Try = func(context.Context, VM) (Trial, error) { return Trial{}, fs.ErrInvalid } }, ""},
		"ended":                 {func(s *System) { withoutProbes(s); s.Spans = spans(false, vm.ErrNone) }, ""},
	} {
		s := healthy()
		test.change(&s)
		var got []string
		Examine(t.Context(), s, func(c Check) {
			if c.Name == "events" {
				got = append(got, c.Found)
			}
		})
		var want []string
		if test.want != "" {
			want = []string{test.want}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestExamine(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*System)
		check  string // to look at
		status Status
		works  bool
		do     string // the report's, in part
	}{
		{"healthy", func(*System) {}, "attach", OK, true, ""},
		{"stopped VM", stopped, "Erlang VM", Warning, true, ""},
		{"not root", unprivileged, "privileges", Missing, false, "run as root"},
		{"not root: the features", unprivileged, "ring buffer", Unknown, false, "run as root"},
		{"not root: the VM", unprivileged, "attach", Unknown, false, "run as root"},
		{
			"not root, and VMs are hidden",
			func(s *System) { unprivileged(s); find(fmt.Errorf("beam.smp: %w %w", vm.ErrNone, vm.ErrHidden))(s) },
			"Erlang VMs", Unknown, false, "run as root",
		},
		{
			"capabilities in place of root",
			func(s *System) {
				s.Root = root(fstest.MapFS{"proc/self/status": text("Uid:\t1000\t1000\t1000\t1000\nCapEff:\t000000c000080000\n")})
			},
			"privileges", OK, true, "",
		},
		{
			"no CAP_SYS_PTRACE, but the VM belongs to the same user",
			func(s *System) {
				s.Root = root(fstest.MapFS{"proc/self/status": text("Uid:\t1000\t1000\t1000\t1000\nCapEff:\t000000c000000000\n")})
			},
			"privileges", Missing, true, "",
		},
		{"kernel before 6.1", oldKernel, "eBPF", Missing, false, "use Linux 6.1 or later"},
		{"kernel before 6.1: its version", oldKernel, "operating system", Warning, false, "use Linux 6.1 or later"},
		{"kernel before 6.1: uprobe_multi", oldKernel, "uprobe_multi", Warning, false, "use Linux 6.1 or later"},
		{"kernel before 6.1: ring buffer", oldKernel, "ring buffer", Missing, false, "use Linux 6.1 or later"},
		{"kernel before 6.6", withoutMulti, "uprobe_multi", Warning, true, ""},
		{"kernel before 6.6: its version", withoutMulti, "operating system", Warning, true, ""},
		{"kernel 6.8", func(s *System) { s.Root = root(fstest.MapFS{"proc/sys/kernel/osrelease": text("6.8.0")}) }, "operating system", Warning, true, ""},
		{"all outcomes", func(*System) {}, "outcomes", OK, true, ""},
		{"some outcomes", func(s *System) { s.Subjects = refusing("os-wait", "explanations") }, "outcomes", Warning, true, ""},
		{
			"no outcomes",
			func(s *System) { s.Subjects = refusing("spans", "os-wait", "explanations"); find(vm.ErrNone)(s) },
			"outcomes", Missing, false, "use another kernel",
		},
		{"kernel before 6.1: outcomes", oldKernel, "outcomes", Unknown, false, "use Linux 6.1 or later"},
		{"not Linux", func(s *System) { s.OS, s.EBPF = "freebsd", func() error { return bpf.ErrKernel } }, "operating system", Missing, false, "run beamscope on Linux"},
		{"another machine", func(s *System) { s.Arch = "riscv64"; find(vm.ErrNone)(s) }, "operating system", Missing, false, "x86-64 or arm64"},
		{
			"no uprobes",
			func(s *System) {
				s.Root = root(fstest.MapFS{"sys/bus/event_source/devices/uprobe/type": nil, "sys/bus/event_source/devices/cpu/type": text("4")})
				find(vm.ErrNone)(s)
			},
			"uprobes", Missing, false, "CONFIG_UPROBE_EVENTS",
		},
		{"lockdown", func(*System) {}, "lockdown", OK, true, ""},
		{
			"lockdown unreadable, and no VM",
			func(s *System) {
				s.Root = root(fstest.MapFS{"sys/kernel/security/lockdown": nil})
				find(vm.ErrNone)(s)
			},
			"lockdown", Unknown, false, "start an Erlang VM",
		},
		{"lockdown unreadable, but it works", func(s *System) { s.Root = root(fstest.MapFS{"sys/kernel/security/lockdown": nil}) }, "lockdown", OK, true, ""},
		{
			"locked down, and attaching fails",
			func(s *System) {
				s.Root = root(fstest.MapFS{"sys/kernel/security/lockdown": text("none integrity [confidentiality]")})
				s.Try = func(context.Context, VM) (Trial, error) { return Trial{}, fs.ErrPermission }
			},
			"lockdown", Missing, false, "lockdown=integrity",
		},
		{"locked down, but it works", func(s *System) {
			s.Root = root(fstest.MapFS{"sys/kernel/security/lockdown": text("none integrity [confidentiality]")})
		}, "lockdown", Warning, true, ""},
		{"no VM", find(fmt.Errorf("beam.smp: %w", vm.ErrNone)), "Erlang VMs", Missing, false, "spans are seen in any"},
		{"no Erlang VM", find(fmt.Errorf("pid 1 (init): %w", vm.ErrNotVM)), "Erlang VMs", Missing, false, "give --pid the id of a running VM"},
		{
			"a process that cannot be inspected",
			func(s *System) { s.PID = 1; find(fmt.Errorf("pid 1: %w", fs.ErrPermission))(s) },
			"Erlang VMs", Missing, false, "give --pid the id of a running VM",
		},
		{
			"no such process",
			func(s *System) { s.PID = 99; find(fmt.Errorf("pid 99: %w", vm.ErrNone))(s) },
			"Erlang VMs", Missing, false, "give --pid the id of a running VM",
		},
		{
			"a VM without probes",
			withoutProbes,
			"Erlang VM", Warning, true, "",
		},
		{"a VM without probes: its spans", withoutProbes, "spans", OK, true, ""},
		{"a VM without probes: no attaching", withoutProbes, "attach", "", true, ""},
		{
			"a VM without probes, and lockdown is not known",
			func(s *System) {
				withoutProbes(s)
				s.Root = root(fstest.MapFS{"sys/kernel/security/lockdown": nil})
			},
			"lockdown", Unknown, true, "",
		},
		{"a VM without probes or spans yet", func(s *System) { withoutProbes(s); s.Spans = spans(false, nil) }, "spans", OK, true, ""},
		{"a VM without probes, and not root", func(s *System) { withoutProbes(s); unprivileged(s) }, "spans", OK, true, ""},
		{
			"a VM without probes or spans yet, and not root",
			func(s *System) { withoutProbes(s); unprivileged(s); s.Spans = spans(false, nil) },
			"spans", Missing, false, "run as root",
		},
		{
			"a VM without probes, of another user, and not root",
			func(s *System) { withoutProbes(s); unprivileged(s); s.Spans = spans(false, fs.ErrPermission) },
			"spans", Unknown, false, "run as root",
		},
		{
			"a VM without probes whose memory cannot be read",
			func(s *System) { withoutProbes(s); s.Spans = spans(false, errors.New("no answer")) },
			"spans", Missing, false, "no answer",
		},
		{"a VM with probes that records spans, and not root", func(s *System) { unprivileged(s); s.Spans = spans(true, nil) }, "spans", OK, true, ""},
		{"a VM whose functions stand in for probes", standIns, "Erlang VM", OK, true, ""},
		{
			"a VM that ended meanwhile",
			func(s *System) {
				s.Try = func(context.Context, VM) (Trial, error) { return Trial{}, fmt.Errorf("pid 4711: %w", vm.ErrNone) }
			},
			"attach", Unknown, false, "start an Erlang VM",
		},
		{
			"a VM without probes that ended meanwhile",
			func(s *System) {
				withoutProbes(s)
				s.Spans = spans(false, fmt.Errorf("process 42: %w", usdt.ErrProcessGone))
			},
			"spans", Unknown, false, "start an Erlang VM",
		},
		{
			"a VM that cannot be inspected without root",
			func(s *System) {
				s.VMs = func(context.Context) ([]VM, usdt.Skipped, error) {
					return []VM{{PID: 42, Exe: "beam.smp", Err: fs.ErrPermission}}, usdt.Skipped{}, nil
				}
			},
			"Erlang VM", Unknown, false, "run as root",
		},
		{
			"a process that is called like a VM and is none",
			func(s *System) {
				s.VMs = func(context.Context) ([]VM, usdt.Skipped, error) {
					return []VM{{PID: 42, Exe: "beam.smp", Err: errors.Join(vm.ErrNotVM, vm.ErrNoProbes)}}, usdt.Skipped{}, nil
				}
			},
			"Erlang VM", Warning, false, "start an Erlang VM",
		},
		{
			"a process that was skipped",
			func(s *System) {
				vms := s.VMs
				s.VMs = func(ctx context.Context) ([]VM, usdt.Skipped, error) {
					found, _, err := vms(ctx)
					return found, usdt.Skipped{Count: 1, Err: errors.New("process 7: exe: file name too long")}, err
				}
			},
			"processes", Warning, true, "",
		},
		{"attaching fails", func(s *System) {
			s.Try = func(context.Context, VM) (Trial, error) { return Trial{}, errors.New("busy") }
		}, "attach", Missing, false, "busy"},
		{"no BTF", func(s *System) { s.Root = root(fstest.MapFS{"sys/kernel/btf/vmlinux": nil}) }, "BTF", Warning, true, ""},
		{"no BTF in a container", containerWithoutBTF, "BTF", Missing, false, "run beamscope on the host"},
		{"no BTF in a container: eBPF", containerWithoutBTF, "eBPF", Missing, false, "CONFIG_DEBUG_INFO_BTF"},
		{"no JIT", func(s *System) { s.Root = root(fstest.MapFS{"proc/sys/net/core/bpf_jit_enable": text("0")}) }, "eBPF JIT", Warning, true, ""},
		{"slow clock", func(s *System) {
			s.Root = root(fstest.MapFS{"sys/devices/system/clocksource/clocksource0/current_clocksource": text("hpet")})
		}, "clock", Warning, true, ""},
		{"nothing to read", func(s *System) { s.Root = fstest.MapFS{} }, "operating system", Unknown, true, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := healthy()
			test.change(&s)
			r := Examine(t.Context(), s, ignore)
			if r.Works != test.works || (r.Do == "") != test.works || !strings.Contains(r.Do, test.do) {
				t.Errorf("works: %v; to do: %q", r.Works, r.Do)
			}
			if got := statusOf(r, test.check); got != test.status {
				t.Errorf("%s: %q, want %q", test.check, got, test.status)
			}
			for _, c := range r.Checks {
				if c.Status == Missing && c.Do == "" {
					t.Errorf("%s is missing, and nothing to do: %s", c.Name, c.Found)
				}
			}
		})
	}
}

func statusOf(r Report, name string) Status {
	for _, c := range r.Checks {
		if c.Name == name {
			return c.Status
		}
	}
	return ""
}

func TestOlder(t *testing.T) {
	for release, want := range map[string]bool{
		"6.6.0": false, "6.10.1-x": false, "7.0": false, "6.5.13-100.fc37": true, "5.19": true, "6": true, "": true,
	} {
		if got := older(release, 6, 6); got != want {
			t.Errorf("%q is before 6.6: %v", release, got)
		}
	}
}

func TestText(t *testing.T) {
	for name, change := range map[string]func(*System){
		"works":     func(*System) {},
		"not-root":  unprivileged,
		"no-probes": withoutProbes,
		"stand-ins": standIns,
	} {
		t.Run(name, func(t *testing.T) {
			s := healthy()
			change(&s)
			var text, json strings.Builder
			printers := []Printer{NewText(&text), NewJSON(&json)}
			r := Examine(t.Context(), s, func(c Check) {
				for _, p := range printers {
					if err := p.Check(c); err != nil {
						t.Error(err)
					}
				}
			})
			for _, p := range printers {
				if err := p.Result(r); err != nil {
					t.Fatal(err)
				}
			}
			golden(t, name+".txt", text.String())
			golden(t, name+".json", json.String())
		})
	}
}

// golden compares with a file in testdata, or writes the file if UPDATE_GOLDEN is set.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// Any Erlang VM can be observed. If none runs, and nothing else is missing, the machine is ready, and
// the advice asks for no probes.
func TestOnlyAVMIsMissing(t *testing.T) {
	none := find(fmt.Errorf("beam.smp: %w", vm.ErrNone))
	for name, test := range map[string]struct {
		change func(*System)
		want   bool
	}{
		"no VM runs":               {none, true},
		"a VM runs":                {func(*System) {}, false},
		"no VM runs, and not root": {func(s *System) { unprivileged(s); none(s) }, false},
		"the pid is of no VM":      {func(s *System) { s.PID = 99; none(s) }, false},
	} {
		s := healthy()
		test.change(&s)
		r := Examine(t.Context(), s, func(Check) {})
		if r.OnlyVM != test.want || test.want && (r.Works || strings.Contains(r.Do, "start an Erlang VM with probes")) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// The file with the symbols of a stripped executable is reported, and that it is not believed.
func TestSymbols(t *testing.T) {
	const file = "/tmp/beam.debug"
	for _, test := range []struct {
		vm     VM
		status Status
		says   string
	}{
		{VM{Stripped: true}, Warning, "no build ID"},
		{VM{Stripped: true, Unfound: errors.New("/tmp/beam.debug: it is of another build")}, Warning, "beam.debug: it is of another build"},
		{VM{Stripped: true, Symbols: file}, OK, file},
		{VM{Stripped: true, Symbols: file, Forged: errors.New("erts_schedule at 0x1: no function begins there")}, Warning, "forged: erts_schedule at 0x1"},
	} {
		c, ok := symbolsOf(test.vm)
		if !ok || c.Status != test.status || (c.Status == OK) != (c.Do == "") || !strings.Contains(c.Found, test.says) {
			t.Errorf("%+v: %+v, %v", test.vm, c, ok)
		}
	}
}
