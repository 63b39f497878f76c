/* SPDX-License-Identifier: Apache-2.0 OR MIT */

/* The pids of processes as user space sees them. */

#ifndef NAMESPACE_BPF_H
#define NAMESPACE_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* The pid namespace of user space, and where the kernel keeps the pid that a process has there. A
 * process has a pid in its own namespace and in each one above it, up to the initial namespace,
 * which has level 0. Places are in bytes. User space reads them from the kernel's type information.
 * Relocations would do the same, but a program with relocations cannot be loaded without that
 * information, and in the initial namespace it is not needed. */
struct namespace_places {
	__u32 inode;   /* of the namespace; 0: it is the initial one, and the rest is unused */
	__u32 level;   /* of the namespace */
	__u32 leader;  /* place in struct task_struct of group_leader */
	__u32 pid;     /* place in struct task_struct of thread_pid */
	__u32 deepest; /* place in struct pid of level */
	__u32 here;    /* place in struct pid of the struct upid of the level */
	__u32 nr;      /* place in struct upid of nr */
	__u32 ns;      /* place in struct upid of ns */
	__u32 number;  /* place in struct pid_namespace of its inode number */
};

const volatile struct namespace_places namespace;

static __always_inline void *pointer_at(void *place) { return *(void **)place; }

static __always_inline __u32 word_at(void *place) { return *(__u32 *)place; }

/* Returns the pid of the current process in a namespace that is not the initial one, or 0 if the
 * process is outside. What is no longer there is read as 0. */
static __always_inline __u32 pid_in_namespace(void)
{
	void *leader = pointer_at((void *)bpf_get_current_task_btf() + namespace.leader);
	void *pid = pointer_at(leader + namespace.pid), *here = pid + namespace.here;

	if (word_at(pid + namespace.deepest) < namespace.level)
		return 0;
	if (word_at(pointer_at(here + namespace.ns) + namespace.number) != namespace.inode)
		return 0;
	return word_at(here + namespace.nr);
}

/* Returns the pid of the VM in the pid namespace of user space, or 0 if the VM is outside that
 * namespace and therefore not observed. */
static __always_inline __u32 current_pid(void)
{
	return namespace.inode ? pid_in_namespace() : bpf_get_current_pid_tgid() >> 32;
}

#endif
