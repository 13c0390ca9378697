package store

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"madeira/engine/task"
)

// floors let claims begin where the last one from the start ended. Normally
// nothing is gained by that; but while somebody holds an old snapshot, the rows
// that claims deleted stay in the index, and every claim from the start walks past
// all of them. A floor is in use only while claims from the start are slow. For
// what came in below one of them goes from the start all the same, but so seldom
// that most of the time is left for work.
type floors struct {
	mu   sync.Mutex
	all  map[string]floor // by the types that are asked for
	last rank             // the newest task that any claim got

	slow int       // commits in a row that make tasks and looked long for what comes before
	keep time.Time // until when no such commit looks
}

// A rank is where a task stands in the order of claims.
type rank struct {
	priority int
	id       int64
}

// A floor is the rank of the first task that the last claim from the start got; if
// it got none, of the newest task there was.
type floor struct {
	rank
	slow int           // claims from the start in a row that took long
	took time.Duration // the last of them
	at   time.Time     // when that ended
}

const (
	// A claim that takes longer than this and slowTask for each task it got has
	// walked past something: without that it takes less than a millisecond, and a
	// fortieth of one for each task. One that takes half as long has not.
	slowClaim = 6 * time.Millisecond
	slowTask  = 60 * time.Microsecond

	// One slow claim may be that of a busy machine.
	slowInARow = 3

	// A claim from the start is followed by so many times its length without one:
	// nine tenths of a worker's time are left.
	restOfScan = 9
)

// of reports where a claim can begin, or false when it has to go from the start.
func (f *floors) of(w task.Want) (rank, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	low := f.all[typesOf(w)]
	return low.rank, low.id > 0 && low.slow >= slowInARow && time.Since(low.at) < restOfScan*low.took
}

// claimed notes what a claim got; scanned how long one from the start took as well.
func (f *floors) claimed(got []task.Claimed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range got {
		if c.TaskID > f.last.id {
			f.last = rank{c.Priority, c.TaskID}
		}
	}
}

func (f *floors) scanned(w task.Want, got []task.Claimed, took time.Duration) {
	f.claimed(got)
	f.mu.Lock()
	defer f.mu.Unlock()
	types := typesOf(w)
	long := slowClaim + slowTask*time.Duration(len(got))
	if took < long/2 {
		delete(f.all, types)
		return
	}
	low := f.all[types]
	low.took, low.at = took, time.Now()
	if took >= long {
		low.slow++
	}
	switch {
	case len(got) == 0:
		low.rank = f.last
	case w.N > w.Oldest: // else they were taken by age, and say nothing about the order
		first := slices.MinFunc(got, func(x, y task.Claimed) int {
			return cmp.Or(cmp.Compare(x.Priority, y.Priority), cmp.Compare(x.TaskID, y.TaskID))
		})
		low.rank = rank{first.Priority, first.TaskID}
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
		f.keep = time.Now().Add(restOfScan * took)
	}
}

func typesOf(w task.Want) string { return strings.Join(w.Types, " ") }
