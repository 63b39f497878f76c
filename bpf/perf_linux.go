package bpf

import (
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// setGap sets the time between the interrupts of an event.
func setGap(event int, gap time.Duration) error {
	period := uint64(gap)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(event), unix.PERF_EVENT_IOC_PERIOD, uintptr(unsafe.Pointer(&period))); errno != 0 {
		return errno
	}
	return nil
}

// openSampling opens an event that occurs again and again on a processor, or while a thread is at
// work.
func openSampling(gap time.Duration, thread, cpu int) (int, error) {
	attr := unix.PerfEventAttr{
		Type:   unix.PERF_TYPE_SOFTWARE,
		Config: unix.PERF_COUNT_SW_CPU_CLOCK,
		Size:   uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample: uint64(gap),
		Bits:   unix.PerfBitDisabled,
	}
	return unix.PerfEventOpen(&attr, thread, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
}

// setSampling sets the program that runs at an event.
func setSampling(event int, program *ebpf.Program) error {
	return unix.IoctlSetInt(event, unix.PERF_EVENT_IOC_SET_BPF, program.FD())
}

// enableSampling starts an event.
func enableSampling(event int) error {
	return unix.IoctlSetInt(event, unix.PERF_EVENT_IOC_ENABLE, 0)
}

// nameThread gives the calling thread a name, and returns what gives it its own one back.
func nameThread(name string) (restore func(), err error) {
	var own [16]byte
	if err := unix.Prctl(unix.PR_GET_NAME, uintptr(unsafe.Pointer(&own)), 0, 0, 0); err != nil {
		return nil, err
	}
	var other [16]byte
	copy(other[:len(other)-1], name)
	if err := unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&other)), 0, 0, 0); err != nil {
		return nil, err
	}
	return func() { _ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&own)), 0, 0, 0) }, nil
}
