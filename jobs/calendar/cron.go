package calendar

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// The codes of a SpecError.
const (
	CodeCron        = "schedule.cron"         // the expression cannot be read
	CodeNeverFires  = "schedule.never_fires"  // no day fits it, such as the 30th of February
	CodeAt          = "schedule.at"           // a time of day cannot be read
	CodeBusinessDay = "schedule.business_day" // there is no such business day
)

// A SpecError says which field of a cron expression, or which setting of an entry,
// is wrong.
type SpecError struct {
	Code    string
	Field   string // "minute", "hour", "day of month", "month", "day of week", "at" or "business_day"; "" for the whole
	Number  int    // of a field of a cron expression that cannot be read, counted from 1; 0 for anything else
	Message string
}

// Error returns the message.
func (e *SpecError) Error() string { return e.Message }

// SpecErrors returns each *SpecError that an error of a timetable is made of, in
// the order of the fields; nil when it is another error.
func SpecErrors(err error) []*SpecError {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*SpecError
		for _, one := range joined.Unwrap() {
			all = append(all, SpecErrors(one)...)
		}
		return all
	}
	var one *SpecError
	if !errors.As(err, &one) {
		return nil
	}
	return []*SpecError{one}
}

// A cronSpec is a cron expression that was read.
type cronSpec struct {
	days    cronDays
	clock   clock
	anyHour bool // the hour field begins with "*"
}

// parseCron reads five fields: minute, hour, day of month, month and day of week.
// The error is a *SpecError, or joins one for each field that cannot be read.
func parseCron(spec string) (cronSpec, error) {
	fields, err := split(spec)
	if err != nil {
		return cronSpec{}, err
	}
	var c cronSpec
	plain, err := c.days.takeDays(fields)
	if err != nil {
		return cronSpec{}, err
	}
	parsed, cause := parseFields(plain)
	if cause != nil {
		return cronSpec{}, &SpecError{Code: CodeCron, Message: fmt.Sprintf("read cron %q: %v", spec, cause)}
	}
	c.clock = clock{hours: uint32(parsed.Hour), minutes: parsed.Minute &^ star}
	c.anyHour = strings.HasPrefix(fields[1], "*")
	c.days.months = uint16(parsed.Month)
	if plain[2] != "" {
		c.days.ofMonth, c.days.anyOfMonth = days(parsed.Dom), parsed.Dom&star != 0
	}
	if plain[4] != "" {
		c.days.ofWeek, c.days.anyOfWeek = weekdaySet(parsed.Dow), parsed.Dow&star != 0
	}
	if !c.days.ever() {
		return cronSpec{}, &SpecError{Code: CodeNeverFires, Field: "day of month",
			Message: fmt.Sprintf("cron %q never fires: no %s has a day %s", spec, monthWords(fields[3]), fields[2])}
	}
	return c, nil
}

// star marks a field of the parser's that begins with "*" and has no step.
const star = 1 << 63

func monthWords(field string) string {
	if strings.HasPrefix(field, "*") {
		return "month"
	}
	return "month " + field
}

