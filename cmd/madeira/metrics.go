package main

import (
	"slices"
	"time"

	"madeira/engine/telemetry"
	"madeira/jobs"
)

// metrics says what an overview says to a program that draws charts and calls people.
func (o overview) metrics() []telemetry.Gauge {
	return slices.Concat(o.jobMetrics(), o.fileMetrics(), o.sourceMetrics())
}

func (o overview) jobMetrics() []telemetry.Gauge {
	due := telemetry.Gauge{Name: "madeira_job_next_due_timestamp_seconds", Help: "When the job is due next. Whether it was looked at in time, madeira_schedule_late_seconds says."}
	paused := telemetry.Gauge{Name: "madeira_job_paused", Help: "1 while somebody has paused the job; madeira resume job:NAME ends that."}
	silent := telemetry.Gauge{Name: "madeira_schedule_silent", Help: "1 for a line of a schedule that cannot tell when it is due next; madeira doctor says why."}
	for _, v := range o.jobs {
		job := map[string]string{"job": v.Name}
		if v.NextDue != nil {
			due.Samples = append(due.Samples, sample(job, unixSeconds(*v.NextDue)))
		}
		if v.Paused != nil {
			paused.Samples = append(paused.Samples, sample(job, 1))
		}
	}
	for _, s := range o.silent() {
		silent.Samples = append(silent.Samples, sample(map[string]string{"job": s.Job, "entry": s.Entry}, 1))
	}
	inForce := telemetry.Gauge{Name: "madeira_jobs", Help: "Jobs of which a version is known.", Samples: []telemetry.Sample{sample(nil, float64(len(o.jobs)))}}
	return []telemetry.Gauge{inForce, due, paused, silent}
}

// fileMetrics has one sample for each broken file, however much is wrong in it.
func (o overview) fileMetrics() []telemetry.Gauge {
	broken := telemetry.Gauge{Name: "madeira_file_broken", Help: "1 for a file that is broken now. With a job the last good version of that is in force; madeira doctor says what is wrong where."}
	since := telemetry.Gauge{Name: "madeira_file_broken_timestamp_seconds", Help: "Since when the file is broken."}
	type key struct{ source, file string }
	seen := map[key]bool{}
	for _, f := range o.problems {
		if k := (key{f.source, f.File}); f.Severity == string(jobs.SeverityError) && !seen[k] {
			seen[k] = true
			labels := map[string]string{"source": f.source, "file": f.File, "job": f.Job}
			broken.Samples = append(broken.Samples, sample(labels, 1))
			since.Samples = append(since.Samples, sample(labels, unixSeconds(f.Since)))
		}
	}
	return []telemetry.Gauge{broken, since}
}

func (o overview) sourceMetrics() []telemetry.Gauge {
	looked := telemetry.Gauge{Name: "madeira_source_looked_timestamp_seconds", Help: "When somebody who follows the folder or the ref of git has looked last."}
	read := telemetry.Gauge{Name: "madeira_source_read_timestamp_seconds", Help: "When the folder or the ref of git could be read last; what was read then is in force."}
	failing := telemetry.Gauge{Name: "madeira_source_failing", Help: "1 while what is followed cannot be read; what was read last stays in force."}
	for _, s := range o.sources {
		source := map[string]string{"source": s.Name}
		looked.Samples = append(looked.Samples, sample(source, unixSeconds(s.LookedAt)))
		if s.ReadAt != nil {
			read.Samples = append(read.Samples, sample(source, unixSeconds(*s.ReadAt)))
		}
		if s.Followed && s.FailedAt != nil {
			failing.Samples = append(failing.Samples, sample(source, 1))
		}
	}
	return []telemetry.Gauge{looked, read, failing}
}

func sample(labels map[string]string, value float64) telemetry.Sample {
	return telemetry.Sample{Labels: labels, Value: value}
}

// unixSeconds is an instant as Prometheus counts it, since 1970.
func unixSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
