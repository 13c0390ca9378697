package engine_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"madeira/engine/store"
)

// simSeed repeats one simulation, many times over: the seed decides the runs and
// the faults, the Go scheduler decides what meets what within one instant.
var simSeed = flag.Uint64("seed", 0, "simulate this seed only; the environment variable MADEIRA_SEED says the same")

const (
	simSeeds   = 2000
	simRepeats = 50 // of a seed that was asked for
)

// TestSimulation_NoSeedBreaksAnInvariant runs several real engines on a real
// SQLite file in virtual time, while workers crash and stand still, calls are
// lost, late or refused, the database goes away and clocks step. Then it holds
// every row against the invariants, and what the steps did against the rows.
func TestSimulation_NoSeedBreaksAnInvariant(t *testing.T) {
	t.Parallel()
	notRaced(t)
	simulateMany(t, simSeeds)
}

// simulateMany simulates so many seeds that nobody has seen before, or the one
// that was asked for.
func simulateMany(t *testing.T, seeds uint64) {
	t.Helper()
	first, repeats := rand.Uint64N(1<<53), 1
	if one := askedSeed(t); one != 0 {
		first, seeds, repeats = one, 1, simRepeats
	}
	t.Logf("seeds %d to %d", first, first+seeds-1)
	var lent atomic.Int64
	defer func() { t.Logf("%d tasks were claimed by the commit that made them", lent.Load()) }()
	eachSeed(t, first, seeds, func(t *testing.T, template string, seed uint64) bool {
		for range repeats {
			broken, claimed := simulate(t, template, seed, plant{})
			lent.Add(claimed)
			if len(broken) > 0 {
				t.Errorf("MADEIRA_SEED=%d go test ./engine -run Simulation_No\n%s", seed, strings.Join(broken, "\n"))
				return false
			}
		}
		return true
	})
}

// TestSimulation_FindsPlantedBugs takes the fence away, each time from another
// place, and shows that the seeds that are green otherwise find it.
func TestSimulation_FindsPlantedBugs(t *testing.T) {
	notRaced(t)
	t.Parallel()
	for name, p := range map[string]plant{
		"outcomes are written whoever owns the task":       {outcomes: true},
		"effects are committed without asking for a lease": {effects: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var found atomic.Uint64
			var tried atomic.Int64
			eachSeed(t, 1, simSeeds, func(t *testing.T, template string, seed uint64) bool {
				if found.Load() != 0 {
					return false
				}
				tried.Add(1)
				if broken, _ := simulate(t, template, seed, p); len(broken) > 0 && found.CompareAndSwap(0, seed) {
					t.Logf("seed %d: %s", seed, broken[0])
				}
				return true
			})
			if found.Load() == 0 {
				t.Errorf("%d seeds have not found it", simSeeds)
			}
			t.Logf("found after %d seeds", tried.Load())
		})
	}
}

func askedSeed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("MADEIRA_SEED")
	if text == "" {
		return *simSeed
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("MADEIRA_SEED: %v", err)
	}
	return seed
}

// eachSeed hands the seeds to as many goroutines as there are processors, each
// in a bubble of its own, until one of them says that it is enough.
func eachSeed(t *testing.T, first, seeds uint64, simulate func(t *testing.T, template string, seed uint64) bool) {
	t.Helper()
	template := simTemplate(t)
	var next atomic.Uint64
	t.Run("seeds", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				for goOn := true; goOn && !t.Failed(); {
					n := next.Add(1) - 1
					if n >= seeds {
						return
					}
					synctest.Test(t, func(t *testing.T) { goOn = simulate(t, template, first+n) })
				}
			})
		}
	})
}

// simTemplate makes the file that every simulation begins with: the tables of
// Madeira, and a witness that sees each claim and each effect in the order of
// their commits, and has no constraint that could hide one.
func simTemplate(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "template.db")
	db, err := store.Open(t.Context(), "sqlite://"+path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, pool := db.SQL()
	_, err = pool.ExecContext(t.Context(), `
		CREATE TABLE witness (seq integer PRIMARY KEY AUTOINCREMENT, kind text NOT NULL, task_id integer NOT NULL, fence integer NOT NULL);
		CREATE TRIGGER witness_claim AFTER INSERT ON task_lease BEGIN
			INSERT INTO witness (kind, task_id, fence) VALUES ('claim', new.task_id, new.fence);
		END`)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil { // which empties the write-ahead log into the file
		t.Fatal(err)
	}
	return path
}

// The proportions of a simulation. Time is virtual, so that only their ratios
// and the number of polls cost anything.
const (
	simLease   = 6 * time.Second
	simPoll    = 8 * time.Second
	simHorizon = 20 * time.Second // of faults
	simDeaf    = 3 * simLease     // for which a step may not listen
	simPatient = time.Hour        // until everything has to be over after the last fault
)
