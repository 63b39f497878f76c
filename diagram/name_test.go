package diagram_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/beamscope/beamscope/diagram"
)

// IsName and the parser accept the same names, in any script.
func TestNames(t *testing.T) {
	for _, name := range []string{"checkout", "größe", "日本語", "ключ", "_1", "a1", "नमस्ते", "s", "p", "null"} {
		f, err := diagram.Parse(name + " = " + name + "_1 -> b")
		if err != nil || f.Definitions[0].Name != name || !diagram.IsName(name) {
			t.Errorf("%s: %v, is a name: %v", name, err, diagram.IsName(name))
		}
	}
	for _, name := range []string{"", "1a", "a b", "a-b", "a.b", "₂", "€", "a\u200b", "\u202ea", "\xff", "a\x00", "🙂", "٣a"} {
		if diagram.IsName(name) {
			t.Errorf("%q is a name", name)
		}
		if _, err := diagram.Parse("x = a -> " + name); err == nil {
			t.Errorf("%q was parsed", name)
		}
	}
}

// IsName and the parser accept the same characters in names.
func TestCharactersOfNames(t *testing.T) {
	if testing.Short() {
		t.Skip("a million characters")
	}
	var all, none []rune
	for r := rune(0); r <= unicode.MaxRune; r++ {
		switch {
		case r >= 0xD800 && r <= 0xDFFF: // surrogates are not characters
		case diagram.IsName("a" + string(r)):
			all = append(all, r)
		default:
			none = append(none, r)
		}
	}
	const most = 1000
	for len(all) > 0 {
		part := string(all[:min(most, len(all))])
		all = all[min(most, len(all)):]
		f, err := diagram.Parse("x = a" + part + " -> b")
		if err != nil || f.Definitions[0].Expr.(*diagram.Sequence).Parts[0].(*diagram.Outcome).Name != "a"+part {
			t.Errorf("%q…: %v", []rune(part)[0], err)
		}
	}
	for _, r := range none {
		if strings.ContainsRune(" \t\r\n\ufeff=;#", r) || r >= 0x3000 && r%97 != 0 { // of characters from U+3000 on, test only a sample
			continue
		}
		if f, err := diagram.Parse("x = a" + string(r)); err == nil {
			t.Errorf("%U: parsed as %s", r, diagram.Format(f))
		}
	}
}
