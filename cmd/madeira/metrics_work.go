package main

import (
	"context"
	"strings"
	"time"

	"madeira/engine/store"
	"madeira/engine/task"
	"madeira/engine/telemetry"
)

// mostDead bounds how many dead letters are counted for a number that is asked for
// every minute.
const mostDead = 10_000

// workMetrics says whether somebody works and looks at schedules, and what is left
// for people.
func (o overview) workMetrics(ctx context.Context, db *store.DB) ([]telemetry.Gauge, error) {
	workers, err := db.Workers(ctx)
	if err != nil {
		return nil, err
	}
	dead, err := db.CountDead(ctx, mostDead)
	if err != nil {
		return nil, err
	}
	marks := map[string]map[string]time.Time{}
	for _, v := range o.jobs {
		if len(v.Entries) == 0 {
			continue
		}
		if marks[v.Name], err = db.Watermarks(ctx, v.Name); err != nil {
			return nil, err
		}
	}
	letters := telemetry.Gauge{
		Name: "madeira_dead_letters", Help: "Tasks that were given up and wait for a person, counted up to 10000; madeira dead list shows them.",
		Samples: []telemetry.Sample{sample(nil, float64(dead))},
	}
	return append(append(workerMetrics(workers, o.now), letters, o.lateness(marks)), o.holdMetrics()...), nil
}

func workerMetrics(workers []task.Worker, now time.Time) []telemetry.Gauge {
	seen := telemetry.Gauge{Name: "madeira_worker_seen_timestamp_seconds", Help: "When any worker gave its last sign of life. Where it stands still, nothing is worked at: start madeira serve."}
	live := 0
	for i, w := range workers {
		if i == 0 { // the one seen last
			seen.Samples = append(seen.Samples, sample(nil, unixSeconds(w.SeenAt)))
		}
		if now.Sub(w.SeenAt) < lately {
			live++
		}
	}
	count := telemetry.Gauge{
		Name: "madeira_workers", Help: "Workers that gave a sign of life in the last 5 minutes, those that ended since included.",
		Samples: []telemetry.Sample{sample(nil, float64(live))},
	}
	return []telemetry.Gauge{count, seen}
}

// lateness says for how long a due time has been waiting that nobody has accounted
// for. An entry that no scheduler has followed yet has no watermark and is left out.
func (o overview) lateness(marks map[string]map[string]time.Time) telemetry.Gauge {
	late := telemetry.Gauge{Name: "madeira_schedule_late_seconds", Help: "How long ago the first due time was that no scheduler has looked at; 0 when there is none. While it grows, see that madeira serve runs."}
	for _, v := range o.jobs {
		for _, e := range v.Entries {
			mark, followed := marks[v.Name][e.Entry]
			if !followed {
				continue
			}
			due, err := nextRun(e.line, mark.In(e.zone))
			if err != nil {
				continue // madeira_schedule_silent has it
			}
			seconds := 0.0
			if !due.IsZero() {
				seconds = max(0, o.now.Sub(due).Seconds())
			}
			late.Samples = append(late.Samples, sample(map[string]string{"job": v.Name, "entry": e.Entry}, seconds))
		}
	}
	return late
}

// holdMetrics has each kind also when there is none of it, so that an alert sees it begin.
func (o overview) holdMetrics() []telemetry.Gauge {
	holds := telemetry.Gauge{Name: "madeira_holds", Help: "What keeps tasks from beginning: pauses of a step type or a job, and circuits that are not closed; madeira holds shows them."}
	held := telemetry.Gauge{Name: "madeira_held_tasks", Help: "Tasks that are due and wait for such a hold; madeira resume ends it."}
	for _, kind := range []string{"type", "job", "circuit"} {
		n, tasks := 0, 0
		for _, h := range o.holds {
			if strings.HasPrefix(h.Gate, kind+":") {
				n, tasks = n+1, tasks+h.Held
			}
		}
		labels := map[string]string{"kind": kind}
		holds.Samples = append(holds.Samples, sample(labels, float64(n)))
		held.Samples = append(held.Samples, sample(labels, float64(tasks)))
	}
	return []telemetry.Gauge{holds, held}
}
