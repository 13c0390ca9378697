package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"madeira/jobs/calendar"
)

// A yearView is one year of a calendar.
type yearView struct {
	calendarView

	Year          int         `json:"year"`
	BusinessDays  int         `json:"business_days"`
	Months        []monthView `json:"months"`
	Holidays      []dayView   `json:"holidays"`       // those of a weekend included
	ExtraWorkdays []dayView   `json:"extra_workdays"` // days of the weekend that are worked
}

type monthView struct {
	Month        string `json:"month"`
	BusinessDays int    `json:"business_days"`

	marks string
}

type dayView struct {
	Date string `json:"date"`
	Name string `json:"name"`

	day time.Time
}

func (p *program) showCalendar(names []string, year int) error {
	env, err := calendarEnv()
	if err != nil {
		return err
	}
	c, err := namedCalendar(names, env)
	if err != nil {
		return err
	}
	if year == 0 {
		year = shownYear(c, env.Today.Year())
	}
	if year < 1 || year > 9999 {
		return usage("--year %d: it is 1 to 9999", year)
	}
	v, err := newYearView(c, year)
	var missing *calendar.YearError
	switch {
	case errors.As(err, &missing):
		return usage("%w", err)
	case err != nil:
		return err
	case p.output == "json":
		return p.json(v)
	}
	p.printYear(v)
	return nil
}

// shownYear returns a year, or the last one that all of a calendar has data of when
// it has none of that.
func shownYear(c *calendar.Calendar, year int) int {
	if _, err := c.BusinessDays(year, time.January); err == nil {
		return year
	}
	for _, leaf := range c.Leaves() {
		if years := leaf.Data().Years; years != nil {
			year = min(year, slices.Max(slices.Collect(maps.Keys(years))))
		}
	}
	return year
}

// Marks of the grid of a year.
const (
	markBusiness = "."
	markWeekend  = "-"
	markHoliday  = "H"
	markExtra    = "+"
)

func newYearView(c *calendar.Calendar, year int) (yearView, error) {
	v := yearView{calendarView: newCalendarView(c), Year: year, Holidays: []dayView{}, ExtraWorkdays: []dayView{}}
	for day := time.Date(year, time.January, 1, 0, 0, 0, 0, time.UTC); day.Year() == year; day = day.AddDate(0, 0, 1) {
		if day.Day() == 1 {
			v.Months = append(v.Months, monthView{Month: day.Format("2006-01")})
		}
		m := &v.Months[len(v.Months)-1]
		info, err := c.Day(calendar.DateOf(day, time.UTC))
		if err != nil {
			return v, err
		}
		named := dayView{Date: day.Format(time.DateOnly), Name: info.Reason, day: day}
		mark := markBusiness
		switch {
		case info.Business && info.Reason != "":
			mark = markExtra
			v.ExtraWorkdays = append(v.ExtraWorkdays, named)
		case !info.Business && info.Reason == day.Weekday().String():
			mark = markWeekend
		case !info.Business:
			mark = markHoliday
			v.Holidays = append(v.Holidays, named)
		}
		m.marks += mark
		if info.Business {
			m.BusinessDays++
			v.BusinessDays++
		}
	}
	return v, nil
}

func (p *program) printYear(v yearView) {
	fmt.Fprintf(p.stdout, "%s, %d: %d business days\n", v.Name, v.Year, v.BusinessDays)
	for _, leaf := range v.cal.Leaves() {
		own := newCalendarView(leaf)
		fmt.Fprintf(p.stdout, "  %s: %s, %s\n    %s\n", own.Name, leaf.YearsText(), own.from(), own.Source)
	}
	fmt.Fprintln(p.stdout, "\n         1234567890123456789012345678901")
	for _, m := range v.Months {
		fmt.Fprintf(p.stdout, "%s  %-31s  %2d\n", m.Month, m.marks, m.BusinessDays)
	}
	fmt.Fprintf(p.stdout, "%s business day  %s weekend  %s holiday  %s day of the weekend that is worked\n", markBusiness, markWeekend, markHoliday, markExtra)
	printDays(p, "Holidays", v.Holidays)
	printDays(p, "Worked", v.ExtraWorkdays)
}

// printDays prints days, those that follow one another under one name in one line.
func printDays(p *program, title string, days []dayView) {
	if len(days) == 0 {
		return
	}
	fmt.Fprintf(p.stdout, "\n%s\n", title)
	for i := 0; i < len(days); {
		j := i
		for j+1 < len(days) && days[j+1].Name == days[i].Name && days[j+1].day.Equal(days[j].day.AddDate(0, 0, 1)) {
			j++
		}
		span := days[i].Date
		if j > i {
			span += " to " + days[j].Date
		}
		weekdays := days[i].day.Format("Mon")
		if j > i {
			weekdays += " to " + days[j].day.Format("Mon")
		}
		fmt.Fprintf(p.stdout, "  %s  %s  %s\n", pad(span, len("2006-01-02 to 2006-01-02")), pad(weekdays, len("Mon to Mon")), days[i].Name)
		i = j + 1
	}
}

func pad(s string, width int) string { return s + strings.Repeat(" ", max(0, width-len(s))) }
