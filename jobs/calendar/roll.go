package calendar

import (
	"fmt"
	"time"
)

// Roll says what becomes of a day of a cron expression that is no business day.
type Roll string

// The ways.
const (
	RollSkip     Roll = "skip"     // it is skipped
	RollNext     Roll = "next"     // the next business day takes its place
	RollPrevious Roll = "previous" // the one before takes its place
)

// skippedDays are those of a cron expression, of which only business days are due.
type skippedDays struct {
	cron *cronDays
	cal  *Calendar
}

func (r skippedDays) in(m month) verdict {
	fit := r.cron.of(m)
	if fit == 0 {
		return verdict{}
	}
	business, err := r.cal.business(m)
	if err != nil {
		return verdict{unknown: fit, err: err}
	}
	return verdict{due: fit & business, skipped: fit &^ business}
}

func (r skippedDays) why(m month, day int) string {
	if business, err := r.cal.business(m); err != nil || business.has(day) {
		return ""
	}
	return r.cal.whyOff(m.date(day))
}

// rolledDays are those of a cron expression, each moved to the nearest business
// day in a direction.
type rolledDays struct {
	cron *cronDays
	cal  *Calendar
	step int // 1: to the next one; -1: to the one before
}

// maxClosed is how many months without a business day are looked through.
const maxClosed = 12

func (r rolledDays) in(m month) verdict {
	fit := r.cron.of(m)
	business, err := r.cal.business(m)
	if err != nil {
		if fit == 0 && !r.waiting(m) {
			return verdict{}
		}
		return verdict{unknown: m.all(), err: err}
	}
	var v verdict
	pending, asked := false, false
	day, end := 1, m.length()+1
	if r.step < 0 {
		day, end = m.length(), 0
	}
	for ; day != end; day += r.step {
		pending = pending || fit.has(day)
		if !business.has(day) {
			continue
		}
		if !pending && !asked {
			pending, err = r.carried(m)
		}
		switch {
		case pending:
			v.due |= 1 << day
		case err != nil:
			v.unknown, v.err = 1<<day, err
		}
		pending, asked, err = false, true, nil
	}
	return v
}

// carried reports whether days of the months before (or behind, when days roll
// back) wait for the first business day of a month.
func (r rolledDays) carried(m month) (bool, error) {
	for range maxClosed {
		m -= month(r.step)
		fit := r.cron.of(m)
		business, err := r.cal.business(m)
		if err != nil {
			if fit != 0 {
				return false, err
			}
			return false, nil
		}
		closed := m.all()
		switch {
		case business == 0:
		case r.step > 0:
			closed = closed.from(business.last() + 1)
		default:
			closed &^= closed.from(business.first())
		}
		if fit&closed != 0 {
			return true, nil
		}
		if business != 0 {
			return false, nil
		}
	}
	return false, nil
}

// waiting reports whether days of the months around may roll into a month that
// the calendar knows nothing of.
func (r rolledDays) waiting(m month) bool {
	waits, err := r.carried(m)
	return waits || err != nil
}

// why returns which days rolled to a day.
func (r rolledDays) why(m month, day int) string {
	first, count := r.origin(m, day)
	if count == 0 {
		return ""
	}
	verb := "rolled, since"
	if r.cron.of(m).has(day) {
		verb = "due for itself and rolled, since"
	}
	note := verb + " " + r.cal.whyOff(first)
	if count > 1 {
		note += fmt.Sprintf(" (and %d more)", count-1)
	}
	return note
}

// origin returns the farthest of the days that rolled to a day, and how many there are.
func (r rolledDays) origin(m month, day int) (farthest Date, count int) {
	at := m.date(day).Time()
	for range 31 * maxClosed {
		at = at.AddDate(0, 0, -r.step)
		from := Date{at.Year(), at.Month(), at.Day()}
		business, err := r.cal.business(from.month())
		if err != nil || business.has(from.Day) {
			break
		}
		if r.cron.of(from.month()).has(from.Day) {
			farthest = from
			count++
		}
	}
	return farthest, count
}

// nthDays are each month's n-th business day, counted from the end when n is
// negative. A month with fewer has its last day skipped.
type nthDays struct {
	n   int
	cal *Calendar
}

