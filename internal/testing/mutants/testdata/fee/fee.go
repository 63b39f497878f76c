// Package fee has a boundary, which a weak test leaves untested.
package fee

const adult = 18

// Of returns the fee for a visitor of an age in years.
func Of(age int) int {
	fee := 10
	if age < adult {
		fee -= 4
	}
	return fee
}
