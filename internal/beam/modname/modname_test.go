package modname_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/beam/modname"
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

		"'Elixir.MyApp':'-start/2-fun-0-'/0":           "anonymous fn/0 in MyApp.start/2",
		"<0.9.0> 'Elixir.A.B':'-f/1-fun-12-'/3, more":  "<0.9.0> anonymous fn/3 in A.B.f/1, more",
		"'Elixir.A':'-valid?/1-fun-0-'/2":              "anonymous fn/2 in A.valid?/1",
		"'Elixir.A':'-+/2-anonymous-0-'/2":             "anonymous fn/2 in A.+/2",
		"'Elixir.ATest':'-test a/b \"c\"/1-fun-0-'/1":  `anonymous fn/1 in ATest."test a/b \"c\""/1`,
		"'Elixir.A':'-f/0-lc$^0/1-0-'/1":               "A:'-f/0-lc$^0/1-0-'/1", // Elixir gives comprehensions no other name
		"'Elixir.A':'-fun.f/1-'/1":                     "A:'-fun.f/1-'/1",
		"'Elixir.A':'-f/x-fun-0-'/1":                   "A:'-f/x-fun-0-'/1",
		"'Elixir.A':'-/0-fun-0-'/1":                    "A:'-/0-fun-0-'/1",
		"'Elixir.A':'-f/0-fun-0-'":                     "A:'-f/0-fun-0-'",
		"'Elixir.A':'-f/0-fun-0-'/":                    "A:'-f/0-fun-0-'/",
		"'Elixir.A':'-f/0-fun-0-":                      "A:'-f/0-fun-0-",
		`'Elixir.A':'-f\'/0-fun-0-'/1`:                 `A:'-f\'/0-fun-0-'/1`,
		"lists:'-map/2-fun-0-'/1":                      "lists:'-map/2-fun-0-'/1",
		"'Elixir.A':'-f/0-fun-0-'/0 'Elixir.B':init/1": "anonymous fn/0 in A.f/0 B:init/1",
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
			t.Errorf("Exact(%s) = %s, want %s", tt.text, got, tt.want)
		}
	}
}

// Exact converts the result of Readable back.
func TestRoundTrip(t *testing.T) {
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
		"'Elixir.MyApp.Worker':'-f/0-fun-0-'/1": "anonymous fn/1 in MyApp.Worker.f/0",
		"'Elixir.A':'valid?'/1":                 "A.valid?/1",
		"'Elixir.A':'save!'/1":                  "A.save!/1",
		"'Elixir.A':'+'/2":                      "A.+/2",
		"'Elixir.A':'and'/2":                    "A.and/2",
		"'Elixir.ATest':'test one'/1":           `ATest."test one"/1`,
		"'Elixir.A':'MACRO-f'/2":                `A."MACRO-f"/2`,
		"'Elixir.A':'-f/0-lc$^0/1-0-'/1":        `A."-f/0-lc$^0/1-0-"/1`,
		"'Elixir.A':f@g/0":                      "A.f@g/0",
		`'Elixir.A':'a\'b'/0`:                   `A.'a\'b'/0`,
		"'Elixir.A':'a":                         "A.'a",
		"'Elixir.A':''/0":                       `A.""/0`,
		"gen_server:loop/7":                     "gen_server:loop/7",
		"lists:'-map/2-fun-0-'/1":               "lists:'-map/2-fun-0-'/1",
		"'Elixir.nobody':f/0":                   "'Elixir.nobody':f/0",
		"":                                      "",
	} {
		if got := modname.Function(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// A text that is readable already stays as it is: parts of texts are often made readable first.
func TestTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`'Elixir\.[A-Z][a-z]{0,3}':('-[a-z ?"'/-]{0,6}/[0-9]-fun-[0-9]-'|'[a-z ?"#{-]{0,6}'|[a-z]{1,4})/[0-9]`).Draw(t, "name")
		for _, shown := range []func(string) string{modname.Readable, modname.Function} {
			once := shown(name)
			if twice := shown(once); twice != once {
				t.Fatalf("%s is shown as %s, and that as %s", name, once, twice)
			}
		}
	})
}
