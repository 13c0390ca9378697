package store

import "slices"

// LiteTexts returns the statements of the hot path on SQLite.
func LiteTexts() []string {
	return slices.Concat(exchangeTexts(), enqueueTexts(), heartbeatTexts(), promoteTexts(), []string{liteExpired})
}