// split cuts an expression into its five fields.
func split(spec string) ([5]string, error) {
	fail := func(format string, args ...any) ([5]string, error) {
		return [5]string{}, &SpecError{Code: CodeCron, Message: fmt.Sprintf("read cron %q: ", spec) + fmt.Sprintf(format, args...)}
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
	return [5]string(fields), nil
}

// fieldNames and fieldForms are in the order of the fields.
var (
	fieldNames = [5]string{"minute", "hour", "day of month", "month", "day of week"}
	fieldForms = [5]string{"0 to 59", "0 to 23", "1 to 31, L (the last day), L-2 (two days before it), LW (the last weekday)", "1 to 12 or jan to dec",
		"0 (Sunday) to 6 or sun to sat, 7 (Sunday too), 5#3 (the third Friday), 5L (the last Friday)"}
)

// fieldError says what is wrong with a field.
func fieldError(i int, field, cause string) error {
	return &SpecError{Code: CodeCron, Field: fieldNames[i], Number: i + 1,
		Message: fmt.Sprintf("the %s %q cannot be read: %s; it takes %s, lists, ranges and steps", fieldNames[i], field, cause, fieldForms[i])}
}

// checkField reads the plain part of one field alone, so that an error can name
// the field as it is written.
func checkField(i int, plain, written string) error {
	alone := [5]string{"*", "*", "*", "*", "*"}
	if plain != "" {
		alone[i] = plain
	}
	switch _, err := parseFields(alone); {
	case strings.Contains(","+written+",", ",,"):
		return fieldError(i, written, "an element of the list is empty")
	case strings.Contains(written, "?"):
		return fieldError(i, written, "write * for any")
	case err != nil:
		return fieldError(i, written, plainCause(err.Error()))
	}
	return nil
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

// parseFields calls the parser, whose panics are errors of the expression. An
// empty field stands for any.
func parseFields(fields [5]string) (s *cron.SpecSchedule, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	for i, f := range fields {
		if f == "" {
			fields[i] = "*"
		}
	}
	parsed, err := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(strings.Join(fields[:], " "))
	if err != nil {
		return nil, err
	}
	s, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("it is not made of fields")
	}
	return s, nil
}

var (
	lastDay    = regexp.MustCompile(`(?i)^L(?:-([0-9]+))?$`)
	anyWeekday = `([0-7]|sun|mon|tue|wed|thu|fri|sat)`
	nthDay     = regexp.MustCompile(`(?i)^` + anyWeekday + `(?:#([0-9]+)|(L))$`)
	toSunday   = regexp.MustCompile(`(?i)^` + anyWeekday + `-(?:7|sun)(?:/([0-9]+))?$`)
)

// takeDays reads the days that the parser does not know, and returns the fields
// without them. The error joins that of each field that cannot be read, so that
// they can be set right at once.
func (c *cronDays) takeDays(fields [5]string) ([5]string, error) {
	plain := fields
	var errs [5]error
	plain[2], errs[2] = c.takeDaysOfMonth(fields[2])
	plain[4], errs[4] = c.takeDaysOfWeek(fields[4])
	for i, field := range plain {
		if errs[i] == nil {
			errs[i] = checkField(i, field, fields[i])
		}
	}
	return plain, errors.Join(errs[:]...)
}

// takeDaysOfMonth reads the elements of a field that the parser does not know, and
// returns the others; "" when there are none.
func (c *cronDays) takeDaysOfMonth(field string) (string, error) {
	var rest []string
	for element := range strings.SplitSeq(field, ",") {
		match := lastDay.FindStringSubmatch(element)
		switch {
		case strings.EqualFold(element, "LW"):
			c.lastWeekday = true
		case match != nil:
			before, err := strconv.Atoi("0" + match[1])
			if err != nil || before > 30 || match[1] != "" && before == 0 {
				return "", fieldError(2, field, fmt.Sprintf("%s days before the last one is not 1 to 30", match[1]))
			}
			c.beforeLast |= 1 << before
		case strings.HasSuffix(strings.ToUpper(element), "W"):
			return "", fieldError(2, field, "of weekdays there is LW only, the last one of the month")
		default:
			rest = append(rest, element)
		}
	}
	return strings.Join(rest, ","), nil
}

// takeDaysOfWeek does the same for days of the week, and writes 7 the way the
// parser knows it.
func (c *cronDays) takeDaysOfWeek(field string) (string, error) {
	var rest []string
	for element := range strings.SplitSeq(field, ",") {
		if match := nthDay.FindStringSubmatch(element); match != nil {
			day := weekdayNamed(match[1])
			if match[3] != "" {
				c.lastOfWeek |= 1 << day
				continue
			}
			n, err := strconv.Atoi(match[2])
			if err != nil || n < 1 || n > 5 {
				return "", fieldError(4, field, fmt.Sprintf("behind # stands which one of the month, 1 to 5, not %s", match[2]))
			}
			c.nthOfWeek[n-1] |= 1 << day
			continue
		}
		switch match := toSunday.FindStringSubmatch(element); {
		case strings.EqualFold(element, "L"):
			return "", fieldError(4, field, "L alone is no day of the week; write 5L for the last Friday")
		case element == "7":
			rest = append(rest, "0")
		case match != nil && weekdayNamed(match[1]) != 0:
			rest = append(rest, rangeToSunday(int(weekdayNamed(match[1])), match[2]))
		case match != nil && match[1] == "7":
			rest = append(rest, "0")
		case match != nil && strings.Contains(element, "-7"):
			rest = append(rest, rangeToSunday(0, match[2]))
		default:
			rest = append(rest, element)
		}
	}
	return strings.Join(rest, ","), nil
}

// weekdayNamed reads a day that the pattern has let through.
func weekdayNamed(name string) time.Weekday {
	for d := time.Sunday; d <= time.Saturday; d++ {
		if strings.EqualFold(name, d.String()[:3]) || name == strconv.Itoa(int(d)) {
			return d
		}
	}
	return time.Sunday // 7
}

// rangeToSunday lists the days from one to the Sunday after it. A step that cannot
// be read is left to the parser.
func rangeToSunday(from int, step string) string {
	by, err := strconv.Atoi(step)
	if step == "" {
		by, err = 1, nil
	}
	if err != nil || by < 1 {
		return fmt.Sprintf("%d-6/%s", from, step)
	}
	var list []string
	for d := from; d <= 7; d += by {
		list = append(list, strconv.Itoa(d%7))
	}
	return strings.Join(list, ",")
}
