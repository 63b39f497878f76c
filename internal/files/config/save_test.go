package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/internal/files/config"
)

func load(t *testing.T, path string) config.Config {
	t.Helper()
	c, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A saved configuration is loaded unchanged, with its diagram to the byte.
func TestSave(t *testing.T) {
	path := filepath.Join(t.TempDir(), "scope.yaml")
	write(t, filepath.Dir(path), map[string]string{"scope.yaml": "# by hand\n" + every})
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	c := load(t, path)
	c.Outcomes[0].Scale.Exponent = 5
	if err := c.Save(path); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, load(t, path)); diff != "" {
		t.Errorf("-saved +loaded:\n%s", diff)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, error %v: want the permissions it had", info.Mode(), err)
	}
}

// Notes become comments in the entries of their outcomes. They do not change what is loaded, whatever
// is in them.
func TestSaveNoted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "scope.yaml")
	write(t, filepath.Dir(path), map[string]string{"scope.yaml": every})
	c := load(t, path)
	notes := map[string]string{c.Outcomes[0].Name: "seen: ring", c.Outcomes[1].Name: "seen: not at all: no\n  outcomes: {}\x1b[2J", "nobody": "lost"}
	if err := c.SaveNoted(path, notes); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, load(t, path)); diff != "" {
		t.Errorf("-saved +loaded:\n%s", diff)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{c.Outcomes[0].Name + ":\n    # seen: ring\n", "\n    # seen: not at all: no outcomes: {}"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
	if strings.ContainsRune(string(text), '\x1b') || strings.Contains(string(text), "lost") {
		t.Errorf("%q", text)
	}
}

// A diagram in a separate file stays there, and is written separately.
func TestSaveDiagram(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "scope.yaml")
	write(t, dir, map[string]string{"system.dq": "p = a; # one", "scope.yaml": "diagram: system.dq"})
	c := load(t, path)
	c.Diagram = "p = a -> b;   # two"
	if err := errors.Join(c.SaveDiagram(c.Path(c.DiagramFile)), c.Save(path)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, load(t, path)); diff != "" || c.DiagramFile != "system.dq" {
		t.Errorf("-saved +loaded:\n%s", diff)
	}
	c.Diagram = "p = "
	if err := c.SaveDiagram(c.Path(c.DiagramFile)); !errors.As(err, new(*config.DiagramError)) {
		t.Errorf("error %v for a wrong diagram", err)
	}
}

// A scope file that is saved in another folder refers to the same files.
func TestSaveElsewhere(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other")
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{"system.dq": "p = a;", "scope.yaml": "diagram: system.dq\nsnapshots: {dir: " + dir + "}"})
	if err := load(t, filepath.Join(dir, "scope.yaml")).Save(filepath.Join(other, "copy.yaml")); err != nil {
		t.Fatal(err)
	}
	c := load(t, filepath.Join(other, "copy.yaml"))
	if c.DiagramFile != "../system.dq" || c.Snapshots.Dir != dir {
		t.Errorf("%+v", c)
	}
}

// A configuration that could not be loaded is not saved, and the file stays unchanged.
func TestSaveRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "scope.yaml")
	if err := minimal().Save(path); err != nil {
		t.Fatal(err)
	}
	wrong := load(t, path)
	wrong.History = 0
	large := load(t, path)
	large.Diagram = "p = a;" + strings.Repeat("\n #", 299_900)
	for _, test := range []struct {
		config config.Config
		want   string
	}{
		{wrong, path + ` is not saved: history: "0" is not a whole number from 1 to 1024`},
		{large, "invalid configuration: " + path + ` is not saved: 1464 KiB, and at most 1024 can be loaded`},
	} {
		if err := test.config.Save(path); !errors.Is(err, config.ErrInvalid) || err.Error() != test.want {
			t.Errorf("error %v, want %s", err, test.want)
		}
	}
	if diff := cmp.Diff(minimal().Outcomes, load(t, path).Outcomes); diff != "" {
		t.Errorf("the file has changed:\n%s", diff)
	}
	if err := minimal().Save(filepath.Join(path, "none")); err == nil {
		t.Error("no error for a folder that does not exist")
	}
}
