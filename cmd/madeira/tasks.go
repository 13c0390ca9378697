package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"madeira/engine/store"
	"madeira/engine/task"
)

func (p *program) tasksCommand() *cobra.Command {
	c := &cobra.Command{Use: "tasks", Short: "List tasks, or show one with every move it made"}
	group(c)
	var f store.TaskFilter
	var run string
	var states []string
	list := &cobra.Command{
		Use:   "list",
		Short: "List tasks, newest first: steps, their elements, messages, and tasks enqueued alone",
		Example: `  madeira tasks list --state pending,error
  madeira tasks list --run 0199a1b2 --type parse`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := checkLimit(f.Limit); err != nil {
				return err
			}
			for _, s := range states {
				if !slices.Contains(task.States(), task.State(s)) {
					return usage("--state %s: a task is one of %v", s, task.States())
				}
				f.State = append(f.State, task.State(s))
			}
			return p.withState(c.Context(), func(db *store.DB, _ *config) error { return p.listTasks(c.Context(), db, f, run) })
		},
	}
	list.Flags().StringVar(&run, "run", "", "only tasks of the run whose id begins so")
	list.Flags().StringVar(&f.Type, "type", "", "only tasks of this step type")
	list.Flags().StringSliceVar(&states, "state", nil, "only tasks in these states, such as pending,error")
	list.Flags().BoolVar(&f.Lone, "lone", false, "only tasks enqueued alone")
	list.Flags().Int64Var(&f.After, "after", 0, "the page after the task of this id")
	list.Flags().IntVar(&f.Limit, "limit", 50, "most tasks to list, up to 1000")
	c.AddCommand(list, &cobra.Command{
		Use:     "show TASK",
		Short:   "Show a task with every move it made",
		Example: `  madeira tasks show 4711`,
		Args:    arguments(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			return p.withState(c.Context(), func(db *store.DB, _ *config) error { return p.showTask(c.Context(), db, args[0]) })
		},
	})
	return c
}

func checkLimit(limit int) error {
	if limit < 1 || limit > 1000 {
		return usage("--limit %d: it is between 1 and 1000", limit)
	}
	return nil
}

// A taskView is a task as programs see it.
type taskView struct {
	ID         int64           `json:"id"`
	Run        string          `json:"run,omitempty"`
	Step       string          `json:"step,omitempty"`
	Type       string          `json:"type"`
	Key        string          `json:"upstream_key,omitempty"`
	State      task.State      `json:"state"`
	Reason     string          `json:"reason,omitempty"`
	Detail     string          `json:"detail,omitempty"`
	Attempts   int             `json:"attempts"`
	Error      *task.Failure   `json:"error,omitempty"`
	RunAt      time.Time       `json:"run_at"`
	FinishedAt *time.Time      `json:"finished_at"`
	Reused     int64           `json:"reused_of,omitempty"`
	Archived   bool            `json:"archived,omitempty"`
	Outputs    json.RawMessage `json:"outputs,omitempty"`
}

func newTaskView(t task.Task) taskView {
	return taskView{
		ID: t.ID, Run: t.RunID, Step: task.Name(t.Step, t.Element), Type: t.Type, Key: t.Key, State: t.State, Reason: t.Reason, Detail: t.Detail,
		Attempts: t.Attempt, Error: failureOf(t), RunAt: t.RunAt, FinishedAt: optional(t.FinishedAt), Reused: t.ReusedOf, Archived: t.Archived, Outputs: t.Outputs,
	}
}

// A moveView is one row of the log of a task.
type moveView struct {
	From      task.State    `json:"from"`
	To        task.State    `json:"to"`
	At        time.Time     `json:"at"`
	ClaimedAt *time.Time    `json:"claimed_at,omitempty"`
	TookMS    int64         `json:"took_ms,omitempty"`
	Attempt   int           `json:"attempt"`
	Fence     int64         `json:"fence"`
	Worker    string        `json:"worker,omitempty"`
	Reason    string        `json:"reason,omitempty"`
	Detail    string        `json:"detail,omitempty"`
	Error     *task.Failure `json:"error,omitempty"`
}

