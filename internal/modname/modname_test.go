package modname_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/modname"
)

func TestReadable(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "",
		"queue_2":                              "queue_2",
		"'Elixir.MyApp.Worker'":                "MyApp.Worker",
		"'Elixir.MyApp.Worker':init/1":         "MyApp.Worker:init/1",
		"<0.9.0> 'Elixir.A':b/0, 'Elixir.C.D'": "<0.9.0> A:b/0, C.D",
		"'Elixir.A.b'":                         "'Elixir.A.b'",
		"'Elixir.'":                            "'Elixir.'",
		"'Elixir.A":                            "'Elixir.A",
		"'Elixir.A.":                           "'Elixir.A.",
		"'Elixir.A b'":                         "'Elixir.A b'",
		"'Elixir.'Elixir.A'":                   "'Elixir.A",
		`'Elixir.A\'':b/0`:                     `'Elixir.A\'':b/0`,
		"error:'Elixir.ArgumentError'":         "error:ArgumentError",
		"'MyApp.Worker'":                       "'MyApp.Worker'",
		"'Elixir.My_App2.V1.Ä'":                "'Elixir.My_App2.V1.Ä'",
		"elixir:'Elixir.IEx.Évaluator':init/1": "elixir:'Elixir.IEx.Évaluator':init/1",
	} {
		if got := modname.Readable(text); got != want {
			t.Errorf("%s is shown as %s, want %s", text, got, want)
		}
	}
}

func TestExact(t *testing.T) {
	for _, tt := range []struct {
		text      string
		beginning bool
		want      string
	}{
		{"MyApp.Worker:init/1", false, "'Elixir.MyApp.Worker':init/1"},
		{"MyApp.Worker", false, "'Elixir.MyApp.Worker'"},
		{"'Elixir.MyApp.Worker':init/1", false, "'Elixir.MyApp.Worker':init/1"},
		{"MyApp.Wor", true, "'Elixir.MyApp.Wor"},
		{"MyApp.", true, "'Elixir.MyApp."},
		{"MyApp.", false, "MyApp."},
		{"MyApp:", true, "'Elixir.MyApp':"},
		{"MyApp:in", true, "'Elixir.MyApp':in"},
		{"lists:seq/2", false, "lists:seq/2"},
		{"", true, ""},
		{"<exiting>", false, "<exiting>"},
	} {
		if got := modname.Exact(tt.text, tt.beginning); got != tt.want {
			t.Errorf("%s is %s, want %s", tt.text, got, tt.want)
		}
	}
}

// What is shown of a module can be written back.
func TestThereAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`'Elixir(\.[A-Z][A-Za-z0-9_]{0,9}){1,4}'(:[a-z]{1,9}/[0-9])?`).Draw(t, "name")
		shown := modname.Readable(name)
		if shown == name {
			t.Fatalf("%s is shown as it is", name)
		}
		if got := modname.Exact(shown, false); got != name {
			t.Fatalf("%s is shown as %s, which is %s", name, shown, got)
		}
	})
}

func TestFunction(t *testing.T) {
	for text, want := range map[string]string{
		"'Elixir.Process':sleep/1":              "Process.sleep/1",
		"'Elixir.MyApp.Worker':handle_call/3":   "MyApp.Worker.handle_call/3",
		"'Elixir.MyApp.Worker':'-f/0-fun-0-'/1": "MyApp.Worker.'-f/0-fun-0-'/1",
		"gen_server:loop/7":                     "gen_server:loop/7",
		"'Elixir.nobody':f/0":                   "'Elixir.nobody':f/0",
		"":                                      "",
	} {
		if got := modname.Function(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
