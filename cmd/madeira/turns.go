package main

import (
	"context"
	"fmt"
	"time"

	"madeira/engine/store"
	"madeira/engine/task"
)

// A turnView is why a run has not begun, as programs see it.
type turnView struct {
	Reason string     `json:"reason"`
	Run    string     `json:"run,omitempty"`   // that it waits for
	Key    string     `json:"key,omitempty"`   // of its concurrency
	Limit  int        `json:"limit,omitempty"` // runs at once that it allows
	Taken  int        `json:"taken,omitempty"`
	Until  *time.Time `json:"until,omitempty"` // when one that was put off is due
}

// turnsOf returns why runs wait for their turn, by run. Those that are over, or at
// work, are left out.
func turnsOf(ctx context.Context, db *store.DB, runs []task.Run) (map[string]task.TurnWait, error) {
	var live []string
	for _, r := range runs {
		if r.Status.Live() {
			live = append(live, r.ID)
		}
	}
	return db.Turns(ctx, live)
}

// turnsOfTasks is turnsOf for the runs of tasks that have not begun.
func turnsOfTasks(ctx context.Context, db *store.DB, tasks []task.Task) (map[string]task.TurnWait, error) {
	var runs []string
	for _, t := range tasks {
		if waitsInLine(t) {
			runs = append(runs, t.RunID)
		}
	}
	return db.Turns(ctx, runs)
}

func waitsInLine(t task.Task) bool { return t.Step != "" && t.State == task.Pending && !t.Archived }

// explainIn is explain for a task whose run may wait for its turn.
func explainIn(waits map[string]task.TurnWait, t task.Task) string {
	if w, ok := waits[t.RunID]; ok && waitsInLine(t) {
		return waitText(w)
	}
	return explain(t)
}

func waitText(w task.TurnWait) string { return "waits for its turn: " + w.Why }

// newTurnView returns nil for a run that does not wait.
func newTurnView(waits map[string]task.TurnWait, run string) *turnView {
	w, ok := waits[run]
	if !ok {
		return nil
	}
	return &turnView{Reason: w.Why, Run: w.For, Key: w.Key, Limit: w.Slots, Taken: w.Taken, Until: optional(w.Until)}
}

// printTurn says why a run waits for its turn, if it does.
func (p *program) printTurn(ctx context.Context, db *store.DB, run task.Run) (map[string]task.TurnWait, error) {
	waits, err := turnsOf(ctx, db, []task.Run{run})
	if w, ok := waits[run.ID]; err == nil && ok {
		fmt.Fprintln(p.stdout, waitText(w))
	}
	return waits, err
}
