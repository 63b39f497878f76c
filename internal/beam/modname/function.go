package modname

import (
	"slices"
	"strings"
)

// anonymous returns how Elixir writes the anonymous function of a module whose name, as in
// :'-init/2-fun-0-'/1, begins a text, and the length of that name. The length is 0 if the text
// begins otherwise.
//
// The compiler makes the name from the function around it. Elixir shows the number of arguments
// that the VM passes, which includes the variables that the anonymous function captured.
func anonymous(module, text string) (fun string, length int) {
	name, found := strings.CutPrefix(text, ":")
	atom, rest, ok := quoted(name)
	if !found || !ok {
		return "", 0
	}
	around, ok := enclosing(atom)
	n := arity(rest)
	if !ok || n == 0 {
		return "", 0
	}
	return "anonymous fn" + rest[:n] + " in " + module + "." + around, len(text) - len(rest) + n
}

// enclosing returns the function that contains an anonymous one: init/2 for -init/2-fun-0-. It
// returns false for other functions that the compiler made, such as those of comprehensions:
// Elixir has no other names for them.
func enclosing(name string) (around string, ok bool) {
	at := strings.LastIndex(name, "/")
	if at < 2 || name[0] != '-' {
		return "", false
	}
	parts := strings.Split(name[at+1:], "-")
	if len(parts) != 4 || !number(parts[0]) || parts[3] != "" {
		return "", false
	}
	return called(name[1:at]) + "/" + parts[0], true
}

// arity returns the length of the number of arguments, such as /2, at the beginning of a text. It
// returns 0 if there is none.
func arity(text string) int {
	if !strings.HasPrefix(text, "/") {
		return 0
	}
	n := 1 + len(text[1:]) - len(strings.TrimLeft(text[1:], "0123456789"))
	if n == 1 {
		return 0
	}
	return n
}

func number(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// quoted returns the atom in quotes at the beginning of a text, and the rest. It returns false for
// an atom with escaped characters, which stays as it is.
func quoted(text string) (atom, rest string, ok bool) {
	text, found := strings.CutPrefix(text, "'")
	atom, rest, closed := strings.Cut(text, "'")
	return atom, rest, found && closed && !strings.Contains(atom, `\`)
}

// called returns the name of a function as Elixir writes it in a call: valid?, +, "test one".
func called(name string) string {
	if isIdentifier(name) || slices.Contains(operators(), name) {
		return name
	}
	return `"` + strings.NewReplacer(`"`, `\"`, "#{", `\#{`).Replace(name) + `"`
}

// isIdentifier reports whether a name is one of lower-case letters, digits and underscores. Elixir
// also has identifiers of other scripts. They get quotes here.
func isIdentifier(name string) bool {
	if strings.HasSuffix(name, "?") || strings.HasSuffix(name, "!") {
		name = name[:len(name)-1]
	}
	if name == "" || name[0] >= '0' && name[0] <= '9' || name[0] >= 'A' && name[0] <= 'Z' {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool { return r > 127 || !word(byte(r)) })
}

// operators returns the operators of Elixir that are names of functions.
func operators() []string {
	return strings.Fields(`+ - * / ** ++ -- +++ --- .. <> |> <<< >>> <<~ ~>> <~ ~> <~> < > <= >=
		== != === !== =~ && || &&& ||| ^^^ ~~~ ! @ ^ & |`)
}
