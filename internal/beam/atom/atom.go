// Package atom writes atoms as Erlang writes them.
package atom

import (
	"fmt"
	"strings"
)

// Write returns the text of an atom as Erlang writes it (io_lib:write_atom/1): in quotes if
// necessary, with control characters as escapes. maybe means that maybe and else are reserved
// words, as since OTP 27.
func Write(atom string, maybe bool) string {
	if plain(atom) && !(maybe && (atom == "maybe" || atom == "else")) {
		return atom
	}
	var b strings.Builder
	b.WriteByte('\'')
	for _, c := range atom {
		switch escape := strings.IndexRune("\n\t\v\b\f\x1b\x7f\r", c); {
		case c == '\'' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case escape >= 0:
			b.WriteByte('\\')
			b.WriteByte("ntvbfedr"[escape])
		case c < ' ' || c > '~' && c < 0xa0:
			fmt.Fprintf(&b, "\\%03o", c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('\'')
	return b.String()
}

// plain reports whether an atom is written without quotes.
func plain(atom string) bool {
	for i, c := range atom {
		lower := 'a' <= c && c <= 'z' || 0xdf <= c && c <= 0xff && c != 0xf7
		upper := 'A' <= c && c <= 'Z' || 0xc0 <= c && c <= 0xde && c != 0xd7
		digit := '0' <= c && c <= '9'
		if !lower && (i == 0 || !upper && !digit && c != '_' && c != '@') {
			return false
		}
	}
	return atom != "" && !reserved(atom)
}

// reserved reports whether an atom is a reserved word.
func reserved(atom string) bool {
	switch atom {
	case "after", "and", "andalso", "band", "begin", "bnot", "bor", "bsl", "bsr", "bxor",
		"case", "catch", "cond", "div", "end", "fun", "if", "let", "not", "of", "or", "orelse",
		"receive", "rem", "try", "when", "xor":
		return true
	}
	return false
}
