package bpf

import (
	"fmt"
	"syscall"
)

// syscallName names a system call: those that may sleep, others by their number.
func syscallName(number int) string {
	switch number {
	case syscall.SYS_ACCEPT:
		return "accept"
	case syscall.SYS_ACCEPT4:
		return "accept4"
	case syscall.SYS_CLOCK_NANOSLEEP:
		return "clock_nanosleep"
	case syscall.SYS_CLOSE:
		return "close"
	case syscall.SYS_CONNECT:
		return "connect"
	case syscall.SYS_EPOLL_PWAIT:
		return "epoll_pwait"
	case syscall.SYS_FCNTL:
		return "fcntl"
	case syscall.SYS_FDATASYNC:
		return "fdatasync"
	case syscall.SYS_FLOCK:
		return "flock"
	case syscall.SYS_FSYNC:
		return "fsync"
	case syscall.SYS_FUTEX:
		return "futex"
	case syscall.SYS_IOCTL:
		return "ioctl"
	case syscall.SYS_MADVISE:
		return "madvise"
	case syscall.SYS_MMAP:
		return "mmap"
	case syscall.SYS_MPROTECT:
		return "mprotect"
	case syscall.SYS_MREMAP:
		return "mremap"
	case syscall.SYS_MUNMAP:
		return "munmap"
	case syscall.SYS_NANOSLEEP:
		return "nanosleep"
	case syscall.SYS_OPENAT:
		return "openat"
	case syscall.SYS_PPOLL:
		return "ppoll"
	case syscall.SYS_PREAD64:
		return "pread64"
	case syscall.SYS_PREADV:
		return "preadv"
	case syscall.SYS_PSELECT6:
		return "pselect6"
	case syscall.SYS_PWRITE64:
		return "pwrite64"
	case syscall.SYS_PWRITEV:
		return "pwritev"
	case syscall.SYS_READ:
		return "read"
	case syscall.SYS_READV:
		return "readv"
	case syscall.SYS_RECVFROM:
		return "recvfrom"
	case syscall.SYS_RECVMSG:
		return "recvmsg"
	case syscall.SYS_SENDMSG:
		return "sendmsg"
	case syscall.SYS_SENDTO:
		return "sendto"
	case syscall.SYS_WAIT4:
		return "wait4"
	case syscall.SYS_WAITID:
		return "waitid"
	case syscall.SYS_WRITE:
		return "write"
	case syscall.SYS_WRITEV:
		return "writev"
	}
	if name := syscallNameHere(number); name != "" {
		return name
	}
	return fmt.Sprintf("system call %d", number)
}
