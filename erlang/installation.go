package erlang

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/beamscope/beamscope/internal/trusted"
	"github.com/beamscope/beamscope/usdt"
)

// provider is the name of the Erlang VM's provider of probes.
const provider = "erlang"

// OpenOTP returns the installation in a folder, the one above bin/erl. It runs nothing:
// what the installation is, and that its VM has probes, is read from its files.
//
// Root or this process's user must own the folder, each folder above it, and everything
// that a VM would run or load from it, and others must not be able to write there: the
// error wraps [trusted.ErrUntrusted] where that is not so. It wraps ErrNoOTP where there
// is no installation, and ErrNoProbes where there is one without probes.
func OpenOTP(ctx context.Context, dir string) (OTP, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return OTP{}, err
	}
	otp := OTP{Dir: dir, Erl: filepath.Join(dir, "bin", "erl"), Erlc: filepath.Join(dir, "bin", "erlc")}
	for _, tool := range []string{otp.Erl, otp.Erlc} {
		path, err := trusted.Path(tool)
		if err == nil {
			_, err = exec.LookPath(path) // whether it can be run
		}
		if errors.Is(err, trusted.ErrUntrusted) {
			return OTP{}, err
		}
		if err != nil {
			return OTP{}, fmt.Errorf("%w (%w)", ErrNoOTP, err)
		}
		otp.Root = filepath.Dir(filepath.Dir(path))
	}
	runtime, release, err := releaseOf(otp.Root)
	if err != nil {
		return OTP{}, fmt.Errorf("%w (%w)", ErrNoOTP, err)
	}
	otp.Bin = filepath.Join(otp.Root, "erts-"+runtime, "bin")
	if err := otp.trusted(ctx); err != nil {
		return OTP{}, err
	}
	otp.Version = release
	if version, err := readWord(filepath.Join(otp.Root, "releases", release, "OTP_VERSION")); err == nil {
		otp.Version = version
	}
	return otp, otp.hasProbes()
}

// releaseOf returns the versions of an installation's runtime system and of OTP, such as
// "13.1.5" and "25". The program erl is told them by the same file (start_erl(1)).
func releaseOf(root string) (runtime, release string, err error) {
	path := filepath.Join(root, "releases", "start_erl.data")
	text, err := readShort(path)
	if err != nil {
		return "", "", err
	}
	words := strings.Fields(text)
	if len(words) != 2 || !word.MatchString(words[0]) || !word.MatchString(words[1]) {
		return "", "", fmt.Errorf("%s: want the versions of the runtime system and of OTP, have %q", path, text)
	}
	return words[0], words[1], nil
}

// word is what versions consist of. None leads to another folder.
var word = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._+-]*$`)

// readWord returns the only word in a short file.
func readWord(path string) (string, error) {
	text, err := readShort(path)
	if err != nil {
		return "", err
	}
	text = strings.TrimSpace(text)
	if !word.MatchString(text) {
		return "", fmt.Errorf("%s: not a version: %q", path, text)
	}
	return text, nil
}

// readShort returns the beginning of a file, of which no more is needed.
func readShort(path string) (string, error) {
	const most = 256
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, most))
	return string(text), err
}

// trusted checks everything that a VM of the installation runs or loads: its programs,
// its boot files, and the code and native libraries of its applications. Examples and
// documentation, which an installation may leave open to a group, are not looked at.
func (otp OTP) trusted(ctx context.Context) error {
	trees := []string{filepath.Join(otp.Root, "bin"), filepath.Dir(otp.Bin), filepath.Join(otp.Root, "releases")}
	lib := filepath.Join(otp.Root, "lib")
	applications, err := os.ReadDir(lib)
	if err != nil {
		return err
	}
	for _, app := range applications {
		path := filepath.Join(lib, app.Name())
		if _, err := trusted.Path(path); err != nil {
			return err
		}
		for _, part := range []string{"ebin", "priv"} {
			if tree := filepath.Join(path, part); exists(tree) {
				trees = append(trees, tree)
			}
		}
	}
	for _, tree := range trees {
		if err := trusted.Tree(ctx, tree); err != nil {
			return err
		}
	}
	return nil
}

// exists reports whether there is anything at a path.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// hasProbes returns an error unless the VM has probes, and the library by which Erlang
// code fires those of users.
func (otp OTP) hasProbes() error {
	file, err := usdt.Open(otp.Emulator())
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w (%w)", ErrNoOTP, err)
	}
	if err != nil {
		return err
	}
	defer file.Close()
	probes, err := file.Probes(provider)
	if errors.Is(err, usdt.ErrNoProbes) {
		return fmt.Errorf("%s: %w", otp.Erl, ErrNoProbes)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", otp.Emulator(), err)
	}
	libraries, err := fs.Glob(os.DirFS(otp.Root), "lib/runtime_tools-*/priv/lib/dyntrace.so")
	if err != nil {
		return err
	}
	if len(probes) == 0 || len(libraries) == 0 {
		return fmt.Errorf("%s: %w", otp.Erl, ErrNoProbes)
	}
	return nil
}
