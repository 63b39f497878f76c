package erlang

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/beamscope/beamscope/internal/files/trusted"
)

// Compile compiles the embedded applications and returns their ebin folders, for erl's -pa. It
// makes them once for each version of the sources and of OTP, below dir, or below the user's cache
// folder if dir is empty. They appear all at once, so others who use dir at the same time never see
// a part of them. The error wraps [trusted.ErrUntrusted] if other users can change them.
func Compile(ctx context.Context, otp OTP, dir string) ([]string, error) {
	if dir == "" {
		cache, err := cacheDir()
		if err != nil {
			return nil, err
		}
		dir = cache
	}
	sum, err := sourcesSum()
	if err != nil {
		return nil, err
	}
	if err := trusted.Place(dir); err != nil {
		return nil, fmt.Errorf("compile the Erlang applications: %w", err)
	}
	final := filepath.Join(dir, "apps-"+sum+"-otp-"+otp.Version)
	if exists(final) {
		return ebins(final), trusted.Tree(ctx, final)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("compile the Erlang applications: %w", err)
	}
	aside, err := os.MkdirTemp(dir, ".apps-")
	if err != nil {
		return nil, fmt.Errorf("compile the Erlang applications: %w", err)
	}
	defer os.RemoveAll(aside)
	if err := os.Chmod(aside, 0o755); err != nil {
		return nil, err
	}
	for folder, app := range applications() {
		if err := compileApp(ctx, otp, folder, app, filepath.Join(aside, app)); err != nil {
			return nil, fmt.Errorf("compile the Erlang application %s: %w", app, err)
		}
	}
	err = os.Rename(aside, final)
	if err != nil && !errors.Is(err, fs.ErrExist) { // another process has compiled the same
		return nil, fmt.Errorf("compile the Erlang applications: %w", err)
	}
	return ebins(final), nil
}

func ebins(dir string) []string {
	var paths []string
	for _, app := range applications() {
		paths = append(paths, filepath.Join(dir, app, "ebin"))
	}
	slices.Sort(paths)
	return paths
}

// compileApp writes an application's sources to dir/src and compiles them to dir/ebin. The sources
// stay there, for stack traces.
func compileApp(ctx context.Context, otp OTP, folder, app, dir string) error {
	tree, err := fs.Sub(sources, path.Join(folder, "src"))
	if err != nil {
		return err
	}
	src, ebin := filepath.Join(dir, "src"), filepath.Join(dir, "ebin")
	if err := os.CopyFS(src, tree); err != nil {
		return err
	}
	if err := os.MkdirAll(ebin, 0o755); err != nil {
		return err
	}
	files, err := fs.Glob(tree, "*.erl")
	if err != nil {
		return err
	}
	args := append([]string{"-Wall", "-Werror", "+debug_info", "+deterministic", "-o", ebin}, files...)
	cmd := exec.CommandContext(ctx, otp.Erlc, args...)
	cmd.Dir = src
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, bytes.TrimSpace(out))
	}
	return writeAppFile(tree, app, files, ebin)
}

// writeAppFile makes the .app from the .app.src and fills in its list of modules.
func writeAppFile(tree fs.FS, app string, files []string, ebin string) error {
	text, err := fs.ReadFile(tree, app+".app.src")
	if err != nil {
		return err
	}
	var modules []string
	for _, file := range files {
		modules = append(modules, strings.TrimSuffix(file, ".erl"))
	}
	full := strings.Replace(string(text), "{modules, []}", "{modules, ["+strings.Join(modules, ", ")+"]}", 1)
	return os.WriteFile(filepath.Join(ebin, app+".app"), []byte(full), 0o644)
}

// sourcesSum identifies the embedded sources.
func sourcesSum() (string, error) {
	hash := sha256.New()
	err := fs.WalkDir(sources, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(sources, name)
		fmt.Fprintf(hash, "%s %d\n%s", name, len(text), text)
		return err
	})
	return hex.EncodeToString(hash.Sum(nil))[:12], err
}
