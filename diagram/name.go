package diagram

import "unicode"

// IsName reports whether a text can be the name of an outcome or a definition: letters of
// any script with their marks, decimal digits and underscores, beginning with a letter or
// an underscore.
func IsName(text string) bool {
	for i, r := range text {
		if i == 0 && !unicode.IsLetter(r) && r != '_' || !InName(r) {
			return false
		}
	}
	return text != ""
}

// InName reports whether r is allowed in a name after the first character.
func InName(r rune) bool {
	return r == '_' || unicode.In(r, unicode.L, unicode.M, unicode.Nd)
}
