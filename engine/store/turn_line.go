package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"
)

// A waiter is a run that may begin as far as runs of its job are concerned.
type waiter struct {
	RunID    string
	Job      string
	Key      string // "": it needs no slot
	Slots    int
	Priority int
	Shares   bool // a run that waits for it has a slot under the key

	slot int // that it gets; 0: none
}

// A lineup is who may begin, and the slots that are taken.
type lineup struct {
	waiters []waiter
	taken   map[string]map[int]bool // by key
}

// choose returns up to limit runs that begin now, with their slots. Under a key
// they go by priority, then age, each under its own limit; one that finds no slot
// holds up those behind it, so that large limits do not starve small ones.
func (l lineup) choose(limit int) []waiter {
	slices.SortFunc(l.waiters, func(a, b waiter) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.RunID, b.RunID))
	})
	var chosen []waiter
	full := map[string]bool{}
	for _, t := range l.waiters {
		if len(chosen) == limit {
			break
		}
		if t.Key != "" && !t.Shares {
			if full[t.Key] = full[t.Key] || len(l.taken[t.Key]) >= t.Slots; full[t.Key] {
				continue
			}
			t.slot = l.free(t.Key)
		}
		chosen = append(chosen, t)
	}
	return chosen
}

// free takes the lowest free slot under a key.
func (l lineup) free(key string) int {
	if l.taken[key] == nil {
		l.taken[key] = map[int]bool{}
	}
	for slot := 1; ; slot++ {
		if !l.taken[key][slot] {
			l.taken[key][slot] = true
			return slot
		}
	}
}

const (
	turnColumns = "CAST(q.run_id AS text) AS run_id, q.job, coalesce(q.key, '') AS key, coalesce(q.slots, 0) AS slots, q.priority"

	// dueNow is of runs that are not put off, and whose job nobody has paused.
	dueNow = "(q.not_before IS NULL OR q.not_before <= ?) AND NOT EXISTS (SELECT 1 FROM hold h WHERE h.gate = 'job:' || q.job)"

	// firstOfJob is of runs for which no other of their job is at work, or before
	// them in the line. Each is looked up, as in eachHas.
	firstOfJob = `(SELECT 1 FROM run_turn p WHERE NOT p.child AND p.job = q.job AND (p.due_at, p.run_id) < (q.due_at, q.run_id) AND (p.not_before IS NULL OR p.not_before <= ?) LIMIT 1) IS NULL
		AND (SELECT 1 FROM run r WHERE r.job = q.job AND r.status IN ('pending', 'running', 'waiting') AND r.parent_task IS NULL AND r.id <> q.run_id
			AND (SELECT 1 FROM run_turn w WHERE w.run_id = r.id LIMIT 1) IS NULL` + byLiveIndex + ` LIMIT 1) IS NULL`

	inOrder = " ORDER BY q.priority, q.run_id LIMIT ?"

	turnKeys = `WITH RECURSIVE k (key) AS (
		SELECT min(key) FROM run_turn WHERE key IS NOT NULL
		UNION ALL SELECT (SELECT min(t.key) FROM run_turn t WHERE t.key IS NOT NULL AND t.key > k.key) FROM k WHERE k.key IS NOT NULL)
		SELECT key FROM k WHERE key IS NOT NULL`
)

// lineUp reads who may begin: of each job the first that waits for others of it,
// of each key the first limit of the rest.
func lineUp(ctx context.Context, db bun.IDB, now instant, limit int) (lineup, error) {
	l := lineup{taken: map[string]map[int]bool{}}
	var keys []string
	if err := db.NewRaw(turnKeys).Scan(ctx, &keys); err != nil {
		return l, fmt.Errorf("list keys under which runs wait: %w", err)
	}
	err := l.add(ctx, db, "q.overlap AND "+dueNow+" AND "+firstOfJob, now, now)
	if err == nil {
		err = l.add(ctx, db, "q.key IS NULL AND NOT q.overlap AND "+dueNow+inOrder, now, limit)
	}
	for _, key := range keys {
		if err == nil {
			err = l.add(ctx, db, "q.key = ? AND NOT q.overlap AND "+dueNow+inOrder, key, now, limit)
		}
	}
	if err == nil && len(keys) > 0 {
		err = l.readSlots(ctx, db, now, keys)
	}
	if err != nil {
		return l, fmt.Errorf("look whose turn it is: %w", err)
	}
	return l, nil
}

// lineUpWith reads who may begin of a run and those that wait under its key.
func lineUpWith(ctx context.Context, db bun.IDB, now instant, limit int, row turnRow) (lineup, error) {
	l := lineup{taken: map[string]map[int]bool{}}
	where, is := "q.run_id = ?", row.RunID
	if row.Key != "" {
		where, is = "q.key = ?", row.Key
	}
	err := l.add(ctx, db, where+" AND q.overlap AND "+dueNow+" AND "+firstOfJob, is, now, now)
	if err == nil {
		err = l.add(ctx, db, where+" AND NOT q.overlap AND "+dueNow+inOrder, is, now, limit)
	}
	if err == nil && row.Key != "" {
		err = l.readSlots(ctx, db, now, []string{row.Key})
	}
	if err != nil {
		return l, fmt.Errorf("look whether it is the turn of run %s: %w", row.RunID, err)
	}
	return l, nil
}

// add reads waiters q.
func (l *lineup) add(ctx context.Context, db bun.IDB, where string, args ...any) error {
	var some []waiter
	err := db.NewRaw("SELECT "+turnColumns+" FROM run_turn q WHERE "+where, args...).Scan(ctx, &some)
	l.waiters = append(l.waiters, some...)
	return err
}

// readSlots reads which slots are taken, and who shares the turn of another run.
func (l *lineup) readSlots(ctx context.Context, db bun.IDB, now instant, keys []string) error {
	var slots []runSlotRow
	if err := db.NewRaw("SELECT key, slot, CAST(run_id AS text) AS run_id FROM run_slot WHERE key IN (?)", bun.List(keys)).Scan(ctx, &slots); err != nil {
		return err
	}
	for _, s := range slots {
		if l.taken[s.Key] == nil {
			l.taken[s.Key] = map[int]bool{}
		}
		l.taken[s.Key][s.Slot] = true
	}
	if len(slots) == 0 {
		return nil
	}
	shared, err := sharers(ctx, db, now, keys, slots)
	for _, s := range shared {
		l.waiters = slices.DeleteFunc(l.waiters, func(t waiter) bool { return t.RunID == s.RunID })
		l.waiters = append(l.waiters, s)
	}
	return err
}
