package plot

import "image/color"

// A Paint is a colour of the palette: those of Okabe and Ito, which colour-blind people can
// distinguish, dark enough for white and light enough for black.
type Paint uint8

// The palette.
const (
	Blue Paint = iota
	Vermilion
	Green
	Purple
	Orange
	Turquoise
	Grey
)

// RGB returns the colour.
func (p Paint) RGB() color.NRGBA {
	return [...]color.NRGBA{
		Blue:      {0x00, 0x80, 0xC8, 0xFF},
		Vermilion: {0xD5, 0x5E, 0x00, 0xFF},
		Green:     {0x00, 0x9E, 0x73, 0xFF},
		Purple:    {0xC0, 0x60, 0x9C, 0xFF},
		Orange:    {0xC0, 0x80, 0x00, 0xFF},
		Turquoise: {0x20, 0x90, 0xB0, 0xFF},
		Grey:      {0x80, 0x80, 0x80, 0xFF},
	}[p]
}

// Paint returns the colour of a curve in a plot of one outcome, where the colour shows the role.
func (r Role) Paint() Paint {
	return [...]Paint{Earlier: Grey, Mean: Turquoise, CalculatedMean: Green, Calculated: Orange, Observed: Blue}[r]
}

// OutcomePaint returns the colour of the curves of a series in a plot of several outcomes, where the
// colour shows the outcome.
func OutcomePaint(index int) Paint {
	paints := [...]Paint{Blue, Vermilion, Green, Purple, Orange, Turquoise}
	return paints[index%len(paints)]
}

// Colours of everything except curves.
const (
	RequiredPaint = Purple    // a QTA
	HazardPaint   = Vermilion // violated parts of a QTA
)
