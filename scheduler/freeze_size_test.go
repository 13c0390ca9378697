package scheduler

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"madeira/jobs"
)

// tower is a job that calls another one in each of its steps, and so on; the lowest
// has that many steps of its own.
func tower(levels, steps, source int) *jobs.Job {
	job := &jobs.Job{Name: fmt.Sprintf("j%d", levels), Path: "/srv/j.yaml", Source: []byte(strings.Repeat("#", source))}
	var below *jobs.Job
	if levels > 1 {
		below = tower(levels-1, steps, source)
	}
	for i := range steps {
		s := jobs.Step{ID: fmt.Sprintf("s%d", i), Uses: "command"}
		if below != nil {
			s.Uses, s.Call = "job", &jobs.Call{Job: below}
		}
		job.Steps = append(job.Steps, s)
	}
	return job
}

func TestFreeze_RefusesMoreThanARunCanHold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		levels, steps, source int
		want                  string // "": it can be frozen
	}{
		{3, 8, 10, ""},
		{9, 8, 10, "bytes of JSON where a step may have"},
		{2, 101, 10, "10000 steps"},
		{5, 5, 8000, "bytes of JSON where a step may have"},
		{2, 99, 700 << 10, "more than 67108864 bytes of JSON"},
	} {
		start := time.Now()
		_, err := Freeze(tower(c.levels, c.steps, c.source), Request{DueAt: at(t, "2026-11-05T02:30:00Z")})
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%+v takes %s", c, took)
		}
		var bad *RequestError
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%+v gives %v", c, err)
		case c.want != "" && (!errors.As(err, &bad) || bad.Field != "steps" || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%+v gives %v, want a RequestError with %q", c, err, c.want)
		}
	}
}
