package store

import (
	"context"
	"fmt"
)

// previousPeriods gives each run that has a period that of the run of its job with the
// greatest due time before its own that ended well, at work or in the archive, if there
// is one.
func (tx txn) previousPeriods(ctx context.Context, runs []*runRow) error {
	which := relation{{kind: kindNumber}, {kind: kindText}, {kind: kindMoment}}
	for i, r := range runs {
		if r.Period != nil {
			which.add(int64(i), r.Job, r.DueAt.Time)
		}
	}
	if len(which[0].values) == 0 {
		return nil
	}
	const last = `SELECT * FROM (SELECT %[2]d AS place, due_at, period FROM %[1]s WHERE job = u.column2 AND period IS NOT NULL AND status IN ('success', 'warning') AND due_at < u.column3
		ORDER BY due_at DESC LIMIT 1) AS %[1]s`
	var found []struct {
		N      int
		Period document
	}
	err := tx.NewRaw("SELECT u.column1 AS n, (SELECT p.period FROM ("+fmt.Sprintf(last, "run", 1)+" UNION ALL "+fmt.Sprintf(last, "run_archive", 2)+
		") AS p ORDER BY p.due_at DESC, p.place LIMIT 1) AS period FROM (?) AS u", which).Scan(ctx, &found)
	if err != nil {
		return fmt.Errorf("look for the periods before those of %d runs: %w", len(which[0].values), err)
	}
	for _, f := range found {
		runs[f.N].PreviousPeriod = f.Period
	}
	return nil
}
