package bpf

// syscallNameHere names a system call that is not on all architectures.
func syscallNameHere(int) string { return "" }
