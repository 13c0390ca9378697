//go:build soak

package main

import (
	"testing"

	"madeira/engine/store/storetest"
)

// TestSoak_F01_KilledAThousandTimes takes about half an hour a database.
func TestSoak_F01_KilledAThousandTimes(t *testing.T) {
	t.Parallel()
	storetest.EachURL(t, func(t *testing.T, url string) { killed(t, url, 1000) })
}
