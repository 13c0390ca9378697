package calendar

import "time"

// A verdict says what becomes of the days of one month. The days are disjoint.
type verdict struct {
	due     days
	skipped days  // due but for the calendar
	unknown days  // the calendar cannot tell
	err     error // why it cannot
}

// A dayRule decides which days are due. It is never changed.
type dayRule interface {
	in(m month) verdict
	// why returns why a day that is skipped is, or what moved a day that is due; "" for nothing.
	why(m month, day int) string
}

// cronDays are the days of a cron expression.
type cronDays struct {
	months uint16 // bit 1 is January

	ofMonth     days
	anyOfMonth  bool   // the field begins with "*" and has no step
	beforeLast  uint32 // bit n: n days before the last one
	lastWeekday bool   // the last one from Monday to Friday

	ofWeek     weekdaySet
	anyOfWeek  bool
	nthOfWeek  [5]weekdaySet // the first to the fifth of the month
	lastOfWeek weekdaySet    // the last of the month
}

// mondayToFriday are the days of the week that LW means.
const mondayToFriday weekdaySet = 1<<time.Monday | 1<<time.Tuesday | 1<<time.Wednesday | 1<<time.Thursday | 1<<time.Friday

// of returns the days of a month that fit. Where both kinds of days are
// restricted, either may fit, as in every cron.
func (c *cronDays) of(m month) days {
	if c.months>>m.name()&1 == 0 {
		return 0
	}
	switch {
	case c.anyOfMonth && c.anyOfWeek:
		return m.all()
	case c.anyOfMonth:
		return c.byWeek(m)
	case c.anyOfWeek:
		return c.byMonth(m)
	}
	return c.byMonth(m) | c.byWeek(m)
}

func (c *cronDays) byMonth(m month) days {
	found := c.ofMonth & m.all()
	if c.beforeLast != 0 {
		for n := range m.length() {
			if c.beforeLast>>n&1 == 1 {
				found |= 1 << (m.length() - n)
			}
		}
	}
	if c.lastWeekday {
		found |= 1 << m.weekdays(mondayToFriday).last()
	}
	return found
}

func (c *cronDays) byWeek(m month) days {
	found := m.weekdays(c.ofWeek)
	for n, which := range c.nthOfWeek {
		if which != 0 {
			found |= m.weekdays(which) & (0b11111110 << (7 * n))
		}
	}
	if c.lastOfWeek != 0 {
		found |= m.weekdays(c.lastOfWeek).from(m.length() - 6)
	}
	return found
}

// ever reports whether any day fits: the days of 400 years are those of all years.
func (c *cronDays) ever() bool {
	for m := monthOf(2000, time.January); m < monthOf(2400, time.January); m++ {
		if c.of(m) != 0 {
			return true
		}
	}
	return false
}

func (c *cronDays) in(m month) verdict { return verdict{due: c.of(m)} }

func (c *cronDays) why(month, int) string { return "" }
