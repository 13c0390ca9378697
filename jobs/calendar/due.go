package calendar

import (
	"fmt"
	"strings"
	"time"
)

// A Due is one due time of a schedule. The zero value is none.
type Due struct {
	At      time.Time // in the location of the instant it was asked with
	Skipped string    // why it makes no run, such as "2026-10-01 is no business day in cn: National Day"; "" where it makes one
	Note    string    // what moved it, such as "02:30 is not there on 2026-03-08"; "" for nothing
}

// IsZero reports whether there is none.
func (d Due) IsZero() bool { return d.At.IsZero() }

// A Timetable yields the due times of one entry of a schedule. Its zero value has
// none.
//
// A time of day that a day does not have, because clocks are put forward, is due
// at the first instant after the gap; one that a day has twice is due the first
// time. Both hold only where the hours are named: where the hour field begins
// with "*", every instant is due at which the clock shows a fitting time.
type Timetable struct {
	days    dayRule // nil: none
	clock   clock
	loc     *time.Location
	anyHour bool
}

// NewTimetable reads five cron fields: minute, hour, day of month, month and day
// of week. Where both kinds of days are restricted, either may fit, as in every
// cron. Beyond what every cron knows the days of a month may be L (the last one),
// L-2 (two days before it) and LW (the last one from Monday to Friday), the days of
// a week 5#3 (the third Friday of the month), 5L (the last one) and 7 (Sunday). The
// error is a *SpecError, or joins one for each field that cannot be read.
func NewTimetable(spec string, loc *time.Location) (Timetable, error) {
	c, err := parseCron(spec)
	if err != nil {
		return Timetable{}, err
	}
	return Timetable{days: &c.days, clock: c.clock, loc: loc, anyHour: c.anyHour}, nil
}

// Next returns the first due time after t; its zero value means that there is none.
// The error is a *YearError where the calendar cannot tell.
func (t Timetable) Next(after time.Time) (Due, error) {
	if t.days == nil {
		return Due{}, nil
	}
	search := t.nextNamed
	if t.anyHour {
		search = t.nextShown
	}
	f, at, err := search(after)
	if err != nil || at.IsZero() {
		return Due{}, err
	}
	return t.due(f, at, after.Location()), nil
}

// A fit is a wall that fits, and whether it is skipped.
type fit struct {
	wall    time.Time
	skipped bool
}

// due explains a wall and the instant at which it is due.
func (t Timetable) due(f fit, at time.Time, in *time.Location) Due {
	d := Due{At: at.In(in)}
	y, m, day := f.wall.Date()
	why := t.days.why(monthOf(y, m), day)
	var notes []string
	if f.skipped {
		d.Skipped = why
	} else if why != "" {
		notes = append(notes, why)
	}
	if n := t.moved(f.wall, at); n != "" {
		notes = append(notes, n)
	}
	d.Note = strings.Join(notes, "; ")
	return d
}

// moved says what a change of the clock did to a time of day.
func (t Timetable) moved(wall, at time.Time) string {
	const day, minute = time.DateOnly, "15:04"
	if shown := wallOf(at, t.loc); !shown.Equal(wall) {
		form := minute
		if shown.Format(day) != wall.Format(day) {
			form = day + " " + minute
		}
		return fmt.Sprintf("%s is not there on %s in %s; due at %s", wall.Format(minute), wall.Format(day), t.loc, shown.Format(form))
	}
	if !twice(wall, at, t.loc) {
		return ""
	}
	which := "due the first time"
	if t.anyHour {
		which = "due both times"
	}
	return fmt.Sprintf("%s comes twice on %s in %s; %s", wall.Format(minute), wall.Format(day), t.loc, which)
}

// nextNamed goes through the walls that fit, each of which is due once. Where a gap
// moves several to one instant, one that is not skipped stands for all.
func (t Timetable) nextNamed(after time.Time) (fit, time.Time, error) {
	var best fit
	var bestAt time.Time
	for wall := wallOf(after, t.loc); ; {
		f, err := t.nextWall(wall)
		if !bestAt.IsZero() && (err != nil || f.wall.IsZero()) {
			return best, bestAt, nil
		}
		if err != nil || f.wall.IsZero() {
			return fit{}, time.Time{}, err
		}
		wall = f.wall
		at, named := Local(wall, t.loc)
		switch {
		case !at.After(after):
		case !bestAt.IsZero() && !at.Equal(bestAt):
			return best, bestAt, nil
		case !f.skipped || named && bestAt.IsZero():
			return f, at, nil
		case bestAt.IsZero():
			best, bestAt = f, at
		}
	}
}

// nextShown goes through the stretches between changes of the clock and looks in
// each for the first fitting wall that it really shows.
func (t Timetable) nextShown(after time.Time) (fit, time.Time, error) {
	offset, end := segment(after, t.loc)
	wall := after.UTC().Add(offset)
	for {
		f, err := t.nextWall(wall)
		if err != nil || f.wall.IsZero() {
			return fit{}, time.Time{}, err
		}
		if at := f.wall.Add(-offset); end.IsZero() || at.Before(end) {
			return f, at, nil
		}
		from := end
		offset, end = segment(from, t.loc)
		wall = from.Add(offset - time.Nanosecond) // the first wall of the stretch may fit itself
	}
}

// maxMonths is how far ahead a day is looked for. The longest that days of every
// cron are apart are 40 years: a 29th of February that is a given day of the week,
// where the year 2100 lies between.
const maxMonths = 12 * 60

// nextWall returns the first fitting wall after one; its zero value means that
// there is none.
func (t Timetable) nextWall(after time.Time) (fit, error) {
	y, mo, day := after.Date()
	m := monthOf(y, mo)
	minute := t.clock.next(after.Hour()*60 + after.Minute() + 1)
	if minute < 0 {
		day++
		minute = t.clock.next(0)
	}
	today := day
	for range maxMonths {
		v := t.days.in(m)
		next := (v.due | v.skipped | v.unknown).from(day).first()
		switch {
		case next > 31:
			m++
			day = 1
			continue
		case v.unknown.has(next):
			return fit{}, v.err
		}
		if next != today || m != monthOf(y, mo) {
			minute = t.clock.next(0)
		}
		return fit{time.Date(m.year(), m.name(), next, 0, minute, 0, 0, time.UTC), v.skipped.has(next)}, nil
	}
	return fit{}, nil
}
