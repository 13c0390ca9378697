//go:build soak

package engine_test

import (
	"testing"
	"time"

	"madeira/engine/store/storetest"
)

// The long versions of the fault tests; each takes minutes.

func TestSoak_F01_FourWorkersKilledAThousandTimes(t *testing.T) {
	t.Parallel()
	storetest.EachURL(t, func(t *testing.T, url string) { massacre(t, url, 1000) })
}

func TestSoak_F17_FiftyRestarts(t *testing.T) {
	t.Parallel()
	restarted(t, 50)
}

func TestSoak_F19_AMinuteWithoutTheServer(t *testing.T) {
	t.Parallel()
	absent(t, time.Minute)
}

func TestSoak_F21_ASnapshotHeldForFiveMinutes(t *testing.T) {
	t.Parallel()
	snapshot(t, time.Minute, 5*time.Minute)
}

func TestSoak_F23_ATableLockedForFifteenSeconds(t *testing.T) {
	t.Parallel()
	locked(t, 15*time.Second)
}

func TestSoak_F30_AnotherWriterForTenSeconds(t *testing.T) {
	t.Parallel()
	otherWriter(t, 15*time.Second, 10*time.Second)
}

func TestSoak_Simulation_TwentyThousandSeeds(t *testing.T) {
	t.Parallel()
	simulateMany(t, 10*simSeeds)
}
