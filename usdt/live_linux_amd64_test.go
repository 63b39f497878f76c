package usdt

import (
	"encoding/binary"
	"errors"
	"io"
	"path/filepath"
	"testing"
)

// The fixture itself raises one of its semaphores to 3; see testdata/fixture.c.
func TestLiveSemaphores(t *testing.T) {
	for _, name := range []string{"x86_64-pie", "x86_64-exec"} {
		t.Run(name, func(t *testing.T) {
			p, _ := start(t, copyFile(t, filepath.Join("testdata", name), "fixture"))
			file, err := p.Executable()
			if err != nil {
				t.Fatal(err)
			}
			f, err := Open(file.Path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			probes, err := f.Probes("")
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]uint16{"start": 3, "twin": 0, "many": 0, "never": 0}
			for _, probe := range probes {
				got, err := p.Semaphore(probe.Sites[0], file)
				switch {
				case probe.Name == "plain" && !errors.Is(err, ErrNoSemaphore):
					t.Errorf("%s: error %v", probe.Name, err)
				case probe.Name != "plain" && (err != nil || got != want[probe.Name]):
					t.Errorf("%s: %d, error %v", probe.Name, got, err)
				}
			}
		})
	}
}

// A variable is at its linked address plus the bias, even if it is not in the file. After the
// process has ended, reads of its memory fail.
func TestLiveMemory(t *testing.T) {
	for _, name := range []string{"x86_64-pie", "x86_64-exec"} {
		t.Run(name, func(t *testing.T) {
			p, end := start(t, copyFile(t, filepath.Join("testdata", name), "fixture"))
			file, err := p.Executable()
			if err != nil {
				t.Fatal(err)
			}
			f, err := Open(file.Path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			bias, err := p.Bias(file, f)
			if err != nil {
				t.Fatal(err)
			}
			memory, err := p.Memory(file)
			if err != nil {
				t.Fatal(err)
			}
			defer memory.Close()
			var data [2]byte
			for variable, want := range map[string]uint16{"fixture_start_semaphore": 3, "table": 0} {
				address, err := f.Variable(variable)
				if err != nil {
					t.Fatal(err)
				}
				_, err = memory.ReadAt(data[:], int64(address+bias))
				if got := binary.LittleEndian.Uint16(data[:]); err != nil || got != want {
					t.Errorf("%s: %d, error %v", variable, got, err)
				}
			}
			other, err := Open(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			device, inode := fileIdentity(t, filepath.Join("testdata", name))
			notMapped := MappedFile{Name: "other", Device: device, Inode: inode}
			if bias, err := p.Bias(notMapped, other); !errors.Is(err, ErrFormat) {
				t.Errorf("of a file that is not mapped: %#x, error %v", bias, err)
			}
			end()
			if n, err := memory.ReadAt(data[:], int64(bias)+0x4000); n != 0 || err != io.EOF {
				t.Errorf("after its end: %d bytes, error %v", n, err)
			}
			if _, err := p.Memory(file); !errors.Is(err, ErrProcessGone) {
				t.Errorf("opened after its end: %v", err)
			}
			if _, err := p.Bias(file, f); !errors.Is(err, ErrProcessGone) {
				t.Errorf("bias after its end: %v", err)
			}
		})
	}
}
