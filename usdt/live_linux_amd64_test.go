package usdt

import (
	"errors"
	"path/filepath"
	"testing"
)

// The fixture raises one of its semaphores itself, to 3; see testdata/fixture.c.
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
