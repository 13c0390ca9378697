package store

import "slices"

// LiteTexts returns the statements of the hot path on SQLite.
func LiteTexts() []string {
	return slices.Concat(exchangeTexts(), heartbeatTexts(), promoteTexts(), []string{liteExpired})
}
