package jobs

import (
	"errors"
	"strings"
	"time"

	"madeira/jobs/calendar"
)

// schedule reads the zone, the period and the entries of the schedule.
func (c *checker) schedule() {
	c.job.Location = time.UTC
	zoneKnown := true
	if name := text(c.root, "timezone"); name != "" {
		if loc, err := calendar.LoadZone(name); err == nil {
			c.job.Location = loc
		} else {
			zoneKnown = false
		}
	}
	if m, ok := c.root["period"].(map[string]any); ok {
		c.job.Period = &calendar.Rule{Every: calendar.Unit(text(m, "every")), Of: calendar.Of(text(m, "of"))}
		if c.job.Period.Of == "" {
			c.job.Period.Of = calendar.Previous
		}
	}
	entries := list(c.root, "schedule")
	if _, ok := c.root["timezone"]; !ok && len(entries) > 0 {
		c.add(c.doc.keyProblem("/schedule", "schedule.timezone", "a schedule needs a time zone; add timezone, such as timezone: Asia/Shanghai"))
	}
	seen := map[string]bool{}
	for i, v := range entries {
		if m, ok := v.(map[string]any); ok && zoneKnown {
			c.entry(m, element("/schedule", i), seen)
		}
	}
}

// entry reads one line of the schedule.
func (c *checker) entry(m map[string]any, pointer string, seen map[string]bool) {
	spec := strings.Join(strings.Fields(text(m, "cron")), " ")
	if spec == "" {
		return // the schema has said so
	}
	e := Entry{Name: spec + " " + c.job.Location.String(), Catchup: Catchup(text(m, "catchup"))}
	at := child(pointer, "cron")
	if seen[e.Name] {
		c.add(c.doc.Problem(at, "schedule.duplicate", "cron %q is in the schedule twice; remove one", shorten(spec)))
		return
	}
	seen[e.Name] = true
	if e.Catchup == "" {
		e.Catchup = CatchupLatest
		if c.job.Period != nil {
			e.Catchup = CatchupAll
		}
	}
	e.Window, _ = ParseDuration(text(m, "catchup_window"))
	var err error
	if e.Schedule, err = c.cron(spec); err != nil {
		p := c.doc.Problem(at, cronCode(err), "%v", err)
		p.Value = shorten(spec)
		c.add(p)
		return
	}
	due, err := e.Schedule.Next(c.env.Today.In(c.job.Location))
	if err != nil {
		c.add(c.doc.Problem(at, cronCode(err), "%v", err))
		return
	}
	if due.IsZero() {
		c.add(c.doc.Problem(at, calendar.CodeNeverFires, "cron %q never fires after %s", shorten(spec), c.env.Today.Format(time.DateOnly)))
		return
	}
	c.job.Schedule = append(c.job.Schedule, e)
}

// cron reads a cron expression.
func (c *checker) cron(spec string) (Schedule, error) {
	if c.env.Cron != nil {
		return c.env.Cron(spec, c.job.Location)
	}
	s, err := calendar.NewTimetable(spec, c.job.Location)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func cronCode(err error) string {
	var spec *calendar.SpecError
	if errors.As(err, &spec) {
		return spec.Code
	}
	return calendar.CodeCron
}
