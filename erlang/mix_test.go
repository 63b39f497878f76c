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
	elixir := toolFolder(t, "mix", otp)
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
	writeFiles(t, dir, map[string]string{"mix.exs": fmt.Sprintf(mixProject, paths...), "lib/shop.ex": mixModule})
	mix := exec.CommandContext(t.Context(), filepath.Join(elixir, "mix"), "run", "-e", `IO.puts("it was #{Shop.checkout()}")`)
	mix.Dir, mix.Env = dir, toolEnv(t, elixir, otp)
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
