package usdt

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// executes is the value of childVariable that makes the test program print the address of a page, wait
// for a line, and execute another program.
const executes = "executes"

func init() {
	if os.Getenv(childVariable) == executes {
		printAndExecute()
	}
}

func printAndExecute() {
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		panic(err)
	}
	page[0] = 1
	fmt.Println(uintptr(unsafe.Pointer(&page[0])))
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		panic(err)
	}
	panic(syscall.Exec("/bin/sleep", []string{"sleep", "1000"}, nil))
}

// Memory that is accessed by a thread is that of one program. A write that has begun when the process
// executes another program does not reach that program.
func TestThreadMemory(t *testing.T) {
	if err := proveHeld(); errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		t.Skipf("needs CAP_SYS_PTRACE and userfaultfd: %v", err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+executes)
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	var address int64
	if _, err := fmt.Fscan(output, &address); err != nil {
		t.Fatal(err)
	}
	p, err := OpenProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(p.path("mem"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	opened, err := p.threadMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	memory := opened.(threadMemory)
	content := func() uint64 {
		t.Helper()
		var direct, byThread [8]byte
		_, errDirect := file.ReadAt(direct[:], address)
		_, errByThread := memory.ReadAt(byThread[:], address)
		if err := errors.Join(errDirect, errByThread); err != nil || direct != byThread {
			t.Fatalf("%x by the file, %x by the thread: %v", direct, byThread, err)
		}
		return binary.LittleEndian.Uint64(direct[:])
	}
	word := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	for n := range uint64(50) {
		if written, err := memory.WriteAt(word(n), address); written != 8 || err != nil {
			t.Fatal(written, err)
		}
		if got := content(); got != n {
			t.Fatalf("%d, want %d", got, n)
		}
	}
	errNot := errors.New("not this one")
	if _, err := writeHeld(memory.number, word(1000), address, func() error { return errNot }); !errors.Is(err, errNot) || content() != 49 {
		t.Errorf("a refused write: %v, and it is %d", err, content())
	}
	checkPresent(t, p, address)
	for _, data := range [][]byte{nil, make([]byte, os.Getpagesize()+1)} {
		if _, err := memory.WriteAt(data, address); err == nil {
			t.Errorf("%d bytes were written", len(data))
		}
	}
	if _, err := memory.WriteAt(word(1), 4096); !errors.Is(err, unix.EFAULT) {
		t.Errorf("a write to no memory: %v", err)
	}

	// It executes another program while the kernel waits for the data.
	executed := func() error {
		before, err := p.Executable()
		if err != nil {
			return err
		}
		if _, err := input.Write([]byte("go\n")); err != nil {
			return err
		}
		for now := before; now.Inode == before.Inode; {
			if now, err = p.Executable(); err != nil {
				return err
			}
		}
		return memory.check()
	}
	if _, err := writeHeld(memory.number, word(1000), address, executed); !errors.Is(err, ErrProcessGone) {
		t.Errorf("a write during which it executes another program: %v", err)
	}
	if _, err := memory.WriteAt(word(1000), address); err == nil {
		t.Error("a write after it executed another program")
	}
	if _, err := memory.ReadAt(make([]byte, 8), address); !errors.Is(err, ErrProcessGone) {
		t.Errorf("a read after it executed another program: %v", err)
	}
	if _, err := p.threadMemory(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a program with one thread: %v", err)
	}
}

// checkPresent checks that a page is present, and that the first one is not.
func checkPresent(t *testing.T, p Process, address int64) {
	t.Helper()
	pages, err := p.threadPages()
	if err != nil {
		t.Fatal(err)
	}
	defer pages.Close()
	for address, want := range map[int64]uint64{address: 1 << 63, 0: 0} {
		var entry [8]byte
		if _, err := pages.ReadAt(entry[:], address/int64(os.Getpagesize())*8); err != nil || binary.LittleEndian.Uint64(entry[:]) != want {
			t.Errorf("the page at %#x: %x, %v", address, entry, err)
		}
	}
}
