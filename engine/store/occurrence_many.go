package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"madeira/engine/task"
)

// An accounting writes due times and their runs in one transaction.
type accounting struct {
	txn
	due    []task.Accounted
	drafts []draft        // of the runs of due
	made   []task.Created // answers, in the order of due
	ways   []way          // of due
	began  instant
	fresh  map[task.EntryID]bool // versions of jobs that are not noted yet
}

// A draft is a run as far as it can be written ahead.
type draft struct {
	run   runRow
	nodes []task.Node
	tasks []taskRow
}

// A way is how a due time gets its run.
type way int

const (
	straight way = iota // it begins at once, or when it is no longer put off
	queued              // it may have to wait for its turn
	yielding            // there is none if a run of its job is live
	single              // what there is of its job or key has to be looked at once those before it are made
)

// draftRuns writes runs as first versions, in the order of their due times.
func draftRuns(due []task.Accounted) ([]draft, error) {
	drafts := make([]draft, len(due))
	for i := range due {
		if due[i].Run == nil {
			continue
		}
		if err := drafts[i].write(whole(&due[i])); err != nil {
			return nil, fmt.Errorf("make a run of %s: %w", due[i].Run.Run.Job, err)
		}
	}
	return drafts, nil
}

// whole returns the run of a due time, under the id that its occurrence has for it.
func whole(d *task.Accounted) task.NewRun {
	n := *d.Run
	n.Run.ID, n.Occurrence = d.Occurrence.RunID, &d.Occurrence
	return n
}

func (d *draft) write(n task.NewRun) (err error) {
	if d.nodes, err = task.Lay(n.Tasks, false); err != nil {
		return err
	}
	if len(d.nodes) == 0 {
		return errors.New("a run needs at least one step")
	}
	if d.run, err = draftRow(n); err != nil {
		return err
	}
	d.run.LaterSteps = laterSteps(d.nodes)
	d.run.Version, d.run.OpenSteps = 1, len(d.nodes)-d.run.LaterSteps
	d.tasks, err = draftTasks(d.nodes, n.Run.ID)
	return err
}

// account writes due times and their runs: first all due times, then nearly all runs,
// each in a few large statements, and the rest one after the other. It goes in one order
// everywhere, so that schedulers that meet wait for each other instead of dying; and one
// that waits for its turn has its due times written meanwhile.
func (tx txn) account(ctx context.Context, due []task.Accounted, drafts []draft) ([]task.Created, error) {
	if err := tx.dialect.steady(ctx, tx.Tx); err != nil {
		return nil, err
	}
	a := accounting{txn: tx, due: due, drafts: drafts, made: make([]task.Created, len(due)), ways: make([]way, len(due)), began: tx.now}
	fresh, err := a.record(ctx, inOneOrder(due))
	if err != nil || len(fresh) == 0 {
		return a.made, err
	}
	if slices.ContainsFunc(fresh, func(w int) bool { return asksForTurns(due[w].Run) }) {
		if a.txn, err = tx.aloneInTurns(ctx); err != nil {
			return nil, err
		}
	}
	if err := a.lookAhead(ctx, fresh); err != nil {
		return nil, err
	}
	if err := a.yield(ctx, a.those(fresh, yielding)); err != nil {
		return nil, err
	}
	if err := a.create(ctx, a.those(fresh, straight, queued)); err != nil {
		return nil, err
	}
	for _, w := range a.those(fresh, single) {
		if a.made[w], err = a.makeRun(ctx, whole(&due[w])); err != nil {
			return nil, fmt.Errorf("%s due at %s: %w", due[w].Occurrence.Job, due[w].Occurrence.DueAt.UTC().Format(time.RFC3339), err)
		}
	}
	return a.made, nil
}

func inOneOrder(due []task.Accounted) []int {
	order := make([]int, len(due))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := due[a].Occurrence, due[b].Occurrence
		return cmp.Or(cmp.Compare(x.Job, y.Job), cmp.Compare(x.Entry, y.Entry), x.DueAt.Compare(y.DueAt))
	})
	return order
}

