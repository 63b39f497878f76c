// Package modname translates names of Elixir's modules and functions. Elixir's MyApp.Worker is the
// atom 'Elixir.MyApp.Worker' in the VM, and Erlang writes it so. People write MyApp.Worker, which
// Erlang cannot write for anything else: an atom that begins so has quotes there.
package modname

import "strings"

const before, behind = "'Elixir.", "'"

// Readable returns a text in which the modules of Elixir are as Elixir writes them:
// MyApp.Worker:init/1 for 'Elixir.MyApp.Worker':init/1. The anonymous functions of these modules are
// too: anonymous fn/1 in MyApp.init/2 for 'Elixir.MyApp':'-init/2-fun-0-'/1. All else stays as it is.
func Readable(text string) string {
	if !strings.Contains(text, before) {
		return text
	}
	var b strings.Builder
	for {
		head, rest, found := strings.Cut(text, before)
		b.WriteString(head)
		if !found {
			return b.String()
		}
		name := rest[:alias(rest)]
		if name == "" || !strings.HasPrefix(rest[len(name):], behind) {
			b.WriteString(before)
			text = rest
			continue
		}
		text = rest[len(name)+len(behind):]
		if fun, n := anonymous(name, text); n > 0 {
			name, text = fun, text[n:]
		}
		b.WriteString(name)
	}
}

// Exact returns a text that may begin with a module as Elixir writes it as Erlang writes it:
// 'Elixir.MyApp.Worker':init/1 for MyApp.Worker:init/1. Other texts stay unchanged. If the text is
// only the beginning of a longer one, its module may continue after it.
func Exact(text string, beginning bool) string {
	n := alias(text)
	rest := text[n:]
	switch {
	case n == 0:
		return text
	case beginning && (rest == "" || rest == "."):
		return before + text
	case rest == "" || rest[0] == ':' || rest[0] == '/':
		return before + text[:n] + behind + rest
	}
	return text
}

// alias returns the length of the Elixir module name at the beginning of a text: parts that begin
// with a capital letter, joined by dots. It returns 0 if there is none.
func alias(text string) int {
	end := 0
	for {
		n := part(text[end:])
		if n == 0 {
			return max(end-1, 0) // without the dot
		}
		if end += n; end == len(text) || text[end] != '.' {
			return end
		}
		end++
	}
}

// part returns the length of the first part of a module's name.
func part(text string) int {
	if text == "" || text[0] < 'A' || text[0] > 'Z' {
		return 0
	}
	n := 1
	for n < len(text) && word(text[n]) {
		n++
	}
	return n
}

// word reports whether a character is a letter, a digit or an underscore.
func word(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

// Function returns the name of a function as its language writes it: Process.sleep/1 for
// 'Elixir.Process':sleep/1. Functions of modules of Erlang stay as they are.
func Function(text string) string {
	if !strings.HasPrefix(text, before) {
		return text
	}
	readable := Readable(text)
	n := alias(readable)
	if n == 0 || n == len(readable) || readable[n] != ':' {
		return readable
	}
	module, name := readable[:n], readable[n+1:]
	if atom, rest, ok := quoted(name); ok {
		name = called(atom) + rest
	}
	return module + "." + name
}
