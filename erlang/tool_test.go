package erlang

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	shopApp = `{application, shop, [{description, "a shop"}, {vsn, "0.1.0"}, {registered, []}, {modules, []},
	{applications, [kernel, stdlib, beamscope]}]}.
`
	shopModule = `-module(shop).
-export([checkout/0]).
checkout() -> beamscope:with_span(<<"checkout">>, fun() -> sold end).
`
	shopTests = `-module(shop_tests).
-include_lib("eunit/include/eunit.hrl").
checkout_test() ->
    ?assertEqual(sold, shop:checkout()),
    ?assertMatch({ok, _}, application:ensure_all_started(shop)).
`
	mixOfGit = `defmodule Shop.MixProject do
  use Mix.Project
  def project, do: [app: :shop, version: "0.1.0", deps: [DEPENDENCY]]
end
`
)

// A project gets the application from a git repository with the lines of docs/reference/erlang.md, by rebar3 and by
// mix, and runs a span. Neither needs the network for the application itself.
func TestDocumentedDependency(t *testing.T) {
	otp := testOTP(t)
	repository := gitRepository(t, "beamscope")
	for _, test := range []struct {
		tool  string
		where string // the file that the document names
		files func(dependency string) map[string]string
		steps [][]string
		want  string // in the output of the last step
	}{
		{"rebar3", "rebar.config", func(d string) map[string]string {
			return map[string]string{"rebar.config": d, "src/shop.app.src": shopApp, "src/shop.erl": shopModule, "test/shop_tests.erl": shopTests}
		}, [][]string{{"eunit"}}, "1 tests, 0 failures"},
		{"mix", "mix.exs", func(d string) map[string]string {
			return map[string]string{"mix.exs": strings.Replace(mixOfGit, "DEPENDENCY", d, 1), "lib/shop.ex": mixModule}
		}, [][]string{{"deps.get"}, {"run", "-e", `IO.puts("it was #{Shop.checkout()}")`}}, "it was sold\n"},
	} {
		t.Run(test.tool, func(t *testing.T) {
			tools := toolFolder(t, test.tool, otp)
			dir := t.TempDir()
			writeFiles(t, dir, test.files(documentedDependency(t, test.where, repository)))
			var out string
			for _, args := range test.steps {
				cmd := exec.CommandContext(t.Context(), filepath.Join(tools, test.tool), args...)
				cmd.Dir, cmd.Env = dir, toolEnv(t, tools, otp)
				said, err := cmd.CombinedOutput()
				if out = string(said); err != nil {
					t.Fatalf("%s %s: %v\n%s", test.tool, args[0], err, out)
				}
			}
			if !strings.Contains(out, test.want) {
				t.Errorf("no %q in\n%s", test.want, out)
			}
		})
	}
}

// documentedDependency returns the lines that docs/reference/erlang.md gives for a file of a project, with the
// repository in the place of ours.
func documentedDependency(t *testing.T, file, repository string) string {
	t.Helper()
	const ours = "<URL of this repository>"
	text, err := os.ReadFile("../docs/reference/erlang.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile("in `" + regexp.QuoteMeta(file) + "`:\n```[a-z]+\n((?s).*?)```\n").FindStringSubmatch(string(text))
	if lines == nil || strings.Count(lines[1], ours) != 1 {
		t.Fatalf("docs/reference/erlang.md does not say what %s needs: %q", file, lines)
	}
	return strings.Replace(lines[1], ours, "file://"+repository, 1)
}

// gitRepository returns the folder of a git repository, whose branch main has these applications as this
// one has.
func gitRepository(t *testing.T, apps ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, app := range apps {
		if err := os.CopyFS(filepath.Join(dir, "erlang", app), os.DirFS(app)); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "."}, {"-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "-q", "-m", "all"}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir, cmd.Env = dir, append(cmd.Environ(), "HOME="+dir, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", args[0], err, out)
		}
	}
	return dir
}

// writeFiles writes files with their texts into a folder.
func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// toolEnv returns the environment of a build tool: the commands of an installation, and a home folder of
// its own.
func toolEnv(t *testing.T, tools string, otp OTP) []string {
	t.Helper()
	return []string{"HOME=" + t.TempDir(), "LANG=C.UTF-8", "PATH=" + strings.Join([]string{tools, filepath.Dir(otp.Erl), "/usr/bin", "/bin"}, ":")}
}

// toolFolder returns the folder of a build tool, which is mix or rebar3.
func toolFolder(t *testing.T, tool string, otp OTP) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "./tool.sh", tool).Output()
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("tool.sh %s: %v", tool, err)
		}
		t.Skipf("tool.sh %s: %v", tool, err)
	}
	folder := strings.TrimSpace(string(out))
	version := exec.CommandContext(t.Context(), filepath.Join(folder, tool), "--version")
	version.Env = toolEnv(t, folder, otp)
	if out, err := version.CombinedOutput(); err != nil && bytes.Contains(out, []byte("please re-compile this module")) {
		t.Skipf("this %s is too old for this Erlang/OTP", tool)
	}
	return folder
}
