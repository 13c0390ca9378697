package reconcile

// A category says what kind of break a line ended in. The order is that of
// reports.
type category uint8

const (
	missingLeft category = iota
	missingRight
	amountMismatch
	currencyMismatch
	statusMismatch
	timing
	duplicateLeft
	duplicateRight
	ambiguous
	categories // how many there are
)

// categoryNames are the words that people and other programs see.
var categoryNames = [categories]string{
	missingLeft:      "missing_left",
	missingRight:     "missing_right",
	amountMismatch:   "amount_mismatch",
	currencyMismatch: "currency_mismatch",
	statusMismatch:   "status_mismatch",
	timing:           "timing",
	duplicateLeft:    "duplicate_left",
	duplicateRight:   "duplicate_right",
	ambiguous:        "ambiguous",
}

func (c category) String() string { return categoryNames[c] }
