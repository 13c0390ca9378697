package store

import (
	"context"
	"fmt"
)

// previousPeriod returns the period of the run of the job with the greatest due
// time before this one's that ended well, at work or in the archive; nil when there
// is none. A run without a period has no use for it.
func (tx txn) previousPeriod(ctx context.Context, run runRow) (document, error) {
	if run.Period == nil {
		return nil, nil
	}
	const last = "(SELECT due_at, period FROM %s WHERE job = ?0 AND period IS NOT NULL AND status IN ('success', 'warning') AND due_at < ?1 ORDER BY due_at DESC LIMIT 1)"
	var rows []struct {
		DueAt  instant
		Period document
	}
	err := tx.NewRaw("SELECT * FROM "+fmt.Sprintf(last, "run")+" AS r UNION ALL SELECT * FROM "+fmt.Sprintf(last, "run_archive")+" AS a", run.Job, run.DueAt).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("look for the period before: %w", err)
	}
	var period document
	var at instant
	for _, r := range rows {
		if r.DueAt.After(at.Time) {
			at, period = r.DueAt, r.Period
		}
	}
	return period, nil
}
