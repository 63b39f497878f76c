package bpf

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// InHostPIDs reports whether this process is in the pid namespace of the host. In another
// namespace, processes that it cannot see may run the executables that it attaches to.
func InHostPIDs() (bool, error) {
	inode, err := namespaceInode()
	return inode == 0, err
}

// namespaceInode returns the inode of our pid namespace, or 0 if that is the initial one.
func namespaceInode() (uint32, error) {
	const initial = 0xEFFFFFFC // PROC_PID_INIT_INO, linux/proc_ns.h

	info, err := os.Stat("/proc/self/ns/pid")
	if err != nil {
		return 0, fmt.Errorf("find the pid namespace: %w", err)
	}
	inode := uint32(info.Sys().(*syscall.Stat_t).Ino)
	if inode == initial {
		return 0, nil
	}
	return inode, nil
}

// ownNamespace returns what programs need to know of our pid namespace: nothing in the initial one,
// whose pids they get more cheaply. The error wraps [ErrNamespace] if the kernel does not tell.
func ownNamespace() (namespaceNamespacePlaces, error) {
	inode, err := namespaceInode()
	if err != nil || inode == 0 {
		return namespaceNamespacePlaces{}, err
	}
	return findNamespace(inode, btf.LoadKernelSpec)
}

// findNamespace returns what programs need to know of our pid namespace, which has an inode. It
// tries one level after the other: programs know the namespace if they find our own pid there.
func findNamespace(inode uint32, load func() (*btf.Spec, error)) (namespaceNamespacePlaces, error) {
	const deepest = 32 // MAX_PID_NS_LEVEL, linux/pid_namespace.h

	places, size, err := namespacePlaces(load)
	if err != nil {
		return namespaceNamespacePlaces{}, fmt.Errorf("%w: %w: the kernel has no type information (BTF) that tells them: run beamscope on the host, or use a kernel built with CONFIG_DEBUG_INFO_BTF: %w", ErrKernel, ErrNamespace, err)
	}
	places.Inode = inode
	for places.Level = 1; places.Level <= deepest; places.Level++ {
		places.Here += size
		pid, err := ownPID(places)
		if err != nil {
			return namespaceNamespacePlaces{}, fmt.Errorf("find the pid namespace: %w", explain(err))
		}
		if pid == os.Getpid() {
			return places, nil
		}
	}
	return namespaceNamespacePlaces{}, fmt.Errorf("%w: %w: run beamscope on the host", ErrKernel, ErrNamespace)
}

// namespacePlaces returns where the kernel keeps pids: of a namespace of level 0, and the distance to
// those of the next level.
func namespacePlaces(load func() (*btf.Spec, error)) (p namespaceNamespacePlaces, size uint32, err error) {
	types, err := load()
	if err != nil {
		return p, 0, err
	}
	var inode uint32
	var errs []error
	for _, member := range []struct {
		of, name string
		place    *uint32
	}{
		{"task_struct", "group_leader", &p.Leader},
		{"task_struct", "thread_pid", &p.Pid},
		{"pid", "level", &p.Deepest},
		{"pid", "numbers", &p.Here},
		{"upid", "nr", &p.Nr},
		{"upid", "ns", &p.Ns},
		{"pid_namespace", "ns", &p.Number},
		{"ns_common", "inum", &inode},
	} {
		errs = append(errs, place(types, member.of, member.name, member.place))
	}
	p.Number += inode
	var upid *btf.Struct
	if err := errors.Join(append(errs, types.TypeByName("upid", &upid))...); err != nil {
		return p, 0, err
	}
	return p, upid.Size, nil
}

// place sets the place of a member in a structure of the kernel, in bytes.
func place(types *btf.Spec, of, name string, place *uint32) error {
	var s *btf.Struct
	if err := types.TypeByName(of, &s); err != nil {
		return err
	}
	at, ok := placeIn(s.Members, name)
	if !ok {
		return fmt.Errorf("struct %s has no member %s", of, name)
	}
	*place = at
	return nil
}

// placeIn returns the place of a member, which may be in a structure without a name: some kernels
// put the members that they shuffle into one.
func placeIn(members []btf.Member, name string) (uint32, bool) {
	for _, m := range members {
		if m.Name == name {
			return m.Offset.Bytes(), true
		}
		if inner, ok := btf.As[*btf.Struct](m.Type); ok && m.Name == "" {
			if at, ok := placeIn(inner.Members, name); ok {
				return m.Offset.Bytes() + at, true
			}
		}
	}
	return 0, false
}

// ownPID returns our pid as programs find it in a namespace, 0 if they do not.
func ownPID(places namespaceNamespacePlaces) (int, error) {
	program, err := ownPIDProgram(places)
	if err != nil {
		return 0, err
	}
	defer program.Close()
	pid, err := program.Run(nil)
	return int(pid), err
}

// ownPIDProgram loads the program that returns the pid of the process that runs it.
func ownPIDProgram(places namespaceNamespacePlaces) (*ebpf.Program, error) {
	spec, err := loadNamespace()
	if err != nil {
		return nil, err
	}
	if err := setVariables(spec, map[string]any{namespaceVarNamespace: places}); err != nil {
		return nil, err
	}
	var objects namespacePrograms
	err = spec.LoadAndAssign(&objects, nil)
	return objects.OwnPid, err
}
