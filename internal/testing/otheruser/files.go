//go:build linux

package otheruser

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Files is a file system in user space (FUSE) with one file, such as any user can have. It can stop
// answering: then everybody who uses it waits until the test ends.
type Files struct {
	Path string // of the file

	device   int
	content  []byte
	programs []*exec.Cmd // programs that use the file system

	over chan struct{} // closed when the test ends

	mu      sync.Mutex
	silent  silence
	closing chan struct{} // closed when a process waits for an answer to a close
}

// A silence says which requests are not answered.
type silence uint8

const (
	answersAll silence = iota
	answersButCloses
	answersNames
	answersNothing
)

// NewFiles mounts a file system for the test with a file of this name and content.
// Everybody may use it, which takes root, or a line in fuse.conf.
func NewFiles(t testing.TB, name string, content []byte) *Files {
	t.Helper()
	dir := Dir(t)
	device, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("/dev/fuse: %v", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40755,user_id=%d,group_id=%[2]d,allow_other,default_permissions", device, User)
	if err := unix.Mount("test", dir, "fuse", unix.MS_NODEV|unix.MS_NOSUID, options); err != nil {
		t.Fatal(errors.Join(err, unix.Close(device)))
	}
	f := &Files{Path: filepath.Join(dir, name), device: device, content: content, over: make(chan struct{}), closing: make(chan struct{})}
	var serving sync.WaitGroup
	serving.Go(f.serve)
	t.Cleanup(func() {
		close(f.over)
		serving.Wait()
		if err := errors.Join(unix.Close(device), f.Detach()); err != nil { // pending requests then fail
			t.Error(err)
		}
		for _, cmd := range f.programs {
			_ = cmd.Wait()
		}
	})
	return f
}

// Detach takes the file system out of all lists of mounts. Programs that use it go on. It may be called again.
func (f *Files) Detach() error {
	err := unix.Unmount(filepath.Dir(f.Path), unix.MNT_DETACH)
	if errors.Is(err, unix.EINVAL) { // not mounted any more
		return nil
	}
	return err
}

// Run starts the file as a program of the hostile user that ends with the test, and
// returns when it runs.
func (f *Files) Run(t testing.TB, args string) (pid int) {
	t.Helper()
	// Go does not release the processor while it waits for a program to be loaded, and this file
	// system needs the processor to serve the program. So another program starts it.
	cmd := Command("/bin/sh", "-c", "exec "+f.Path+" "+args)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may be able to end only when the file system ends
	f.programs = append(f.programs, cmd)
	link := fmt.Sprintf("/proc/%d/exe", cmd.Process.Pid)
	for deadline := time.Now().Add(time.Minute); ; {
		if exe, err := os.Readlink(link); err == nil && exe == f.Path {
			return cmd.Process.Pid
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not start", f.Path)
		}
	}
}

// Silence makes the file system stop answering.
func (f *Files) Silence() { f.fall(answersNothing) }

// SilenceContents makes the file system stop answering requests to open the file or to read it.
func (f *Files) SilenceContents() { f.fall(answersNames) }

// RunWithin starts a program of the hostile user that executes another program, and keeps the file
// open until then. The file system does not answer when the file is closed. RunWithin returns when
// that has begun: until the test ends, the kernel delays everybody who asks for the executable of
// that process.
func (f *Files) RunWithin(t testing.TB) (pid int) {
	t.Helper()
	cmd := Command("/usr/bin/perl", "-e", `open(F, "<", $ARGV[0]) or die; exec("sleep", "infinity")`, f.Path)
	f.fall(answersButCloses)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may be able to end only when the file system ends
	f.programs = append(f.programs, cmd)
	select {
	case <-f.closing:
	case <-time.After(time.Minute):
		t.Fatalf("%s is not closed", f.Path)
	}
	return cmd.Process.Pid
}

func (f *Files) fall(s silence) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.silent = s
}

// Constants of the protocol, see linux/fuse.h.
const (
	headerBytes = 40
	mostBytes   = 1 << 20

	rootNode, fileNode = 1, 2

	opLookup, opForget, opGetattr          = 1, 2, 3
	opOpen, opRead, opStatfs, opRelease    = 14, 15, 17, 18
	opFlush, opInit, opOpendir             = 25, 26, 27
	opReleasedir, opInterrupt, opForgetAll = 29, 36, 42
)

// serve answers requests until the file system is gone.
func (f *Files) serve() {
	request := make([]byte, mostBytes+headerBytes)
	for {
		select {
		case <-f.over:
			return
		default:
		}
		const milliseconds = 20 // poll does not return when the connection ends
		if n, _ := unix.Poll([]unix.PollFd{{Fd: int32(f.device), Events: unix.POLLIN}}, milliseconds); n <= 0 {
			continue
		}
		if f.silence() == answersNothing {
			<-f.over
			return
		}
		n, err := unix.Read(f.device, request)
		if err == unix.ENODEV {
			return
		}
		if err != nil || n < headerBytes {
			continue // the process that asked is gone
		}
		if reply := f.answer(request[:n]); reply != nil {
			_, _ = unix.Write(f.device, reply) // likewise
		}
	}
}

func (f *Files) silence() silence {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.silent
}

// answer returns the reply to a request, or nil to send none.
func (f *Files) answer(request []byte) []byte {
	le := binary.LittleEndian
	op, node, body := le.Uint32(request[4:]), le.Uint64(request[16:]), request[headerBytes:]
	var out []byte
	failure := unix.Errno(0)
	switch op {
	case opForget, opForgetAll, opInterrupt:
		return nil
	case opOpen, opRead:
		if f.silence() == answersNames {
			return nil
		}
	case opFlush:
		if f.silence() == answersButCloses {
			close(f.closing)
			return nil
		}
	}
	switch op {
	case opInit:
		out = le.AppendUint32(le.AppendUint32(nil, 7), 31) // version
		out = append(out, make([]byte, 64-len(out))...)
		le.PutUint32(out[20:], 4096) // max_write
	case opLookup:
		if name := string(body[:len(body)-1]); node != rootNode || name != filepath.Base(f.Path) {
			failure = unix.ENOENT
			break
		}
		out = append(le.AppendUint64(nil, fileNode), make([]byte, 32)...) // no caching
		out = f.attributes(out, fileNode)
	case opGetattr:
		out = f.attributes(make([]byte, 16), node)
	case opOpen, opOpendir:
		out = make([]byte, 16)
	case opRead:
		from := min(le.Uint64(body[8:]), uint64(len(f.content)))
		out = f.content[from:min(from+uint64(le.Uint32(body[16:])), uint64(len(f.content)))]
	case opStatfs:
		out = make([]byte, 80)
	case opRelease, opReleasedir, opFlush:
	default:
		failure = unix.ENOSYS
	}
	reply := le.AppendUint32(nil, uint32(16+len(out)))
	reply = le.AppendUint32(reply, uint32(-int32(failure)))
	return append(append(reply, request[8:16]...), out...)
}

// attributes appends the file attributes of a node.
func (f *Files) attributes(to []byte, node uint64) []byte {
	le := binary.LittleEndian
	size, mode := uint64(len(f.content)), uint32(unix.S_IFREG|0o755)
	if node == rootNode {
		size, mode = 0, unix.S_IFDIR|0o755
	}
	to = le.AppendUint64(le.AppendUint64(to, node), size)
	to = append(to, make([]byte, 4*8+3*4)...) // blocks and times
	for _, n := range []uint32{mode, 1, User, User, 0, 4096, 0} {
		to = le.AppendUint32(to, n)
	}
	return to
}
