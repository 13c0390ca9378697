package store

import (
	"context"

	"github.com/uptrace/bun"
)

// sharers returns the runs whose key a run that waits for them has a slot under,
// straight or through others: they are part of its turn, or both would wait for ever.
func sharers(ctx context.Context, db bun.IDB, now instant, keys []string, slots []runSlotRow) ([]waiter, error) {
	var called []waiter
	err := db.NewRaw("SELECT "+turnColumns+" FROM run_turn q WHERE q.child AND q.key IN (?) AND "+dueNow, bun.List(keys), now).Scan(ctx, &called)
	if err != nil || len(called) == 0 {
		return nil, err
	}
	above, err := callersOf(ctx, db, called)
	if err != nil {
		return nil, err
	}
	holds := map[string]string{} // a run has one slot
	for _, s := range slots {
		holds[s.RunID] = s.Key
	}
	var shared []waiter
	for _, w := range called {
		if reaches(above, w.RunID, func(run string) bool { return holds[run] == w.Key }) {
			w.Shares = true
			shared = append(shared, w)
		}
	}
	return shared, nil
}

// callersOf returns what waits for each of the runs and for each of those, up to as
// many as may wait for each other in a row.
func callersOf(ctx context.Context, db bun.IDB, runs []waiter) (map[string][]string, error) {
	above := map[string][]string{}
	seen := map[string]bool{}
	var next []string
	for _, w := range runs {
		seen[w.RunID], next = true, append(next, w.RunID)
	}
	for depth := 0; len(next) > 0 && depth < maxDepth; depth++ {
		up, err := callers(ctx, db, next)
		if err != nil {
			return nil, err
		}
		next = nil
		for _, c := range up {
			above[c.RunID] = append(above[c.RunID], c.Caller)
			if !seen[c.Caller] {
				seen[c.Caller], next = true, append(next, c.Caller)
			}
		}
	}
	return above, nil
}

// reaches reports whether something above a run is wanted.
func reaches(above map[string][]string, run string, wanted func(string) bool) bool {
	seen := map[string]bool{run: true}
	for next := []string{run}; len(next) > 0; next = next[1:] {
		for _, up := range above[next[0]] {
			if wanted(up) {
				return true
			}
			if !seen[up] {
				seen[up], next = true, append(next, up)
			}
		}
	}
	return false
}
