package erlang

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	mixProject = `defmodule Shop.MixProject do
  use Mix.Project
  def project, do: [app: :shop, version: "0.1.0", deps: [{:beamscope, path: %q}, {:dqsd_otel, path: %q}]]
end
`
	mixModule = `defmodule Shop do
  def checkout, do: :beamscope.with_span("checkout", fn -> :sold end)
end
`
	// sameApp compares two .app files except for their order and for keys that mix leaves out.
	sameApp = `
		Terms = fun(F) -> {ok, [{application, A, L}]} = file:consult(F),
			{A, [{K, case K of modules -> lists:sort(V); _ -> V end} || {K, V} <- lists:sort(L), K =/= licenses, K =/= links, {K, V} =/= {env, []}]} end,
		[Ours, Mixed] = [Terms(F) || F <- init:get_plain_arguments()],
		case Ours of Mixed -> halt(0); _ -> io:format("rebar3: ~p~nmix: ~p~n", [Ours, Mixed]), halt(1) end.`
)

// A mix project can use the applications without rebar3, and gets the same applications as with
// rebar3.
func TestMixWithoutRebar3(t *testing.T) {
	otp := testOTP(t)
	elixir := elixirOf(t)
	ours, err := Compile(t.Context(), otp, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, apps := t.TempDir(), t.TempDir()
	var paths []any
	for _, app := range []string{"beamscope", "dqsd_otel"} {
		path := filepath.Join(apps, app)
		if err := os.CopyFS(path, os.DirFS(app)); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	for name, text := range map[string]string{"mix.exs": fmt.Sprintf(mixProject, paths...), "lib/shop.ex": mixModule} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mix := exec.CommandContext(t.Context(), filepath.Join(elixir, "mix"), "run", "-e", `IO.puts("it was #{Shop.checkout()}")`)
	mix.Dir = dir
	mix.Env = []string{"HOME=" + t.TempDir(), "LANG=C.UTF-8", "PATH=" + strings.Join([]string{elixir, filepath.Dir(otp.Erl), "/usr/bin", "/bin"}, ":")}
	out, err := mix.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "it was sold\n") {
		t.Fatalf("mix: %v\n%s", err, out)
	}
	for _, ebin := range ours {
		app := filepath.Base(filepath.Dir(ebin))
		mixed := filepath.Join(dir, "_build/dev/lib", app, "ebin", app+".app")
		if app != "beamscope" && app != "dqsd_otel" {
			continue
		}
		out, err := exec.CommandContext(t.Context(), otp.Erl, "-noinput", "-eval", sameApp, "-extra", filepath.Join(ebin, app+".app"), mixed).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", app, err, out)
		}
	}
}

// elixirOf returns the folder of the commands of an Elixir.
func elixirOf(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "./elixir.sh").Output()
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("elixir.sh: %v", err)
		}
		t.Skipf("elixir.sh: %v", err)
	}
	return strings.TrimSpace(string(out))
}