// those returns which of some due times go one of the ways.
func (a *accounting) those(some []int, ways ...way) []int {
	return slices.DeleteFunc(slices.Clone(some), func(w int) bool { return !slices.Contains(ways, a.ways[w]) })
}

// lookAhead finds the way of each new run, and which versions of jobs are not noted yet.
func (a *accounting) lookAhead(ctx context.Context, fresh []int) error {
	jobs, keys, versions := relation{{kind: kindText}}, relation{{kind: kindText}, {kind: kindText}}, relation{{kind: kindText}, {kind: kindText}}
	for _, w := range fresh {
		n := a.due[w].Run
		jobs.add(n.Run.Job)
		keys.add(n.Run.Job, n.Run.Key)
		versions.add(n.Job.Name, n.Job.Digest)
	}
	var rows []struct{ What, Job, Name string }
	err := a.NewRaw(`SELECT 'busy' AS what, u.column1 AS job, '' AS name FROM (?) AS u WHERE `+
		eachHas("run r", "r.job = u.column1 AND r.status IN ('pending', 'running', 'waiting')"+byLiveIndex)+`
		UNION ALL SELECT 'busy', substr(gate, 5), '' FROM hold WHERE gate LIKE 'job:%'
		UNION ALL SELECT 'used', u.column1, u.column2 FROM (?) AS u WHERE `+eachHas("run_key k", "k.job = u.column1 AND k.upstream_key = u.column2")+`
		UNION ALL SELECT 'fresh', u.column1, u.column2 FROM (?) AS u WHERE NOT `+eachHas("job_version v", "v.job = u.column1 AND v.digest = u.column2")+
		" OR NOT "+eachHas("job j", "j.name = u.column1"), jobs, keys, versions).Scan(ctx, &rows)
	if err != nil {
		return fmt.Errorf("look what stands in the way of %d runs: %w", len(fresh), err)
	}
	p := prospects{busy: map[string]bool{}, used: make(map[task.EntryID]bool, len(fresh)), placed: make(map[string]bool, len(fresh)), behind: map[string]bool{}}
	a.fresh = map[task.EntryID]bool{}
	for _, r := range rows {
		switch r.What {
		case "busy":
			p.busy[r.Job] = true
		case "used":
			p.used[task.EntryID{Job: r.Job, Entry: r.Name}] = true
		default:
			a.fresh[task.EntryID{Job: r.Job, Entry: r.Name}] = true
		}
	}
	for _, w := range fresh {
		a.ways[w] = p.way(a.due[w].Run)
	}
	return nil
}

// byLiveIndex orders runs as only the index of live ones has them, so that those that
// are over are not looked at.
const byLiveIndex = " ORDER BY r.upstream_key"

// prospects is what stands in the way of runs.
type prospects struct {
	busy   map[string]bool       // jobs with a live run, or paused
	used   map[task.EntryID]bool // keys that have had a run, or get one, by job and key
	placed map[string]bool       // jobs that have a run among those before
	behind map[string]bool       // jobs of which one before goes single
}

// way is called in the order in which runs are made.
func (p prospects) way(n *task.NewRun) way {
	job, key := n.Run.Job, task.EntryID{Job: n.Run.Job, Entry: n.Run.Key}
	w := straight
	switch {
	case n.Again || p.used[key] || p.behind[job] || n.Overlap == task.OverlapSkip && p.placed[job]:
		w = single
	case n.Overlap == task.OverlapSkip && p.busy[job]:
		w = yielding
	case n.Concurrency != nil || queues(*n) && (p.busy[job] || p.placed[job]):
		w = queued
	}
	p.placed[job] = true
	if n.Run.Key != "" {
		p.used[key] = true
	}
	if w == single {
		p.behind[job] = true
	}
	return w
}