func (p *program) listTasks(ctx context.Context, db *store.DB, f store.TaskFilter, run string) error {
	if run != "" {
		r, err := oneRun(ctx, db, run)
		if err != nil {
			return err
		}
		f.Run = r.ID
	}
	tasks, err := db.ListTasks(ctx, f)
	if err != nil {
		return err
	}
	if p.output == "json" {
		views := make([]taskView, len(tasks))
		for i, t := range tasks {
			views[i] = newTaskView(t)
			views[i].Outputs = nil
		}
		return p.json(views)
	}
	waits, err := turnsOfTasks(ctx, db, tasks)
	if err != nil {
		return err
	}
	rows := [][]string{{"TASK", "RUN", "STEP", "TYPE", "STATE", "ATTEMPTS", ""}}
	for _, t := range tasks {
		rows = append(rows, []string{fmt.Sprint(t.ID), shortRun(t.RunID), stepName(task.Name(t.Step, t.Element), "-"), t.Type, string(t.State), fmt.Sprint(t.Attempt), oneLine(explainIn(waits, t))})
	}
	writeTable(p.stdout, rows)
	if len(tasks) == f.Limit {
		fmt.Fprintf(p.stderr, "more: --after %d\n", tasks[len(tasks)-1].ID)
	}
	return nil
}

// shortRun is as much of the id of a run as names it in practice.
func shortRun(id string) string {
	if id == "" {
		return "-"
	}
	return id[:13]
}

// taskID reads the id of a task.
func taskID(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id <= 0 {
		return 0, usage("%q is no id of a task: it is a number, see madeira tasks list", text)
	}
	return id, nil
}

func (p *program) showTask(ctx context.Context, db *store.DB, text string) error {
	id, err := taskID(text)
	if err != nil {
		return err
	}
	t, err := db.Task(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return usage("%w; see madeira tasks list", err)
	}
	if err != nil {
		return err
	}
	moves, err := db.TaskLog(ctx, id)
	if err != nil {
		return err
	}
	if p.output == "json" {
		views := make([]moveView, len(moves))
		for i, m := range moves {
			views[i] = moveView{
				From: m.From, To: m.To, At: m.At, ClaimedAt: optional(m.ClaimedAt), TookMS: m.Took.Milliseconds(), Attempt: m.Attempt,
				Fence: m.Fence, Worker: m.Worker, Reason: m.Reason, Detail: m.Detail, Error: m.Failure,
			}
		}
		return p.json(struct {
			taskView
			Moves []moveView `json:"moves"`
		}{newTaskView(t), views})
	}
	waits, err := turnsOfTasks(ctx, db, []task.Task{t})
	if err != nil {
		return err
	}
	p.printTask(t, moves, waits)
	return nil
}

func (p *program) printTask(t task.Task, moves []task.Move, waits map[string]task.TurnWait) {
	fmt.Fprintf(p.stdout, "task %d  %s  %s\n", t.ID, t.Type, t.State)
	if t.RunID != "" {
		fmt.Fprintf(p.stdout, "run %s  step %s\n", t.RunID, stepName(task.Name(t.Step, t.Element), "-"))
	}
	if t.Key != "" {
		fmt.Fprintf(p.stdout, "key %s\n", t.Key)
	}
	if text := explainIn(waits, t); text != "" {
		indent(p.stdout, text)
	}
	log := [][]string{{"AT", "MOVE", "ATTEMPT", "FENCE", "TOOK", "WORKER", "REASON", ""}}
	for _, m := range moves {
		log = append(log, []string{
			stamp(m.At), string(m.From) + " → " + string(m.To), fmt.Sprint(m.Attempt), fmt.Sprint(m.Fence), m.Took.String(),
			stepName(m.Worker, "-"), m.Reason, oneLine(moveDetail(m)),
		})
	}
	fmt.Fprintln(p.stdout)
	writeTable(p.stdout, log)
}
