// Command calendars writes the calendars whose days are fixed by rules:
//
//	go run ./calendars ../jobs/calendar/shipped
//
// from tools/, whenever a rule changes, a single day is proclaimed (see proclaimed)
// or the last year comes near. What rules cannot say, the calendars cn and hk, is
// kept by hand. check.mjs compares all of them with what others publish.
package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// The years that are written.
const (
	firstYear = 2020
	lastYear  = 2035
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: calendars FOLDER")
		os.Exit(2)
	}
	for name, text := range files() {
		if err := os.WriteFile(filepath.Join(os.Args[1], name+".yaml"), text, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// A holidays maps days off to their names.
type holidays map[time.Time]string

func files() map[string][]byte {
	us := holidays{}
	uk := holidays{}
	target := holidays{}
	for year := firstYear; year <= lastYear+1; year++ { // the first of January may be kept in December
		addFederal(us, year)
		addEngland(uk, year)
		addTarget(target, year)
	}
	for day, name := range proclaimed {
		uk[day] = name
	}
	for _, day := range movedAway {
		delete(uk, day)
	}
	return map[string][]byte{
		"us-federal": write("us-federal", "5 U.S.C. 6103 and Executive Order 11582: legal public holidays, kept on Friday when they fall on Saturday and on Monday when on Sunday. Not in it: Inauguration Day, which is one only around Washington, and single days on which offices were closed by order. Rules as of 2026-11-30.", us),
		"uk":         write("uk", "Bank holidays of England and Wales: Banking and Financial Dealings Act 1971 and proclamations as listed on www.gov.uk/bank-holidays. Rules as of 2026-11-30; a day that is proclaimed later is not in it.", uk),
		"eu-target":  write("eu-target", "Closing days of TARGET: decision of the Governing Council of the European Central Bank of 14 December 2000, in force since 2002. Rules as of 2026-11-30.", target),
	}
}

func write(name, source string, days holidays) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Written by tools/calendars; change the rules there.\nname: %s\nsource: %q\nweekend: [saturday, sunday]\nyears:\n", name, source)
	for year := firstYear; year <= lastYear; year++ {
		fmt.Fprintf(&b, "  %d:\n    holidays:\n", year)
		for _, day := range slices.SortedFunc(maps.Keys(days), time.Time.Compare) {
			if day.Year() == year {
				fmt.Fprintf(&b, "      %s: %s\n", day.Format(time.DateOnly), days[day])
			}
		}
	}
	return b.Bytes()
}

func date(year int, m time.Month, day int) time.Time {
	return time.Date(year, m, day, 0, 0, 0, 0, time.UTC)
}

// nth returns the n-th such day of the week of a month.
func nth(year int, m time.Month, weekday time.Weekday, n int) time.Time {
	first := date(year, m, 1)
	return first.AddDate(0, 0, int(weekday-first.Weekday()+7)%7+7*(n-1))
}

// last returns the last such day of the week of a month.
func last(year int, m time.Month, weekday time.Weekday) time.Time {
	return nth(year, m+1, weekday, 1).AddDate(0, 0, -7)
}

// easter returns Easter Sunday by the rule of Gauss in the form of Butcher.
func easter(year int) time.Time {
	a, b, c := year%19, year/100, year%100
	d, e := b/4, b%4
	g := (b - (b+8)/25 + 1) / 3
	h := (19*a + b - d - g + 15) % 30
	l := (32 + 2*e + 2*(c/4) - h - c%4) % 7
	m := (a + 11*h + 22*l) / 451
	n := h + l - 7*m + 114
	return date(year, time.Month(n/31), n%31+1)
}

func addFederal(to holidays, year int) {
	fixed := func(m time.Month, day int, name string) {
		at := date(year, m, day)
		to[at] = name
		switch at.Weekday() {
		case time.Saturday:
			to[at.AddDate(0, 0, -1)] = name + " (observed)"
		case time.Sunday:
			to[at.AddDate(0, 0, 1)] = name + " (observed)"
		}
	}
	fixed(time.January, 1, "New Year's Day")
	to[nth(year, time.January, time.Monday, 3)] = "Birthday of Martin Luther King, Jr."
	to[nth(year, time.February, time.Monday, 3)] = "Washington's Birthday"
	to[last(year, time.May, time.Monday)] = "Memorial Day"
	if year >= 2021 {
		fixed(time.June, 19, "Juneteenth National Independence Day")
	}
	fixed(time.July, 4, "Independence Day")
	to[nth(year, time.September, time.Monday, 1)] = "Labor Day"
	to[nth(year, time.October, time.Monday, 2)] = "Columbus Day"
	fixed(time.November, 11, "Veterans Day")
	to[nth(year, time.November, time.Thursday, 4)] = "Thanksgiving Day"
	fixed(time.December, 25, "Christmas Day")
}

func addEngland(to holidays, year int) {
	// substitute puts a day off in place of one of the weekend, on the next day that is none already.
	substitute := func(day time.Time, name string) {
		if w := day.Weekday(); w != time.Saturday && w != time.Sunday {
			return
		}
		for day.Weekday() == time.Saturday || day.Weekday() == time.Sunday || to[day] != "" {
			day = day.AddDate(0, 0, 1)
		}
		to[day] = name + " (substitute day)"
	}
	newYear, christmas, boxing := date(year, time.January, 1), date(year, time.December, 25), date(year, time.December, 26)
	to[newYear], to[christmas], to[boxing] = "New Year's Day", "Christmas Day", "Boxing Day"
	substitute(newYear, "New Year's Day")
	substitute(christmas, "Christmas Day")
	substitute(boxing, "Boxing Day")
	to[easter(year).AddDate(0, 0, -2)] = "Good Friday"
	to[easter(year).AddDate(0, 0, 1)] = "Easter Monday"
	to[nth(year, time.May, time.Monday, 1)] = "Early May bank holiday"
	to[last(year, time.May, time.Monday)] = "Spring bank holiday"
	to[last(year, time.August, time.Monday)] = "Summer bank holiday"
}

// Days of England and Wales that were proclaimed, and those they stood in for.
var (
	proclaimed = holidays{
		date(2020, time.May, 8):        "Early May bank holiday (VE day)",
		date(2022, time.June, 2):       "Spring bank holiday",
		date(2022, time.June, 3):       "Platinum Jubilee bank holiday",
		date(2022, time.September, 19): "State Funeral of Queen Elizabeth II",
		date(2023, time.May, 8):        "Coronation of King Charles III",
	}
	movedAway = []time.Time{date(2020, time.May, 4), date(2022, time.May, 30)}
)

func addTarget(to holidays, year int) {
	to[date(year, time.January, 1)] = "New Year's Day"
	to[easter(year).AddDate(0, 0, -2)] = "Good Friday"
	to[easter(year).AddDate(0, 0, 1)] = "Easter Monday"
	to[date(year, time.May, 1)] = "Labour Day"
	to[date(year, time.December, 25)] = "Christmas Day"
	to[date(year, time.December, 26)] = "Christmas Holiday"
}
