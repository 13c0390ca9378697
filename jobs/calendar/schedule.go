package calendar

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// The codes of a SpecError.
const (
	CodeCron       = "schedule.cron"        // the expression cannot be read
	CodeNeverFires = "schedule.never_fires" // no day fits it, such as the 30th of February
)

// A SpecError says which field of a cron expression is wrong.
type SpecError struct {
	Code    string
	Field   string // "minute", "hour", "day of month", "month" or "day of week"; "" for the whole
	Message string
}

// Error returns the message.
func (e *SpecError) Error() string { return e.Message }

// A Schedule yields the due times of a cron expression in a zone.
//
// A time of day that a day does not have, because clocks are put forward, is due
// at the first instant after the gap; one that a day has twice is due the first
// time. Both hold only where the hours are named: where the hour field begins
// with "*", every instant is due at which the clock shows a fitting time.
type Schedule struct {
	spec     cron.Schedule // over walls
	loc      *time.Location
	anyHour  bool
	notEmpty bool
}

// NewSchedule reads five fields: minute, hour, day of month, month and day of
// week. Where both kinds of days are restricted, either may fit, as in every
// cron. The error is a *SpecError.
func NewSchedule(spec string, loc *time.Location) (Schedule, error) {
	fields, err := split(spec)
	if err != nil {
		return Schedule{}, err
	}
	for i, f := range fields {
		if err := checkField(i, f); err != nil {
			return Schedule{}, err
		}
	}
	parsed, cause := parseFields(strings.Join(fields, " "))
	if cause != nil {
		return Schedule{}, &SpecError{Code: CodeCron, Message: fmt.Sprintf("read cron %q: %v", spec, cause)}
	}
	s := Schedule{spec: parsed, loc: loc, anyHour: strings.HasPrefix(fields[1], "*"), notEmpty: true}
	if s.nextWall(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return Schedule{}, &SpecError{Code: CodeNeverFires, Field: "day of month",
			Message: fmt.Sprintf("cron %q never fires: no %s has a day %s", spec, monthWords(fields[3]), fields[2])}
	}
	return s, nil
}

func monthWords(field string) string {
	if strings.HasPrefix(field, "*") {
		return "month"
	}
	return "month " + field
}

// split cuts an expression into its five fields.
func split(spec string) ([]string, error) {
	fail := func(format string, args ...any) ([]string, error) {
		return nil, &SpecError{Code: CodeCron, Message: fmt.Sprintf("read cron %q: ", spec) + fmt.Sprintf(format, args...)}
	}
	fields := strings.Fields(spec)
	switch {
	case strings.HasPrefix(spec, "TZ=") || strings.HasPrefix(spec, "CRON_TZ="):
		return fail("the zone is set with timezone, not in the expression")
	case strings.HasPrefix(strings.TrimSpace(spec), "@every"):
		return fail("@every has no fixed instants; write five fields, such as */15 * * * *")
	case strings.HasPrefix(strings.TrimSpace(spec), "@"):
		return fail("write five fields: minute, hour, day of month, month, day of week, such as 0 0 * * *")
	case len(fields) == 6:
		return fail("there are six fields; seconds are not part of a schedule, five fields are: minute, hour, day of month, month, day of week")
	case len(fields) != len(fieldNames):
		return fail("five fields are needed, and there are %d: minute, hour, day of month, month, day of week", len(fields))
	}
	return fields, nil
}

// fieldNames and fieldForms are in the order of the fields.
var (
	fieldNames = [5]string{"minute", "hour", "day of month", "month", "day of week"}
	fieldForms = [5]string{"0 to 59", "0 to 23", "1 to 31", "1 to 12 or jan to dec", "0 (Sunday) to 6 or sun to sat"}
)

// checkField reads one field alone, so that an error can name it.
func checkField(i int, field string) error {
	var cause string
	alone := [5]string{"*", "*", "*", "*", "*"}
	alone[i] = field
	switch _, err := parseFields(strings.Join(alone[:], " ")); {
	case strings.Contains(","+field+",", ",,"):
		cause = "an element of the list is empty"
	case strings.Contains(field, "?"):
		cause = "write * for any"
	case err != nil:
		cause = plainCause(err.Error())
	default:
		return nil
	}
	return &SpecError{Code: CodeCron, Field: fieldNames[i],
		Message: fmt.Sprintf("the %s %q cannot be read: %s; it takes %s, lists, ranges and steps", fieldNames[i], field, cause, fieldForms[i])}
}

// plainCause keeps of the parser's words what a person needs.
func plainCause(message string) string {
	if rest, ok := strings.CutPrefix(message, "failed to parse int from "); ok {
		element, _, _ := strings.Cut(rest, ":")
		return fmt.Sprintf("%q is not a number", element)
	}
	if i := strings.LastIndex(message, ": "); i > 0 {
		message = message[:i] // the element, which is quoted already
	}
	return message
}

// parseFields calls the parser, whose panics are errors of the expression.
func parseFields(spec string) (s cron.Schedule, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	parsed, err := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(spec)
	if err != nil {
		return nil, err
	}
	overWalls, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("it is not made of fields")
	}
	overWalls.Location = time.UTC
	return overWalls, nil
}

// Next returns the first due time after t, in t's location, or the zero time
// when there is none.
func (s Schedule) Next(t time.Time) time.Time {
	if !s.notEmpty {
		return time.Time{}
	}
	next := s.nextNamed(t)
	if s.anyHour {
		next = s.nextShown(t)
	}
	if next.IsZero() {
		return next
	}
	return next.In(t.Location())
}

// nextNamed goes through the walls that fit, each of which is due once.
func (s Schedule) nextNamed(t time.Time) time.Time {
	for wall := s.nextWall(wallOf(t, s.loc)); !wall.IsZero(); wall = s.nextWall(wall) {
		if at := firstAt(wall, s.loc); at.After(t) {
			return at
		}
	}
	return time.Time{}
}

// nextShown goes through the stretches between changes of the clock and looks in
// each for the first fitting wall that it really shows.
func (s Schedule) nextShown(t time.Time) time.Time {
	offset, end := segment(t, s.loc)
	wall := t.UTC().Add(offset)
	for {
		wall = s.nextWall(wall)
		if wall.IsZero() {
			return wall
		}
		if at := wall.Add(-offset); end.IsZero() || at.Before(end) {
			return at
		}
		from := end
		offset, end = segment(from, s.loc)
		wall = from.Add(offset - time.Nanosecond) // the first wall of the stretch may fit itself
	}
}

// nextWall returns the first fitting wall after one. The parser's schedule gives
// up after five years, and a 29th of February can be eight years away.
func (s Schedule) nextWall(wall time.Time) time.Time {
	for range 3 {
		if next := s.spec.Next(wall); !next.IsZero() {
			return next
		}
		wall = time.Date(wall.Year()+5, 1, 1, 0, 0, 0, 0, time.UTC).Add(-time.Second)
	}
	return time.Time{}
}
