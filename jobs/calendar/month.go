package calendar

import (
	"fmt"
	"math/bits"
	"time"
)

// A Date is a day of the calendar, in no zone.
type Date struct {
	Year  int
	Month time.Month
	Day   int
}

// DateOf returns the date that a clock in a zone shows at an instant.
func DateOf(t time.Time, loc *time.Location) Date {
	y, m, d := t.In(loc).Date()
	return Date{y, m, d}
}

// ParseDate reads a date written YYYY-MM-DD.
func ParseDate(text string) (Date, bool) {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return Date{}, false
	}
	y, m, d := t.Date()
	return Date{y, m, d}, true
}

// String returns the date as YYYY-MM-DD.
func (d Date) String() string { return fmt.Sprintf("%04d-%02d-%02d", d.Year, d.Month, d.Day) }

// Weekday returns the day of the week.
func (d Date) Weekday() time.Weekday { return d.month().weekday(d.Day) }

// Time returns midnight of the date in UTC.
func (d Date) Time() time.Time { return time.Date(d.Year, d.Month, d.Day, 0, 0, 0, 0, time.UTC) }

func (d Date) month() month { return monthOf(d.Year, d.Month) }

// A month counts the months since January of the year 0.
type month int

func monthOf(year int, m time.Month) month { return month(year*12 + int(m) - 1) }

func (m month) year() int { return int(m) / 12 }

func (m month) name() time.Month { return time.Month(int(m)%12 + 1) }

func (m month) date(day int) Date { return Date{m.year(), m.name(), day} }

// String returns the month as YYYY-MM.
func (m month) String() string { return fmt.Sprintf("%04d-%02d", m.year(), m.name()) }

// length returns how many days the month has.
func (m month) length() int {
	switch m.name() {
	case time.April, time.June, time.September, time.November:
		return 30
	case time.February:
		if y := m.year(); y%4 == 0 && (y%100 != 0 || y%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// all returns every day of the month.
func (m month) all() days { return 2<<m.length() - 2 }

// weekday returns the day of the week of a day of the month.
func (m month) weekday(day int) time.Weekday {
	return time.Date(m.year(), m.name(), day, 0, 0, 0, 0, time.UTC).Weekday()
}

// The days of one month: bit 1 is the first, bit 31 the thirty-first.
type days uint32

// sevenths are the days 1, 8, 15, 22 and 29.
const sevenths days = 1<<1 | 1<<8 | 1<<15 | 1<<22 | 1<<29

// weekdays returns the days of the month that fall on the given days of the week.
func (m month) weekdays(which weekdaySet) days {
	var found days
	first := m.weekday(1)
	for w := which; w != 0; w &= w - 1 {
		found |= sevenths << until(first, w.first())
	}
	return found & m.all()
}

// until returns how many days after one day of the week another one comes, 0 to 6.
func until(from, to time.Weekday) int { return int(to-from+7) % 7 }

func (d days) has(day int) bool { return d>>day&1 == 1 }

func (d days) count() int { return bits.OnesCount32(uint32(d)) }

// first returns the first day, which is 32 when there is none.
func (d days) first() int { return bits.TrailingZeros32(uint32(d)) }

// last returns the last day, which is -1 when there is none.
func (d days) last() int { return 31 - bits.LeadingZeros32(uint32(d)) }

// from returns the days from one on.
func (d days) from(day int) days { return d &^ (1<<day - 1) }

// A weekdaySet is a set of days of the week: bit 0 is Sunday.
type weekdaySet uint8

func (w weekdaySet) first() time.Weekday { return time.Weekday(bits.TrailingZeros8(uint8(w))) }
