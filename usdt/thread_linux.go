package usdt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A threadMemory accesses the memory of a process by one of its threads. Unlike a file of /proc, that
// needs no right to open a file of another user, only that to trace the process (CAP_SYS_PTRACE).
type threadMemory struct{ *thread }

// threadMemory opens the process's memory by one of its threads.
func (p Process) threadMemory() (Memory, error) {
	t, err := p.ownThread()
	if err != nil {
		return nil, err
	}
	if err := proveHeld(); err != nil {
		t.close()
		return nil, err
	}
	return threadMemory{t}, nil
}

// ownThread opens a thread whose number system calls can use.
func (p Process) ownThread() (*thread, error) {
	if p.proc != "" {
		return nil, fmt.Errorf("%w: /proc is mounted at %s", errors.ErrUnsupported, p.proc)
	}
	if err := sameNumbers(); err != nil {
		return nil, err
	}
	return p.openThread()
}

// ReadAt implements [io.ReaderAt].
func (m threadMemory) ReadAt(data []byte, address int64) (int, error) {
	if len(data) == 0 {
		return 0, nil
	}
	n, err := unix.ProcessVMReadv(m.number, iovec(data), []unix.RemoteIovec{{Base: uintptr(address), Len: len(data)}}, 0)
	if gone := m.check(); gone != nil { // this may be the memory of another process
		clear(data)
		return 0, gone
	}
	if n = max(n, 0); err == nil && n < len(data) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// WriteAt implements [io.WriterAt]. The kernel writes to the memory that the number of the thread stood
// for when it began. It is held there until it is certain that this is the opened thread.
func (m threadMemory) WriteAt(data []byte, address int64) (int, error) {
	return writeHeld(m.number, data, address, m.check)
}

// Close implements [io.Closer].
func (m threadMemory) Close() error { return m.close() }

// iovec describes data that is not empty.
func iovec(data []byte) []unix.Iovec {
	v := []unix.Iovec{{Base: &data[0]}}
	v[0].SetLen(len(data))
	return v
}

// threadPages shows the state of a process's pages as the file pagemap does, as far as this system call
// knows it: whether a page is present.
type threadPages struct{ *thread }

// threadPages returns the state of the process's pages. Swapped pages seem to be absent.
func (p Process) threadPages() (ReadableMemory, error) {
	t, err := p.ownThread()
	if err != nil {
		return nil, err
	}
	return threadPages{t}, nil
}

// ReadAt reads the 8 bytes of each page from a page on. The offset is that of the file.
func (s threadPages) ReadAt(entries []byte, offset int64) (int, error) {
	const entry, present = 8, 1 << 63
	count := len(entries) / entry
	if count == 0 {
		return 0, nil
	}
	pages, status := make([]uintptr, count), make([]int32, count)
	for i := range pages {
		pages[i] = uintptr(offset/entry+int64(i)) * uintptr(os.Getpagesize())
	}
	_, _, errno := unix.Syscall6(unix.SYS_MOVE_PAGES, uintptr(s.number), uintptr(count), uintptr(unsafe.Pointer(&pages[0])), 0, uintptr(unsafe.Pointer(&status[0])), 0)
	if gone := s.check(); gone != nil {
		return 0, gone
	}
	if errno != 0 {
		return 0, errno
	}
	for i, state := range status {
		var word uint64
		if state != -int32(unix.ENOENT) && state != -int32(unix.EFAULT) {
			word = present
		}
		binary.LittleEndian.PutUint64(entries[entry*i:], word)
	}
	return entry * count, nil
}

// Close implements [io.Closer].
func (s threadPages) Close() error { return s.close() }

// Constants of linux/userfaultfd.h.
const (
	uffdAPI         = 0xaa
	uffdioAPI       = 0xc018aa3f
	uffdioRegister  = 0xc020aa00
	uffdioWake      = 0x8010aa02
	uffdioCopy      = 0xc028aa03
	registerMissing = 1
	eventPageFault  = 0x12
	uffdMessage     = 32 // bytes
)

// writeHeld writes to the memory of a thread if check allows it. process_vm_writev(2) takes hold of the
// memory and of the pages in it that it writes to, and only then reads the data. The data is missing
// until then: the kernel asks for it (userfaultfd(2)), and waits. Meanwhile check finds out whether this
// is the right memory. If it returns an error, there will never be any data, and nothing is written.
func writeHeld(thread int, data []byte, address int64, check func() error) (n int, err error) {
	h, err := newHold(data)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	answered := make(chan error, 1)
	go func() { answered <- h.answer(check) }()
	n, err = unix.ProcessVMWritev(thread, iovec(h.missing[:len(data)]), []unix.RemoteIovec{{Base: uintptr(address), Len: len(data)}}, 0)
	endErr := h.end()
	if refused := <-answered; refused != nil {
		err = refused
	}
	if err = errors.Join(err, endErr); err != nil {
		return 0, err
	}
	if n < len(data) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

// A hold keeps back data that the kernel reads.
type hold struct {
	missing []byte // a page that the kernel asks for, never used before
	content []byte // its content
	asking  int    // userfaultfd
	ending  int    // eventfd
}

// newHold returns a hold of data, at most a page.
func newHold(data []byte) (h *hold, err error) {
	page := os.Getpagesize()
	if len(data) == 0 || len(data) > page {
		return nil, fmt.Errorf("write %d bytes: want 1 to %d", len(data), page)
	}
	h = &hold{asking: -1, ending: -1}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	for _, p := range []*[]byte{&h.missing, &h.content} {
		if *p, err = unix.Mmap(-1, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
			return nil, fmt.Errorf("hold a write: %w", err)
		}
	}
	copy(h.content, data)
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK, 0, 0)
	if errno != 0 {
		return nil, fmt.Errorf("hold a write: userfaultfd: %w", errno)
	}
	h.asking = int(fd)
	if h.ending, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		return nil, fmt.Errorf("hold a write: eventfd: %w", err)
	}
	if err := h.control(uffdioAPI, uffdAPI, 0, 0); err != nil {
		return nil, err
	}
	return h, h.control(uffdioRegister, h.at(h.missing), uint64(page), registerMissing, 0)
}

