package dataset

import "errors"

// Errors about single values. They come wrapped with the value they are about;
// none of them can be mended by trying again.
var (
	// ErrSyntax is returned for a text that is no number or no date in the one
	// form that is read.
	ErrSyntax = errors.New("not in the expected form")

	// ErrInexact is returned when a value has more decimals than fit. Declare a
	// larger scale or a rounding.
	ErrInexact = errors.New("more decimals than the scale allows")

	// ErrRange is returned when a value, or the result of arithmetic, does not
	// fit into 64 bits at the scale. Declare a smaller scale.
	ErrRange = errors.New("out of range")
)
