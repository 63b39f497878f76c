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
	"github.com/beamscope/beamscope/internal/vm"
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
			{"uprobe_multi", func() error { return nil }},
			{"ring buffer", func() error { return nil }},
		},
		Subjects: refusing(),
		VMs: func(context.Context) ([]VM, usdt.Skipped, error) {
			return []VM{{PID: 4711, Node: "shop@host", Exe: "/opt/otp/erts-13.1.5/bin/beam.smp", Flavour: "JIT", Probes: 1004}}, usdt.Skipped{}, nil
		},
		Try: func(context.Context, VM) (Trial, error) {
			return Trial{Attach: 12300 * time.Microsecond, Detach: 24 * time.Millisecond}, nil
		},
	}
}

// refusing is the Subjects of a kernel that refuses some of three.
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

// root is the file system of a healthy machine, but for some of its files: those
// that are nil are not there.
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

func unprivileged(s *System) {
	denied := fmt.Errorf("%w: %w", bpf.ErrPermission, fs.ErrPermission)
	s.Root = root(fstest.MapFS{"proc/self/status": text(userStatus)})
	s.EBPF = func() error { return denied }
	for i := range s.Features {
		s.Features[i].Try = func() error { return denied }
	}
}

func oldKernel(s *System) {
	s.Root = root(fstest.MapFS{"proc/sys/kernel/osrelease": text("5.15.0-91-generic\n")})
	s.EBPF = func() error {
		return fmt.Errorf("%w: Linux 6.6 or later is needed: uprobe_multi links: %w", bpf.ErrKernel, ebpf.ErrNotSupported)
	}
	s.Features[0].Try = func() error { return ebpf.ErrNotSupported }
}

func find(err error) func(*System) {
	return func(s *System) {
		s.VMs = func(context.Context) ([]VM, usdt.Skipped, error) { return nil, usdt.Skipped{}, err }
	}
}

// stopped has every VM stopped.
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
			"not root and no VM to be seen",
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
			"no CAP_SYS_PTRACE, but the VM is one's own",
			func(s *System) {
				s.Root = root(fstest.MapFS{"proc/self/status": text("Uid:\t1000\t1000\t1000\t1000\nCapEff:\t000000c000000000\n")})
			},
			"privileges", Missing, true, "",
		},
		{"kernel before 6.6", oldKernel, "eBPF", Missing, false, "use Linux 6.6 or later"},
		{"kernel before 6.6: its version", oldKernel, "operating system", Warning, false, "use Linux 6.6 or later"},
		{"kernel before 6.6: uprobe_multi", oldKernel, "uprobe_multi", Missing, false, "use Linux 6.6 or later"},
		{"kernel before 6.6: ring buffer", oldKernel, "ring buffer", OK, false, "use Linux 6.6 or later"},
		{"kernel 6.8", func(s *System) { s.Root = root(fstest.MapFS{"proc/sys/kernel/osrelease": text("6.8.0")}) }, "operating system", Warning, true, ""},
		{"all outcomes", func(*System) {}, "outcomes", OK, true, ""},
		{"some outcomes", func(s *System) { s.Subjects = refusing("os-wait", "explanations") }, "outcomes", Warning, true, ""},
		{
			"no outcomes",
			func(s *System) { s.Subjects = refusing("spans", "os-wait", "explanations"); find(vm.ErrNone)(s) },
			"outcomes", Missing, false, "use another kernel",
		},
		{"kernel before 6.6: outcomes", oldKernel, "outcomes", Unknown, false, "use Linux 6.6 or later"},
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
		{"no VM", find(fmt.Errorf("beam.smp: %w", vm.ErrNone)), "Erlang VMs", Missing, false, "beamscope demo"},
		{"no Erlang VM", find(fmt.Errorf("pid 1 (init): %w", vm.ErrNotVM)), "Erlang VMs", Missing, false, "give --pid the id of a running VM"},
		{
			"what nobody may look at",
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
			func(s *System) {
				s.VMs = func(context.Context) ([]VM, usdt.Skipped, error) {
					return []VM{{PID: 42, Exe: "/usr/lib/erlang/erts-13.1.5/bin/beam.smp", Err: vm.ErrNoProbes}}, usdt.Skipped{}, nil
				}
			},
			"Erlang VM", Missing, false, "pid 42 has no probes",
		},
		{
			"a VM that may not be looked at",
			func(s *System) {
				s.VMs = func(context.Context) ([]VM, usdt.Skipped, error) {
					return []VM{{PID: 42, Exe: "beam.smp", Err: fs.ErrPermission}}, usdt.Skipped{}, nil
				}
			},
			"Erlang VM", Unknown, false, "run as root",
		},
		{
			"a process that cannot be looked at",
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
		{"no JIT", func(s *System) { s.Root = root(fstest.MapFS{"proc/sys/net/core/bpf_jit_enable": text("0")}) }, "eBPF JIT", Warning, true, ""},
		{"slow clock", func(s *System) {
			s.Root = root(fstest.MapFS{"sys/devices/system/clocksource/clocksource0/current_clocksource": text("hpet")})
		}, "clock", Warning, true, ""},
		{"nothing to read", func(s *System) { s.Root = fstest.MapFS{} }, "operating system", Unknown, true, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := healthy()
			test.change(&s)
			r := Examine(t.Context(), s)
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
		"works":    func(*System) {},
		"not-root": unprivileged,
		"no-probes": func(s *System) {
			s.VMs = func(context.Context) ([]VM, usdt.Skipped, error) {
				return []VM{{PID: 42, Exe: "/usr/lib/erlang/erts-13.1.5/bin/beam.smp", Err: vm.ErrNoProbes}}, usdt.Skipped{}, nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := healthy()
			change(&s)
			r := Examine(t.Context(), s)
			var text, json strings.Builder
			if err := errors.Join(Text(&text, r), JSON(&json, r)); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".txt", text.String())
			golden(t, name+".json", json.String())
		})
	}
}

// golden compares with a file of testdata, or writes it if UPDATE_GOLDEN is set.
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