func (*hold) at(page []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&page[0]))) }

// control makes a request to the userfaultfd.
func (h *hold) control(what uintptr, argument ...uint64) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(h.asking), what, uintptr(unsafe.Pointer(&argument[0])))
	if errno != 0 {
		return fmt.Errorf("hold a write: userfaultfd: %w", errno)
	}
	return nil
}

// answer answers the kernel when it asks for the data, until the end. It returns the error of check, or
// why it could not answer; then the kernel gets no data.
func (h *hold) answer(check func() error) (refused error) {
	given := false
	for {
		asks, err := h.wait()
		switch {
		case err != nil:
			return errors.Join(refused, err, h.refuse())
		case !asks:
			return refused
		case given || refused != nil:
			err = h.wake() // a signal has made it ask again
		default:
			if err = check(); err == nil {
				err, given = h.give(), true
			}
		}
		if err != nil {
			refused = errors.Join(refused, err, h.refuse())
		}
	}
}

// wait waits until the kernel asks for the data. It returns false at the end.
func (h *hold) wait() (asks bool, err error) {
	for {
		fds := []unix.PollFd{{Fd: int32(h.asking), Events: unix.POLLIN}, {Fd: int32(h.ending), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return false, fmt.Errorf("hold a write: %w", err)
		} else if err != nil {
			continue
		}
		if fds[1].Revents != 0 {
			return false, nil
		}
		var message [uffdMessage]byte
		n, err := unix.Read(h.asking, message[:])
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		case err != nil:
			return false, fmt.Errorf("hold a write: userfaultfd: %w", err)
		case n == len(message) && message[0] == eventPageFault:
			return true, nil
		}
	}
}

// give gives the kernel the data.
func (h *hold) give() error {
	return h.control(uffdioCopy, h.at(h.missing), h.at(h.content), uint64(len(h.missing)), 0, 0)
}

// refuse makes the kernel's read of the data fail.
func (h *hold) refuse() error {
	if err := unix.Mprotect(h.missing, unix.PROT_NONE); err != nil {
		return err // it waits forever rather than write
	}
	return h.wake()
}

// wake makes the kernel try again.
func (h *hold) wake() error {
	return h.control(uffdioWake, h.at(h.missing), uint64(len(h.missing)))
}

// end ends answering.
func (h *hold) end() error {
	_, err := unix.Write(h.ending, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	return err
}

func (h *hold) close() error {
	var errs []error
	for _, fd := range []int{h.asking, h.ending} {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	for _, page := range [][]byte{h.missing, h.content} {
		if page != nil {
			errs = append(errs, unix.Munmap(page))
		}
	}
	return errors.Join(errs...)
}

// proveHeld proves that this kernel takes hold of the pages to write to before it reads the data: if
// there is no such page, it does not ask for the data. Otherwise a check within the write would prove
// nothing, and the error wraps [errors.ErrUnsupported].
func proveHeld() error {
	none, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(none) }()
	asked := false
	errAsked := errors.New("asked")
	_, err = writeHeld(os.Getpid(), make([]byte, 8), int64(uintptr(unsafe.Pointer(&none[0]))), func() error {
		asked = true
		return errAsked
	})
	switch {
	case asked || err == nil:
		return fmt.Errorf("%w: this kernel reads the data of a write before it takes hold of the memory", errors.ErrUnsupported)
	case !errors.Is(err, unix.EFAULT):
		return err
	}
	return nil
}
