package store

import (
	"encoding/json"
	"time"

	"madeira/engine/task"
)

// claimedRun is a run as pgRun writes it.
type claimedRun struct {
	ID          string          `json:"id"`
	RerunOf     string          `json:"rerun_of"`
	Job         string          `json:"job"`
	JobDigest   string          `json:"job_digest"`
	Key         string          `json:"upstream_key"`
	Version     int             `json:"version"`
	Status      task.RunStatus  `json:"status"`
	Trigger     string          `json:"trigger"`
	DueAt       time.Time       `json:"due_at"`
	Inputs      json.RawMessage `json:"inputs"`
	Period      json.RawMessage `json:"period"`
	Previous    json.RawMessage `json:"previous_period"`
	BaseDir     string          `json:"base_dir"`
	Connections []string        `json:"connections"`
	Reason      string          `json:"reason"`
	Actor       string          `json:"actor"`
	ParentTask  int64           `json:"parent_task"`
	CreatedAt   time.Time       `json:"created_at"`
}

// readRun returns nil for a run that cannot be read, for Scope to say why.
func readRun(raw []byte) *task.Run {
	var r claimedRun
	if json.Unmarshal(raw, &r) != nil {
		return nil
	}
	if string(r.Period) == "null" {
		r.Period = nil
	}
	if string(r.Previous) == "null" {
		r.Previous = nil
	}
	return &task.Run{
		ID: r.ID, RerunOf: r.RerunOf, Job: r.Job, JobDigest: r.JobDigest, Key: r.Key, Version: r.Version, Status: r.Status, Trigger: r.Trigger,
		DueAt: r.DueAt.UTC(), Inputs: r.Inputs, Period: r.Period, PreviousPeriod: r.Previous, BaseDir: r.BaseDir, Connections: r.Connections,
		Reason: r.Reason, Actor: r.Actor, ParentTask: r.ParentTask, CreatedAt: r.CreatedAt.UTC(),
	}
}

// shareRuns gives each claimed step of a run what came with the first of them.
func shareRuns(claimed []task.Claimed) {
	runs := map[string]*task.Run{}
	for _, c := range claimed {
		if c.Run != nil {
			runs[c.RunID] = c.Run
		}
	}
	for i, c := range claimed {
		if c.Step != "" {
			claimed[i].Run = runs[c.RunID]
		}
	}
}
