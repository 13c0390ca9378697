package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"madeira/jobs/step"
)

// Type returns the step type "load".
func Type() step.Type {
	return step.Type{
		Name: "load",
		Outputs: []step.Field{
			{Name: "inserted", Type: step.IntegerValue, Doc: "How many lines were new."},
			{Name: "same", Type: step.IntegerValue, Doc: "How many lines were there already, with the same content."},
			{Name: "repeated", Type: step.IntegerValue, Doc: "How many of the same lines repeat an earlier line of this load."},
			{Name: "conflict_count", Type: step.IntegerValue, Doc: "How many lines have the key of a line with other content."},
			{Name: "updated", Type: step.IntegerValue, Doc: "Of those, how many have replaced the line in the table (on_conflict: update)."},
			{Name: "rejected", Type: step.IntegerValue, Doc: "How many lines the table refused."},
			{Name: "gone", Type: step.IntegerValue, Doc: "How many keys the previous version loaded and this one no longer has."},
			{Name: "sums", Type: step.ListValue, Doc: "The sum of every outcome, column of amounts, and currency."},
			{Name: "conflicts", Type: step.DatasetValue, Doc: "Key, column, both values and line of every difference."},
			{Name: "rows", Type: step.DatasetValue, Doc: "The rows that were loaded."},
		},
		Columns: draftColumns,
		Runner:  runner{slice: sliceTime},
	}
}

type settings struct {
	Connection string            `json:"connection"`
	Table      string            `json:"table"`
	Rows       step.Dataset      `json:"rows"`
	Key        string            `json:"key"`
	Columns    map[string]string `json:"columns"`
	OnConflict string            `json:"on_conflict"`
	Conflicts  *struct {
		Max  int64  `json:"max"`
		Else string `json:"else"`
	} `json:"conflicts"`
	Create bool `json:"create"`
}

// onConflictUpdate writes the new content of a line whose key the table has.
const onConflictUpdate = "update"

type runner struct {
	slice time.Duration // how long a transaction on SQLite goes on taking lines
}

// A target is the table in one kind of database, for one attempt.
type target interface {
	// prepare checks that the rows fit the table, and makes what is missing of the
	// table and of our own.
	prepare(ctx context.Context) error
	// merge writes what the record of the task does not have yet and returns the
	// record as it is then.
	merge(ctx context.Context, from record) (record, error)
}

// An attempt is what the parts of one load share.
type attempt struct {
	in      step.Input
	db      *step.Database
	set     settings
	plan    plan
	settled settled
	scratch string
	slice   time.Duration
}

// Run loads the rows. Repeating it changes nothing and counts the same.
func (r runner) Run(ctx context.Context, in step.Input) (step.Output, error) {
	var set settings
	if err := json.Unmarshal(in.Settings, &set); err != nil {
		return step.Output{}, step.Permanent(fmt.Errorf("read the settings of load: %w", err))
	}
	a := &attempt{in: in, set: set, slice: r.slice}
	out, err := a.run(ctx)
	if err != nil {
		return out, fmt.Errorf("load into %s of connection %q: %w", set.Table, set.Connection, err)
	}
	return out, nil
}

func (a *attempt) run(ctx context.Context) (step.Output, error) {
	var err error
	if a.plan, err = newPlan(a.set); err != nil {
		return step.Output{}, err
	}
	if a.db, err = a.in.Databases.Database(ctx, a.set.Connection); err != nil {
		return step.Output{}, err
	}
	if a.scratch, err = a.in.Files.Scratch(ctx); err != nil {
		return step.Output{}, err
	}
	if err := a.settle(ctx); err != nil {
		return step.Output{}, err
	}
	defer a.settled.close()
	t, err := a.target()
	if err != nil {
		return step.Output{}, err
	}
	if err := t.prepare(ctx); err != nil {
		return step.Output{}, err
	}
	rec, err := a.merged(ctx, t)
	var refused *refusedError
	if errors.As(err, &refused) {
		rec.Tally.rejected = 1
		out, reportErr := a.output(ctx, rec)
		return out, errors.Join(err, reportErr)
	}
	if err != nil {
		return step.Output{}, err
	}
	out, err := a.output(ctx, rec)
	if err != nil {
		return step.Output{}, err
	}
	return a.judge(out, rec)
}

func (a *attempt) target() (target, error) {
	switch a.db.Dialect {
	case step.Postgres:
		return &postgres{attempt: a}, nil
	case step.SQLite:
		return &sqlite{attempt: a}, nil
	}
	return nil, step.Permanent(fmt.Errorf("it speaks %q; load writes to postgres and sqlite", a.db.Dialect))
}

// merged brings the record of the task to its end. A load that ended with more
// conflicts than it may have, or has written nothing because of them, is compared
// again: somebody may have mended them. One that has overwritten lines is not, as
// they would come out as same.
func (a *attempt) merged(ctx context.Context, t target) (record, error) {
	rec, err := readRecord(ctx, a.db.Read, a.in.Task, a.plan)
	if err != nil {
		return record{}, classify(err)
	}
	switch {
	case rec.Content != a.content():
		rec = record{Content: a.content(), Tally: newTally(a.plan), Before: newTally(a.plan)}
	case rec.Tally.withheld,
		rec.Done && !a.overwrites() && a.tooMany(a.settled.twins.tally.counts[conflict]+rec.Tally.counts[conflict]):
		rec = rec.again(a.plan)
	}
	if !rec.Done {
		rec, err = t.merge(ctx, rec)
	}
	if err == nil && rec.Tally.withheld && !a.forbids(&rec.Tally) {
		err = errMended
	}
	return rec.total(), err
}

// tooMany reports whether so many conflicts fail the step.
func (a *attempt) tooMany(n int64) bool {
	c := a.set.Conflicts
	return c != nil && c.Else != "warn" && n > c.Max
}

// judge says what the conflicts make of the step. Without a limit they are a
// warning, unless the job has said what becomes of them.
func (a *attempt) judge(out step.Output, rec record) (step.Output, error) {
	n := a.settled.twins.tally.counts[conflict] + rec.Tally.counts[conflict]
	most, limited := int64(0), a.set.Conflicts != nil
	if limited {
		most = a.set.Conflicts.Max
	}
	updates := a.set.OnConflict == onConflictUpdate
	said := a.set.OnConflict == "keep" || updates
	if n <= most || said && !limited {
		return out, nil
	}
	text := fmt.Sprintf("%d lines have the key of a line with other content", n)
	if n == 1 {
		text = "1 line has the key of a line with other content"
	}
	if updates && !rec.Tally.withheld {
		text += fmt.Sprintf(", %d updated", rec.Tally.counts[conflict])
	}
	if limited {
		text += fmt.Sprintf("; the job allows %d", most)
	}
	if a.tooMany(n) {
		if rec.Tally.withheld {
			text += "; nothing was written"
		}
		return out, step.PermanentCode("load.conflicts", errors.New(text))
	}
	out.Warning = text
	return out, nil
}
