package scheduler

import (
	"reflect"
	"testing"

	"madeira/engine/task"
	"madeira/jobs"
)

func TestFreeze_FreezesLimitsPriorityAndDownstream(t *testing.T) {
	t.Parallel()
	job := monthEnd(t)
	urgent := 3
	s := &job.Steps[0]
	s.Priority, s.Connection = &urgent, "alipay-sftp"
	s.Concurrency = &jobs.Concurrency{Key: "bank/${{ period.label }}", Limit: 2}
	s.RateLimit = &jobs.RateLimit{Key: "api", PerSecond: 10, Burst: 20}
	n, err := Freeze(job, Request{DueAt: at(t, "2026-11-05T02:30:00Z")})
	if err != nil {
		t.Fatal(err)
	}
	got := n.Tasks[0]
	want := []task.Limit{{Key: "bank/2026-10", Slots: 2}, {Key: "api", Rate: 10, Burst: 20}}
	if !reflect.DeepEqual(got.Limits, want) || got.Priority != 3 || got.Circuit != "fetch/alipay-sftp" {
		t.Errorf("limits %+v, priority %d, circuit %q; want %+v, 3, fetch/alipay-sftp", got.Limits, got.Priority, got.Circuit, want)
	}
	if other := n.Tasks[1]; other.Limits != nil || other.Priority != job.Priority || other.Circuit != "" {
		t.Errorf("the other step: limits %v, priority %d, circuit %q; want none, the job's, none", other.Limits, other.Priority, other.Circuit)
	}
	s.Concurrency.Key = "\x00"
	if _, err := Freeze(job, Request{DueAt: at(t, "2026-11-05T02:30:00Z")}); err == nil {
		t.Error("Freeze with a key that cannot be kept gave no error")
	}
}