func (r nthDays) in(m month) verdict {
	business, err := r.cal.business(m)
	if err != nil {
		return verdict{unknown: m.all(), err: err}
	}
	n := r.n
	if n < 0 {
		n += business.count() + 1
	}
	if n < 1 || n > business.count() {
		return verdict{skipped: 1 << m.length()}
	}
	for range n - 1 {
		business &= business - 1
	}
	return verdict{due: business & -business}
}

func (r nthDays) why(m month, _ int) string {
	business, err := r.cal.business(m)
	n := max(r.n, -r.n)
	if err != nil || business.count() >= n {
		return ""
	}
	return fmt.Sprintf("%s has %s in %s, and the schedule asks for business day %d", m, plural(business.count(), "business day"), r.cal.Name(), r.n)
}

// maxBusinessDay is how many business days a month has at most, when the weekend
// has two days.
const maxBusinessDay = 23

// plural returns "1 day" or "2 days".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// NewRolled reads a cron expression as NewTimetable does. Its days that are no
// business days of the calendar are skipped, or moved to a business day at the
// same time of day. Times that move to the same instant are due once. Moving is in
// days of the zone; clocks that change come after it.
func NewRolled(spec string, loc *time.Location, cal *Calendar, roll Roll) (Timetable, error) {
	c, err := parseCron(spec)
	if err != nil {
		return Timetable{}, err
	}
	t := Timetable{clock: c.clock, loc: loc, anyHour: c.anyHour}
	switch roll {
	case RollSkip:
		t.days = skippedDays{&c.days, cal}
	case RollNext:
		t.days = rolledDays{&c.days, cal, 1}
	case RollPrevious:
		t.days = rolledDays{&c.days, cal, -1}
	default:
		return Timetable{}, &SpecError{Code: CodeCron, Field: "roll", Message: fmt.Sprintf("there is no roll %q; there is %s, %s and %s", roll, RollSkip, RollNext, RollPrevious)}
	}
	return t, nil
}

// NewBusinessDay returns the due times of each month's n-th business day, -1 for
// the last one, at times of day such as 10:30. A month that has fewer business days
// is skipped: its due times are those of its last day.
func NewBusinessDay(n int, at []string, loc *time.Location, cal *Calendar) (Timetable, error) {
	if n == 0 || n < -maxBusinessDay || n > maxBusinessDay {
		return Timetable{}, &SpecError{Code: CodeBusinessDay, Field: "business_day",
			Message: fmt.Sprintf("there is no business day %d; write 1 to %d, or -1 to -%d counted from the end of the month", n, maxBusinessDay, maxBusinessDay)}
	}
	times, err := parseTimes(at)
	if err != nil {
		return Timetable{}, err
	}
	return Timetable{days: nthDays{n, cal}, clock: times, loc: loc}, nil
}

// RolledTo returns the day that one of the schedule's own days is moved to, and why;
// false when it is not moved.
func (t Timetable) RolledTo(day Date) (to Date, why string, moved bool) {
	r, ok := t.days.(rolledDays)
	if !ok || !r.cron.of(day.month()).has(day.Day) {
		return Date{}, "", false
	}
	at := day.Time()
	for range 31 * maxClosed {
		to = Date{at.Year(), at.Month(), at.Day()}
		business, err := r.cal.business(to.month())
		if err != nil {
			return Date{}, "", false
		}
		if business.has(to.Day) {
			return to, r.cal.whyOff(day), to != day
		}
		at = at.AddDate(0, 0, r.step)
	}
	return Date{}, "", false
}

// RolledFrom returns midnight of the day that a due time was rolled from, of several
// the farthest; false when its own day is one of the schedule, or it has none to roll.
func (t Timetable) RolledFrom(due time.Time) (time.Time, bool) {
	r, ok := t.days.(rolledDays)
	if !ok {
		return time.Time{}, false
	}
	at := DateOf(due, t.loc)
	if r.cron.of(at.month()).has(at.Day) {
		return time.Time{}, false
	}
	first, count := r.origin(at.month(), at.Day)
	return firstAt(first.Time(), t.loc), count > 0
}
