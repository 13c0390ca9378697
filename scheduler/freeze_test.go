package scheduler

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"madeira/engine/task"
	"madeira/jobs"
	"madeira/jobs/calendar"
)

func TestFreeze_PhasesElementsAndWhatFailureMeans(t *testing.T) {
	t.Parallel()
	job := monthEnd(t)
	job.Timeout, job.Overlap = time.Hour, jobs.OverlapSkip
	job.Concurrency = &jobs.Concurrency{Key: "ledger/${{ period.label }}", Limit: 2}
	job.Steps[1].ForEach, job.Steps[1].EachIf, job.Steps[1].MaxParallel = json.RawMessage(`"${{ steps.list.outputs.files }}"`), "steps.other.outputs.x == each.value", 3
	job.Steps[1].ContinueOnError = true
	job.Steps[1].Retry = jobs.Retry{RetryOn: []string{"transient"}, NoRetryOn: []string{"http.404"}}
	job.OnFailure = []jobs.Step{{ID: "tell", Uses: "notify"}}
	job.Finally = []jobs.Step{{ID: "clean", Uses: "command"}, {ID: "last", Uses: "command", Needs: []string{"clean"}}}
	n, err := Freeze(job, Request{Trigger: TriggerSchedule, DueAt: at(t, "2026-11-05T10:30:00+08:00"), Actor: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	if n.Run.Timeout != time.Hour || n.Overlap != task.OverlapSkip || n.Run.Actor != "ann" {
		t.Errorf("timeout %s, overlap %q, actor %q", n.Run.Timeout, n.Overlap, n.Run.Actor)
	}
	if want := (&task.Limit{Key: "ledger/2026-10", Slots: 2}); !reflect.DeepEqual(n.Concurrency, want) {
		t.Errorf("Concurrency = %+v, want %+v", n.Concurrency, want)
	}
	lines := n.Tasks[1]
	if string(lines.ForEach) != string(job.Steps[1].ForEach) || lines.EachCondition != job.Steps[1].EachIf || lines.MaxParallel != 3 || !lines.ContinueOnError {
		t.Errorf("lines = %+v", lines)
	}
	if want := []string{"bill", "list", "other"}; !reflect.DeepEqual(lines.Refs, want) {
		t.Errorf("Refs = %v, want %v: those of for_each and of its condition too", lines.Refs, want)
	}
	if !reflect.DeepEqual(lines.Retry.RetryOn, []string{"transient"}) || !reflect.DeepEqual(lines.Retry.NoRetryOn, []string{"http.404"}) {
		t.Errorf("Retry = %+v", lines.Retry)
	}
	var phases []string
	for _, x := range n.Tasks {
		phases = append(phases, string(x.Phase)+" "+x.Step)
	}
	if want := []string{" bill", " lines", "on_failure tell", "finally clean", "finally last"}; !reflect.DeepEqual(phases, want) {
		t.Errorf("steps = %q, want %q", phases, want)
	}
	byHand, err := Freeze(job, Request{DueAt: at(t, "2026-11-05T10:30:00+08:00"), NotBefore: at(t, "2026-12-01T06:00:00Z")})
	if err != nil || byHand.Overlap != "" || !byHand.NotBefore.Equal(at(t, "2026-12-01T06:00:00Z")) {
		t.Errorf("by hand: overlap %q, not before %s, %v; overlap is for due times", byHand.Overlap, byHand.NotBefore, err)
	}
}

// entity is a job that another one calls for each of its entities.
func entity() *jobs.Job {
	return &jobs.Job{
		Name: "entity", Path: "/srv/jobs/entity/job.yaml", Digest: "sha256:bb", Source: []byte("name: entity"),
		Period: &calendar.Rule{Every: calendar.Quarter, Of: calendar.Previous},
		Key:    "${{ inputs.code }}/${{ period.label }}", Concurrency: &jobs.Concurrency{Key: "db-${{ inputs.code }}", Limit: 1},
		Inputs: []jobs.InputDecl{
			{Name: "code", Type: "string", Schema: json.RawMessage(`{"type":"string","pattern":"^[a-z]{2}$"}`)},
			{Name: "mode", Type: "string", Schema: json.RawMessage(`{"type":"string"}`), Default: json.RawMessage(`"full"`)},
		},
		Steps: []jobs.Step{{ID: "load", Uses: "load", With: json.RawMessage(`{"table":"${{ inputs.code }}"}`),
			RateLimit: &jobs.RateLimit{Key: "bank-${{ inputs.code }}", PerSecond: 1, Burst: 1}}},
		Outputs: json.RawMessage(`{"rows":"${{ steps.load.outputs.rows }}"}`),
	}
}

func group(t *testing.T, call jobs.Call, forEach string) *jobs.Job {
	t.Helper()
	job := monthEnd(t)
	s := jobs.Step{ID: "entity", Uses: "job", Call: &call, Needs: []string{"bill"}}
	if forEach != "" {
		s.ForEach = json.RawMessage(forEach)
	}
	job.Steps = append(job.Steps[:1:1], s)
	return job
}

func subJob(t *testing.T, job *jobs.Job, r Request) task.SubJob {
	t.Helper()
	n, err := Freeze(job, r)
	if err != nil {
		t.Fatal(err)
	}
	if n.Tasks[1].Type != task.TypeJob {
		t.Fatalf("the step that calls is of type %s", n.Tasks[1].Type)
	}
	var sub task.SubJob
	if err := json.Unmarshal(n.Tasks[1].Settings, &sub); err != nil {
		t.Fatal(err)
	}
	return sub
}

func TestFreeze_AJobThatAStepCallsIsFrozenWithIt(t *testing.T) {
	t.Parallel()
	due := at(t, "2026-11-05T10:30:00+08:00")
	sub := subJob(t, group(t, jobs.Call{Job: entity(), Inputs: json.RawMessage(`{"code":"hk"}`)}, ""), Request{DueAt: due})
	if sub.Late || sub.Inputs != nil || sub.Key != "" || string(sub.Outputs) != string(entity().Outputs) {
		t.Errorf("everything is known, and yet %+v", sub)
	}
	r := sub.Run.Run
	if r.Key != "hk/2026-Q3" || string(r.Inputs) != `{"code":"hk","mode":"full"}` || r.BaseDir != "/srv/jobs/entity" || !r.DueAt.Equal(due) {
		t.Errorf("the run is %+v", r)
	}
	if sub.Run.Concurrency.Key != "db-hk" || sub.Run.Tasks[0].Limits[0].Key != "bank-hk" || string(sub.Run.Job.Source) != "name: entity" {
		t.Errorf("frozen as %+v", sub.Run)
	}
}

func TestFreeze_WhatIsKnownOnlyAtRunTimeStaysAnExpression(t *testing.T) {
	t.Parallel()
	call := jobs.Call{Job: entity(), Inputs: json.RawMessage(`{"code":"${{ each.key }}","mode":"${{ inputs.tolerance }}"}`)}
	n, err := Freeze(group(t, call, `"${{ steps.bill.outputs.entities }}"`), Request{DueAt: at(t, "2026-11-05T10:30:00+08:00")})
	if err != nil {
		t.Fatal(err)
	}
	if got := n.Tasks[1].Refs; !reflect.DeepEqual(got, []string{"bill"}) {
		t.Errorf("Refs = %v, want bill", got)
	}
	var sub task.SubJob
	if err := json.Unmarshal(n.Tasks[1].Settings, &sub); err != nil {
		t.Fatal(err)
	}
	if !sub.Late || string(sub.Inputs) != `{"code":"${{ each.key }}"}` || string(sub.Run.Run.Inputs) != `{"mode":"0.00"}` {
		t.Errorf("late %t, inputs %s over %s", sub.Late, sub.Inputs, sub.Run.Run.Inputs)
	}
	if sub.Run.Run.Key != entity().Key || sub.Run.Concurrency.Key != "db-${{ inputs.code }}" || sub.Run.Tasks[0].Limits[0].Key != "bank-${{ inputs.code }}" {
		t.Errorf("keys that refer to a late input: %q, %q", sub.Run.Run.Key, sub.Run.Concurrency.Key)
	}
	if err := CheckInputs("entity", sub.Declared, json.RawMessage(`{"code":"hk"}`)); err != nil {
		t.Errorf("CheckInputs of a good value: %v", err)
	}
	if err := CheckInputs("entity", sub.Declared, json.RawMessage(`{"code":"Hong Kong"}`)); err == nil || !strings.Contains(err.Error(), `input "code"`) {
		t.Errorf("CheckInputs of a bad value: %v", err)
	}
	own := subJob(t, group(t, jobs.Call{Job: entity(), Inputs: call.Inputs, Key: "mine/${{ each.key }}"}, `["hk"]`), Request{DueAt: at(t, "2026-11-05T10:30:00+08:00")})
	if own.Key != "mine/${{ each.key }}" || own.Run.Run.Key != "" {
		t.Errorf("a key of its own: %q and %q", own.Key, own.Run.Run.Key)
	}
}

func TestFreeze_APeriodByHandMovesThatOfCalledJobs(t *testing.T) {
	t.Parallel()
	due := at(t, "2026-12-20T00:00:00Z")
	for label, want := range map[string]string{"": "hk/2026-Q3", "2026-06": "hk/2026-Q2", "2026-02": "hk/2025-Q4"} {
		sub := subJob(t, group(t, jobs.Call{Job: entity(), Inputs: json.RawMessage(`{"code":"hk"}`)}, ""), Request{DueAt: due, PeriodLabel: label})
		if sub.Run.Run.Key != want {
			t.Errorf("with period %q the called run has the key %s, want %s", label, sub.Run.Run.Key, want)
		}
	}
}

func TestFreeze_RefusesCallsThatCannotBeMet(t *testing.T) {
	t.Parallel()
	loop := entity()
	loop.Steps = []jobs.Step{{ID: "again", Uses: "job", Call: &jobs.Call{Job: loop, Inputs: json.RawMessage(`{"code":"hk"}`)}}}
	for want, call := range map[string]jobs.Call{
		`job entity: input "code" is missing`:     {Job: entity()},
		`job entity: input "code" is "Hong Kong"`: {Job: entity(), Inputs: json.RawMessage(`{"code":"Hong Kong"}`)},
		`input "cod" is not one of job entity`:    {Job: entity(), Inputs: json.RawMessage(`{"code":"hk","cod":"${{ each.key }}"}`)},
		"calls itself without an end":             {Job: loop, Inputs: json.RawMessage(`{"code":"hk"}`)},
	} {
		_, err := Freeze(group(t, call, ""), Request{DueAt: at(t, "2026-11-05T10:30:00+08:00")})
		var bad *RequestError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), want) {
			t.Errorf("Freeze = %v, want %s", err, want)
		}
	}
}
