package scheduler_test

import (
	"encoding/json"
	"fmt"
	"time"

	"madeira/jobs"
	"madeira/jobs/calendar"
	"madeira/scheduler"
)

func ExampleDue() {
	daily, err := calendar.NewTimetable("0 6 * * *", time.UTC)
	if err != nil {
		fmt.Println(err)
		return
	}
	entry := jobs.Entry{Name: "0 6 * * * UTC", Schedule: daily, Catchup: jobs.CatchupLatest}
	watermark := time.Date(2026, 10, 28, 6, 0, 0, 0, time.UTC)
	due, _, err := scheduler.Due(entry, scheduler.Span{After: watermark, UpTo: watermark.AddDate(0, 0, 3).Add(time.Hour)}, 100)
	if err != nil {
		fmt.Println(err)
	}
	for _, d := range due {
		fmt.Println(d.DueAt.Format(time.RFC3339), d.Outcome)
	}
	// Output:
	// 2026-10-29T06:00:00Z missed
	// 2026-10-30T06:00:00Z missed
	// 2026-10-31T06:00:00Z caught_up
}

func ExampleFreeze() {
	job := &jobs.Job{
		Name: "month-end", Path: "jobs/month-end.yaml", Key: "alipay/${{ period.label }}",
		Period: &calendar.Rule{Every: calendar.Month, Of: calendar.Previous},
		Steps:  []jobs.Step{{ID: "bill", Uses: "fetch", With: json.RawMessage(`{"path":"/bills/${{ period.label }}.csv"}`)}},
	}
	run, err := scheduler.Freeze(job, scheduler.Request{DueAt: time.Date(2026, 11, 5, 2, 30, 0, 0, time.UTC)})
	fmt.Println(run.Run.Key, len(run.Tasks), err)
	// Output: alipay/2026-10 1 <nil>
}
