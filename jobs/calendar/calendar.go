package calendar

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Data is what a calendar file says.
type Data struct {
	Name    string
	Source  string           // where the days are from, and when they were taken from there
	File    string           // that holds it; "" for one that Madeira ships
	Weekend []time.Weekday   // days of the week that are off
	Years   map[int]YearData // nil: the weekend and Include say everything
	Include []*Calendar      // a day that is off in one of them is off
}

// YearData are the days of one year that differ from its weeks.
type YearData struct {
	Holidays      map[Date]string // days off, with their names
	ExtraWorkdays map[Date]string // days of the weekend that are worked, with why
}

// A Calendar knows which days are business days. It is never changed, and may be
// used from many goroutines at once.
type Calendar struct {
	data    Data
	weekend weekdaySet
	years   map[int]*[12]days // business days by month; nil: those that are not in weekend
	parts   []*Calendar       // of one that was combined; data has but a name then
}

// New returns the calendar that Data describes. Data is not changed afterwards.
func New(d Data) *Calendar {
	c := &Calendar{data: d}
	for _, day := range d.Weekend {
		c.weekend |= 1 << day
	}
	if d.Years != nil {
		c.years = make(map[int]*[12]days, len(d.Years))
	}
	for year, y := range d.Years {
		var business [12]days
		for i := range business {
			m := monthOf(year, time.Month(i+1))
			business[i] = m.all() &^ m.weekdays(c.weekend)
		}
		for date := range y.ExtraWorkdays {
			business[date.Month-1] |= 1 << date.Day
		}
		for date := range y.Holidays {
			business[date.Month-1] &^= 1 << date.Day
		}
		c.years[year] = &business
	}
	return c
}

// Combine returns the calendar in which a day is off that is off in any of several.
// Of a single one it is that one. The order does not matter.
func Combine(calendars ...*Calendar) *Calendar {
	parts := slices.Clone(calendars)
	slices.SortFunc(parts, func(a, b *Calendar) int { return cmp.Compare(a.data.Name, b.data.Name) })
	parts = slices.Compact(parts)
	if len(parts) == 1 {
		return parts[0]
	}
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.data.Name
	}
	return &Calendar{data: Data{Name: strings.Join(names, "+")}, parts: parts}
}

// Name returns the name, that of a combined one such as cn+hk.
func (c *Calendar) Name() string { return c.data.Name }

// Data returns what the calendar was made of. It must not be changed.
func (c *Calendar) Data() Data { return c.data }

// Parts returns what a calendar was combined from; nil for one that was not.
func (c *Calendar) Parts() []*Calendar { return slices.Clone(c.parts) }

// A DateInfo is what a calendar says of a date.
type DateInfo struct {
	Business bool
	Reason   string // why it is off, such as "National Day" or "Saturday"; why it is worked, where it is one of the weekend; else ""
}

// Day returns what the calendar says of a date. The error is a *YearError.
func (c *Calendar) Day(date Date) (DateInfo, error) {
	business, err := c.business(date.month())
	if err != nil {
		return DateInfo{}, err
	}
	if !business.has(date.Day) {
		return DateInfo{Reason: c.reason(date)}, nil
	}
	day := DateInfo{Business: true}
	for _, leaf := range c.Leaves() {
		if why, ok := leaf.data.Years[date.Year].ExtraWorkdays[date]; ok {
			day.Reason = why
		}
	}
	return day, nil
}

// BusinessDays counts those of a month. The error is a *YearError.
func (c *Calendar) BusinessDays(year int, m time.Month) (int, error) {
	business, err := c.business(monthOf(year, m))
	return business.count(), err
}

// business returns the business days of a month.
func (c *Calendar) business(m month) (days, error) {
	found := m.all()
	switch {
	case c.years != nil:
		year, ok := c.years[m.year()]
		if !ok {
			return 0, c.missing(m.year())
		}
		found = year[m.name()-1]
	case c.weekend != 0:
		found &^= m.weekdays(c.weekend)
	}
	for _, list := range [2][]*Calendar{c.parts, c.data.Include} {
		for _, other := range list {
			theirs, err := other.business(m)
			if err != nil {
				return 0, err
			}
			found &= theirs
		}
	}
	return found, nil
}

// reason says why a date is off.
func (c *Calendar) reason(date Date) string {
	if name, ok := c.data.Years[date.Year].Holidays[date]; ok {
		return name
	}
	var named, plain string
	for _, other := range slices.Concat(c.parts, c.data.Include) {
		if business, err := other.business(date.month()); err != nil || business.has(date.Day) {
			continue
		}
		why := other.reason(date)
		if why == date.Weekday().String() {
			plain = why
		} else if named == "" {
			named = why
		}
	}
	return cmp.Or(named, plain, date.Weekday().String())
}

// whyOff says of a date that it is off, where and why.
func (c *Calendar) whyOff(date Date) string {
	where := c.data.Name
	var off []string
	for _, part := range c.parts {
		if business, err := part.business(date.month()); err == nil && !business.has(date.Day) {
			off = append(off, part.data.Name)
		}
	}
	if len(off) > 0 {
		where = strings.Join(off, " and ")
	}
	return fmt.Sprintf("%s is no business day in %s: %s", date, where, c.reason(date))
}

// Leaves returns the calendars whose own days count: this one, those it includes
// and those it was combined from, each once.
func (c *Calendar) Leaves() []*Calendar {
	var all []*Calendar
	var collect func(*Calendar)
	collect = func(c *Calendar) {
		if slices.Contains(all, c) {
			return
		}
		if c.parts == nil {
			all = append(all, c)
		}
		for _, other := range slices.Concat(c.parts, c.data.Include) {
			collect(other)
		}
	}
	collect(c)
	return all
}

// LastYear returns the last of the years without a gap, from one on, that this
// calendar itself has data of; a year before from when from is missing. It is false
// for one that needs none.
func (c *Calendar) LastYear(from int) (int, bool) {
	if c.years == nil {
		return 0, false
	}
	year := from
	for c.years[year] != nil {
		year++
	}
	return year - 1, true
}

// A YearError says that a calendar has no data of a year that a due time depends on.
type YearError struct {
	Calendar string
	Year     int
	File     string // where the data would stand; "" for a calendar that Madeira ships
	Have     string // the years that are there, such as "2024 to 2026"
}

// Error says what to do.
func (e *YearError) Error() string {
	if e.File == "" {
		return fmt.Sprintf("calendar %q, which Madeira ships, has data of %s and none of %d; copy it to calendars/%s.yaml and add the year once it is published, or take a newer Madeira", e.Calendar, e.Have, e.Year, e.Calendar)
	}
	return fmt.Sprintf("calendar %q in %s has data of %s and none of %d; add the year under years", e.Calendar, e.File, e.Have, e.Year)
}

func (c *Calendar) missing(year int) error {
	return &YearError{Calendar: c.data.Name, Year: year, File: c.data.File, Have: c.YearsText()}
}

// YearsText lists the years that there is data of, such as "2024 to 2026 and 2028";
// "any year" for a calendar that needs none.
func (c *Calendar) YearsText() string {
	if c.years == nil {
		return "any year"
	}
	var spans []string
	years := slices.Sorted(maps.Keys(c.years))
	for i := 0; i < len(years); {
		j := i
		for j+1 < len(years) && years[j+1] == years[j]+1 {
			j++
		}
		span := fmt.Sprint(years[i])
		if j > i {
			span += fmt.Sprintf(" to %d", years[j])
		}
		spans = append(spans, span)
		i = j + 1
	}
	return cmp.Or(strings.Join(spans, " and "), "no year")
}
