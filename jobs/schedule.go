package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"madeira/jobs/calendar"
)

// schedule reads the zone, the period and the entries of the schedule.
func (c *checker) schedule() {
	c.job.Location = time.UTC
	if name := text(c.root, "timezone"); name != "" {
		// Where there is no such zone the entries are read all the same, so that what is
		// wrong in them is said at once.
		if loc, err := c.lib.zone(name); err == nil {
			c.job.Location = loc
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
	r := scheduleReader{checker: c, seen: map[string]bool{}, warned: map[*calendar.Calendar]bool{}}
	r.usual = r.named(c.root, "")
	for i, v := range entries {
		if m, ok := v.(map[string]any); ok {
			r.entry(m, element("/schedule", i))
		}
	}
}

// A scheduleReader reads the entries of one schedule.
type scheduleReader struct {
	*checker

	usual  naming                      // the job's calendar
	seen   map[string]bool             // names of entries
	warned map[*calendar.Calendar]bool // of which was said that they end soon
}

// A naming is what a calendar key names. Its zero value names nothing.
type naming struct {
	at    string             // pointer of the key; "" when there is none
	cal   *calendar.Calendar // nil when there is none, or a problem
	files []*calendarFile
}

// named returns the calendar that a job or an entry names, several as one.
func (r *scheduleReader) named(m map[string]any, pointer string) naming {
	v, ok := m["calendar"]
	if !ok {
		return naming{}
	}
	n := naming{at: child(pointer, "calendar")}
	at := map[string]string{} // pointers by name
	switch v := v.(type) {
	case string:
		at[v] = n.at
	case []any:
		for i, item := range v {
			if name, ok := item.(string); ok {
				at[name] = element(n.at, i)
			}
		}
	}
	var all []*calendar.Calendar
	for _, name := range keys(at) {
		if !plainName.MatchString(name) {
			continue // the schema has said so
		}
		f, tried := r.lib.shelf.calendar(name, r.doc.File, r.env)
		switch {
		case f == nil:
			r.add(unknownCalendar(r.doc, at[name], name, tried, r.env))
		case f.cal == nil:
			r.problems = append(r.problems, f.problems...)
			r.add(r.doc.Problem(at[name], "calendar.invalid", "the calendar %q has problems", name))
		default:
			all, n.files = append(all, f.cal), append(n.files, f)
		}
	}
	if len(all) > 0 && len(all) == len(at) {
		n.cal = calendar.Combine(all...)
	}
	return n
}

// entry reads one line of the schedule.
func (r *scheduleReader) entry(m map[string]any, pointer string) {
	n := r.usual
	if _, own := m["calendar"]; own {
		n = r.named(m, pointer)
	}
	e := Entry{Catchup: Catchup(text(m, "catchup"))}
	if e.Catchup == "" {
		e.Catchup = CatchupLatest
		if r.job.Period != nil {
			e.Catchup = CatchupAll
		}
	}
	e.Window, _ = ParseDuration(text(m, "catchup_window"))
	e.Jitter, _ = ParseDuration(text(m, "jitter"))
	key, ok := r.timetable(&e, m, pointer, n)
	if !ok {
		return
	}
	at := child(pointer, key)
	if r.seen[e.Name] {
		r.add(r.doc.Problem(at, "schedule.duplicate", "%s %s is in the schedule twice; remove one", key, shorten(shownAs(m[key]))))
		return
	}
	r.seen[e.Name] = true
	today := r.env.Today.In(r.job.Location)
	due, err := e.Schedule.Next(today)
	var missing *calendar.YearError
	switch {
	case errors.As(err, &missing):
		p := r.doc.Problem(at, "calendar.year", "cannot tell when it is due next: %v", err)
		if !r.env.Strict {
			p.Severity = SeverityWarning
			r.job.Schedule = append(r.job.Schedule, e)
		}
		r.add(p)
		return
	case err != nil:
		r.add(r.doc.Problem(at, specCode(err), "%v", err))
		return
	case due.IsZero():
		r.add(r.doc.Problem(at, calendar.CodeNeverFires, "%s %s never fires after %s", key, shorten(shownAs(m[key])), r.env.Today.Format(time.DateOnly)))
		return
	}
	if key == "business_day" || m["roll"] != nil {
		r.ending(n, today)
		r.straying(e.Schedule, at, today)
	}
	r.job.Schedule = append(r.job.Schedule, e)
}

// shownAs writes the value of a cron or business_day key.
func shownAs(v any) string {
	if n, ok := v.(json.Number); ok {
		return n.String()
	}
	s, _ := v.(string)
	return fmt.Sprintf("%q", strings.Join(strings.Fields(s), " "))
}

// timetable reads what makes the instants of an entry, and its name, which is made
// of the same. Key is the one that says which kind it is; ok is false where there
// is a problem.
func (r *scheduleReader) timetable(e *Entry, m map[string]any, pointer string, n naming) (key string, ok bool) {
	spec := strings.Join(strings.Fields(text(m, "cron")), " ")
	roll := calendar.Roll(text(m, "roll"))
	day, byDay := m["business_day"].(json.Number)
	switch {
	case spec == "" && !byDay:
		return "", false // the schema has said so
	case spec != "" && m["business_day"] != nil:
		r.unreadable(text(m, "cron"), pointer)
		return "", false // the schema has said so
	case byDay:
		key = "business_day"
	case roll != "":
		key = "roll"
	default:
		key = "cron"
	}
	if key != "cron" && n.cal == nil {
		if n.at == "" {
			r.add(r.doc.keyProblem(child(pointer, key), "schedule.calendar", "%s needs a calendar, here or for the job, such as calendar: cn; calendar: weekdays knows Monday to Friday and no holiday", key))
		}
		if spec != "" {
			r.unreadable(text(m, "cron"), pointer)
		}
		return "", false
	}
	zone := r.job.Location.String()
	var err error
	switch key {
	case "business_day":
		at := timesOf(m["at"])
		e.Name = fmt.Sprintf("business_day %s %s %s %s", day, strings.Join(at, ","), zone, n.cal.Name())
		e.Schedule, err = calendar.NewBusinessDay(int(integerOf(day)), at, r.job.Location, n.cal)
	case "roll":
		key = "cron"
		e.Name = fmt.Sprintf("%s %s roll=%s %s", spec, zone, roll, n.cal.Name())
		e.Schedule, err = calendar.NewRolled(spec, r.job.Location, n.cal, roll)
	default:
		e.Name = spec + " " + zone
		e.Schedule, err = r.cron(spec)
	}
	if err == nil {
		return key, true
	}
	var wrong *calendar.SpecError
	if errors.As(err, &wrong) && slices.Contains([]string{"at", "business_day", "roll"}, wrong.Field) {
		return "", false // the schema has said so
	}
	r.specProblems(err, text(m, key), child(pointer, key))
	return "", false
}

// unreadable reports what cannot be read in the expression of an entry that is no
// timetable for another reason.
func (r *scheduleReader) unreadable(spec, pointer string) {
	if _, err := r.cron(strings.Join(strings.Fields(spec), " ")); err != nil {
		r.specProblems(err, spec, child(pointer, "cron"))
	}
}

// specProblems reports each field of an expression that cannot be read, where it
// stands in the text.
func (r *scheduleReader) specProblems(err error, written, at string) {
	all := calendar.SpecErrors(err)
	if len(all) == 0 {
		p := r.doc.Problem(at, specCode(err), "%v", err)
		p.Value = shorten(written)
		r.add(p)
	}
	for _, one := range all {
		p := r.doc.Problem(at, one.Code, "%v", one)
		if one.Number > 0 {
			p.Line, p.Column = r.doc.inside(at, written, fieldAt(written, one.Number))
		}
		p.Value = shorten(strings.Join(strings.Fields(written), " "))
		r.add(p)
	}
}

// fieldAt returns the offset of a field of an expression, counted from 1.
func fieldAt(spec string, number int) int {
	rest := spec
	for range number - 1 {
		rest = strings.TrimLeftFunc(rest, unicode.IsSpace)
		rest = rest[max(strings.IndexFunc(rest, unicode.IsSpace), 0):]
	}
	return len(spec) - len(strings.TrimLeftFunc(rest, unicode.IsSpace))
}

// timesOf returns the times of day of an at key, in order, each once.
func timesOf(v any) []string {
	var times []string
	switch v := v.(type) {
	case string:
		times = append(times, v)
	case []any:
		for _, item := range v {
			if t, ok := item.(string); ok {
				times = append(times, t)
			}
		}
	}
	slices.Sort(times)
	return slices.Compact(times)
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

func specCode(err error) string {
	var spec *calendar.SpecError
	if errors.As(err, &spec) {
		return spec.Code
	}
	return calendar.CodeCron
}

// ending warns of calendars whose data ends soon: in their file, or where a shipped
// one is named.
func (r *scheduleReader) ending(n naming, today time.Time) {
	for _, leaf := range n.cal.Leaves() {
		year, ends := endsSoon(leaf, today)
		if !ends || r.warned[leaf] {
			continue
		}
		r.warned[leaf] = true
		if f := r.lib.shelf.of(leaf); f != nil {
			r.problems = append(r.problems, f.ends(year))
			continue
		}
		p := r.doc.Problem(n.at, "calendar.ends", "the calendar %q that Madeira ships has no data after %d, and what is due from then on is an error; take a newer Madeira, or copy it to calendars/%s.yaml and add %d as soon as it is published", leaf.Name(), year, leaf.Name(), year+1)
		p.Severity = SeverityWarning
		r.add(p)
	}
}

// of returns the file that a calendar is from; nil for one that Madeira ships.
func (s *shelf) of(c *calendar.Calendar) *calendarFile {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files[c.Data().File]
}

// strays is how many due times are looked at for straying.
const strays = 36

// straying warns where a day rolls out of the period that its run should be about:
// the end of a month to the next one with of: current, its beginning to the one
// before with of: previous.
func (r *scheduleReader) straying(s Schedule, at string, today time.Time) {
	t, ok := s.(calendar.Timetable)
	if !ok || r.job.Period == nil || r.job.Period.Every == calendar.Day {
		return
	}
	for range strays {
		due, err := t.Next(today)
		if err != nil || due.IsZero() {
			return
		}
		today = due.At
		from, rolled := t.RolledFrom(due.At)
		if !rolled {
			continue
		}
		meant, err := r.job.Period.At(from, r.job.Location)
		got, err2 := r.job.Period.At(due.At, r.job.Location)
		if err == nil && err2 == nil && meant.Label != got.Label {
			p := r.doc.Problem(at, "schedule.strays", "rolling leaves the period: what is due on %s stands for %s, and its run would be about %s instead of %s; roll the other way, or count business days with business_day", due.At.In(r.job.Location).Format(time.DateOnly), from.Format(time.DateOnly), got.Label, meant.Label)
			p.Severity = SeverityWarning
			r.add(p)
			return
		}
	}
}
