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
// all of them. A floor is in use only while claims from the start are slow, and one
// of them each rescan goes from the start all the same, for what came in below.
type floors struct {
	mu  sync.Mutex
	all map[string]floor // by the types that are asked for
}

// A floor is the first task of the last claim from the start.
type floor struct {
	priority int
	id       int64
	slow     int       // claims from the start in a row that took long
	until    time.Time // when to go from the start again; zero: that is fast
}

const (
	// A claim that takes longer than this and slowTask for each task it got has
	// walked past something: without that it takes less than a millisecond.
	slowClaim = 20 * time.Millisecond
	slowTask  = 100 * time.Microsecond

	// One slow claim may be that of a busy machine.
	slowInARow = 3

	rescan = time.Second
)

// of reports where a claim can begin, or false when it has to go from the start.
func (f *floors) of(w task.Want) (floor, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	low := f.all[typesOf(w)]
	return low, time.Now().Before(low.until)
}

// forget lets the next claim go from the start: something came in that may stand
// below a floor. What other processes put there is found by the rescan.
func (f *floors) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.all)
}

// scanned notes how long a claim from the start took.
func (f *floors) scanned(w task.Want, claimed []task.Claimed, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := typesOf(w)
	if took < slowClaim+slowTask*time.Duration(len(claimed)) {
		delete(f.all, key)
		return
	}
	if len(claimed) == 0 || w.N == w.Oldest {
		return // there is nothing to begin at, or only by age
	}
	low := f.all[key]
	if low.slow++; low.slow >= slowInARow {
		low.until = time.Now().Add(rescan)
	}
	for i, c := range claimed {
		if i == 0 || cmp.Or(cmp.Compare(c.Priority, low.priority), cmp.Compare(c.TaskID, low.id)) < 0 {
			low.priority, low.id = c.Priority, c.TaskID
		}
	}
	if f.all == nil {
		f.all = map[string]floor{}
	}
	f.all[key] = low
}

func typesOf(w task.Want) string { return strings.Join(w.Types, " ") }
