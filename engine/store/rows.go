package store

import (
	"encoding/json"
	"time"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

type runRow struct {
	bun.BaseModel `bun:"table:run,alias:r"`

	ID          string         `bun:"id,pk"`
	Job         string         `bun:"job"`
	JobDigest   string         `bun:"job_digest"`
	JobCommit   string         `bun:"job_commit,nullzero"`
	Key         string         `bun:"upstream_key,nullzero"`
	Version     int            `bun:"version,nullzero"`
	Status      task.RunStatus `bun:"status"`
	Trigger     string         `bun:"trigger"`
	DueAt       instant        `bun:"due_at"`
	Inputs      document       `bun:"inputs"`
	Period      document       `bun:"period"`
	BaseDir     string         `bun:"base_dir"`
	Connections document       `bun:"connections"`
	Reason      string         `bun:"reason,nullzero"`
	RepeatedOf  string         `bun:"repeated_of,nullzero"`
	Priority    int            `bun:"priority"`
	OpenSteps   int            `bun:"open_steps"`
	LaterSteps  int            `bun:"later_steps"`
	FailedSteps int            `bun:"failed_steps"`
	Phase       task.Phase     `bun:"phase"`
	Actor       string         `bun:"actor,nullzero"`
	Overrides   document       `bun:"overrides"`
	RerunOf     string         `bun:"rerun_of,nullzero"`
	ParentTask  int64          `bun:"parent_task,nullzero"`
	TimeoutMS   int64          `bun:"timeout_ms,nullzero"`
	Stopped     string         `bun:"stopped,nullzero"`
	Overlap     string         `bun:"overlap,nullzero"`
	TurnKey     string         `bun:"turn_key,nullzero"`
	TurnSlots   int            `bun:"turn_slots,nullzero"`
	NotBefore   instant        `bun:"not_before"`

	PreviousPeriod document `bun:"previous_period"`

	CreatedAt  instant `bun:"created_at"`
	StartedAt  instant `bun:"started_at"`
	FinishedAt instant `bun:"finished_at"`
}

func (r runRow) run() task.Run {
	run := task.Run{
		ID: r.ID, Job: r.Job, JobDigest: r.JobDigest, JobCommit: r.JobCommit, Key: r.Key, Version: r.Version, Status: r.Status,
		Trigger: r.Trigger, DueAt: r.DueAt.Time, Inputs: json.RawMessage(r.Inputs), Period: json.RawMessage(r.Period),
		BaseDir: r.BaseDir, Reason: r.Reason, RepeatedOf: r.RepeatedOf,
		Actor: r.Actor, RerunOf: r.RerunOf, Overrides: json.RawMessage(r.Overrides), ParentTask: r.ParentTask,
		Timeout: time.Duration(r.TimeoutMS) * time.Millisecond, Stopped: r.Stopped, PreviousPeriod: json.RawMessage(r.PreviousPeriod),
		CreatedAt: r.CreatedAt.Time, StartedAt: r.StartedAt.Time, FinishedAt: r.FinishedAt.Time,
	}
	if run.Connections = []string{}; len(r.Connections) > len("[]") {
		_ = json.Unmarshal(r.Connections, &run.Connections) // written by draftRow alone
	}
	return run
}

type taskRow struct {
	bun.BaseModel `bun:"table:task_queue,alias:t"`

	ID              int64      `bun:"id,pk"`
	RunID           string     `bun:"run_id,nullzero"`
	Step            string     `bun:"step,nullzero"`
	Type            string     `bun:"type"`
	State           task.State `bun:"state"`
	Payload         document   `bun:"payload"`
	Refs            document   `bun:"refs"`
	Condition       string     `bun:"condition,nullzero"`
	Source          bool       `bun:"source"`
	Priority        int        `bun:"priority"`
	RunAt           instant    `bun:"run_at"`
	Retry           document   `bun:"retry"`
	TimeoutMS       int64      `bun:"timeout_ms,nullzero"`
	Unmet           int        `bun:"unmet"`
	Phase           task.Phase `bun:"phase"`
	ContinueOnError bool       `bun:"continue_on_error"`
	ForEach         document   `bun:"for_each"`
	MaxParallel     int        `bun:"max_parallel,nullzero"`
	Elements        document   `bun:"elements"`
	Limits          document   `bun:"limits"`
	Circuit         string     `bun:"circuit,nullzero"`
	Placed          bool       `bun:"placed"`
	CreatedAt       instant    `bun:"created_at"`
}

type dependencyRow struct {
	bun.BaseModel `bun:"table:task_dependency"`

	TaskID  int64 `bun:"task_id"`
	NeedsID int64 `bun:"needs_id"`
}

type logRow struct {
	bun.BaseModel `bun:"table:task_log,alias:l"`

	TaskID    int64      `bun:"task_id"`
	Seq       int        `bun:"seq"`
	From      task.State `bun:"from_state"`
	To        task.State `bun:"to_state"`
	Attempt   int        `bun:"attempt"`
	Fence     int64      `bun:"fence"`
	Worker    string     `bun:"worker,nullzero"`
	Reason    string     `bun:"reason,nullzero"`
	Detail    string     `bun:"detail,nullzero"`
	Failure   document   `bun:"failure"`
	ClaimedAt instant    `bun:"claimed_at"`
	TookMS    int64      `bun:"took_ms,nullzero"`
	At        instant    `bun:"at"`
}

func (l logRow) move(step string) task.Move {
	return task.Move{
		TaskID: l.TaskID, Seq: l.Seq, Step: step, From: l.From, To: l.To, Attempt: l.Attempt, Fence: l.Fence,
		Worker: l.Worker, Reason: l.Reason, Detail: l.Detail, Failure: readFailure(l.Failure),
		ClaimedAt: l.ClaimedAt.Time, Took: time.Duration(l.TookMS) * time.Millisecond, At: l.At.Time,
	}
}

// readFailure returns nil for a row without one, or with one that a stranger wrote.
func readFailure(d document) *task.Failure {
	if d == nil {
		return nil
	}
	var f task.Failure
	if json.Unmarshal(d, &f) != nil {
		return nil
	}
	return &f
}
