package bpf

import "syscall"

// syscallNameHere names a system call that is not on all architectures.
func syscallNameHere(number int) string {
	switch number {
	case syscall.SYS_EPOLL_WAIT:
		return "epoll_wait"
	case syscall.SYS_OPEN:
		return "open"
	case syscall.SYS_POLL:
		return "poll"
	case syscall.SYS_SELECT:
		return "select"
	}
	return ""
}
