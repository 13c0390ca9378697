package store

import (
	"cmp"
	"strings"
	"sync"
	"time"

	"madeira/engine/task"
)

// floors let claims begin where the last one from the start ended. Normally
// nothing is gained by that; but while somebody holds an old snapshot, the rows
// that claims deleted stay in the index, and every claim from the start walks past
// all of them. A floor is in use only while claims from the start are slow. For
// what came in below one of them goes from the start all the same, sooner when this
// process knows that something came in, but so seldom that most of the time is left
// for work.
type floors struct {
	mu  sync.Mutex
	all map[string]floor // by the types that are asked for

	slow int       // commits in a row that looked for what comes before them, and took long
	keep time.Time // until when none looks
}

// A floor is the first task of the last claim from the start that got any.
type floor struct {
	priority int
	id       int64
	slow     int           // claims from the start in a row that took long
	took     time.Duration // the last of them
	at       time.Time     // when that ended
	stirred  bool          // something came in since, perhaps below
}

const (
	// A claim that takes longer than this and slowTask for each task it got has
	// walked past something: without that it takes less than a millisecond, and a
	// fortieth of one for each task. One that takes half as long has not.
	slowClaim = 6 * time.Millisecond
	slowTask  = 60 * time.Microsecond

	// One slow claim may be that of a busy machine.
	slowInARow = 3

	// A claim from the start is followed by so many times its length without one: of
	// a worker's time four fifths are left when things come in, else nine tenths.
	restOfScan  = 4
	restOfQuiet = 9
)

// of reports where a claim can begin, or false when it has to go from the start.
func (f *floors) of(w task.Want) (floor, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	low := f.all[typesOf(w)]
	rest := restOfQuiet * low.took
	if low.stirred {
		rest = restOfScan * low.took
	}
	return low, low.id > 0 && low.slow >= slowInARow && time.Since(low.at) < rest
}

// stir tells that something came in that may stand below a floor.
func (f *floors) stir() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for types, low := range f.all {
		low.stirred = true
		f.all[types] = low
	}
}

// scanned notes how long a claim from the start took.
func (f *floors) scanned(w task.Want, claimed []task.Claimed, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	types := typesOf(w)
	long := slowClaim + slowTask*time.Duration(len(claimed))
	if took < long/2 {
		delete(f.all, types)
		return
	}
	low := f.all[types]
	low.took, low.at, low.stirred = took, time.Now(), false
	if took >= long {
		low.slow++
	}
	if w.N > w.Oldest { // else they were taken by age, and say nothing about the order
		for i, c := range claimed {
			if i == 0 || cmp.Or(cmp.Compare(c.Priority, low.priority), cmp.Compare(c.TaskID, low.id)) < 0 {
				low.priority, low.id = c.Priority, c.TaskID
			}
		}
	}
	if f.all == nil {
		f.all = map[string]floor{}
	}
	f.all[types] = low
}

// lend reports whether a commit that makes tasks may look whether something that is
// ready comes before them, which it must to claim them. It walks as a claim does, and
// has no floor to begin at.
func (f *floors) lend() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !time.Now().Before(f.keep)
}

// lent notes how long such a commit took.
func (f *floors) lent(took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.slow++; took < slowClaim {
		f.slow = 0
	}
	if f.slow >= slowInARow {
		f.keep = time.Now().Add(restOfQuiet * took)
	}
}

func typesOf(w task.Want) string { return strings.Join(w.Types, " ") }
