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

	"github.com/beamscope/beamscope/internal/files/trusted"
	"github.com/beamscope/beamscope/usdt"
)

// provider is the name of the Erlang VM's provider of probes.
const provider = "erlang"

// OpenOTP returns the installation in a folder, the one above bin/erl. It runs nothing: it reads
// the version, and whether the VM has probes, from the files.
//
// Root or this process's user must own the folder, each folder above it, and everything that a VM
// would run or load from it, and others must not be able to write there. Otherwise the error wraps
// [trusted.ErrUntrusted]. It wraps ErrNoOTP if there is no installation, and ErrNoProbes if the
// installation has no probes.
func OpenOTP(ctx context.Context, dir string) (OTP, error) {
	otp, err := open(ctx, dir, ErrNoOTP)
	if err != nil {
		return OTP{}, err
	}
	return otp, otp.hasProbes()
}

// SystemOTP returns the installation whose erl is in the PATH, with or without probes. It runs
// nothing, and checks the files' owners as [OpenOTP] does. The error wraps ErrNoSystemOTP where
// there is no such installation.
func SystemOTP(ctx context.Context) (OTP, error) {
	erl, err := exec.LookPath("erl")
	if err != nil {
		return OTP{}, fmt.Errorf("%w (%w)", ErrNoSystemOTP, err)
	}
	return open(ctx, filepath.Dir(filepath.Dir(erl)), ErrNoSystemOTP)
}

// open returns the installation in a folder, with or without probes. The error wraps missing if
// there is none.
func open(ctx context.Context, dir string, missing error) (OTP, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return OTP{}, err
	}
	otp := OTP{Dir: dir, Erl: filepath.Join(dir, "bin", "erl"), Erlc: filepath.Join(dir, "bin", "erlc")}
	for _, tool := range []string{otp.Erl, otp.Erlc} {
		path, err := trusted.Path(tool)
		if err == nil {
			_, err = exec.LookPath(path) // checks that it is executable
		}
		if errors.Is(err, trusted.ErrUntrusted) {
			return OTP{}, err
		}
		if err != nil {
			return OTP{}, fmt.Errorf("%w (%w)", missing, err)
		}
		otp.Root = filepath.Dir(filepath.Dir(path))
	}
	runtime, release, err := releaseOf(otp.Root)
	if err != nil {
		return OTP{}, fmt.Errorf("%w (%w)", missing, err)
	}
	otp.Bin = filepath.Join(otp.Root, "erts-"+runtime, "bin")
	if err := otp.trusted(ctx); err != nil {
		return OTP{}, err
	}
	otp.Version = release
	if version, err := readWord(filepath.Join(otp.Root, "releases", release, "OTP_VERSION")); err == nil {
		otp.Version = version
	}
	return otp, nil
}

// releaseOf returns the versions of an installation's runtime system and of OTP, such as "13.1.5"
// and "25". The program erl reads them from the same file (start_erl(1)).
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

// word matches the parts of versions. None of them leads to another folder.
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

// readShort returns the beginning of a file that should be short.
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

// trusted checks everything that a VM of the installation runs or loads: its programs, its boot
// files, and the code and native libraries of its applications. It does not check examples and
// documentation, which a group may be allowed to change.
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

// hasProbes returns an error unless the VM has probes, and the library with which Erlang code fires
// its own.
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
