package calendar_test

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata"

	"madeira/jobs/calendar"
)

func ExampleNewTimetable() {
	loc, err := calendar.LoadZone("America/New_York")
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := calendar.NewTimetable("30 2 * * *", loc)
	if err != nil {
		fmt.Println(err)
		return
	}
	at := time.Date(2026, 3, 7, 0, 0, 0, 0, loc)
	for range 3 {
		due, err := s.Next(at)
		if err != nil {
			fmt.Println(err)
			return
		}
		at = due.At
		fmt.Println(strings.TrimSpace(at.Format(time.RFC3339) + " " + due.Note))
	}
	_, err = calendar.NewTimetable("0 0 30 2 *", loc)
	fmt.Println(err)
	// Output:
	// 2026-03-07T02:30:00-05:00
	// 2026-03-08T03:00:00-04:00 02:30 is not there on 2026-03-08 in America/New_York; due at 03:00
	// 2026-03-09T02:30:00-04:00
	// cron "0 0 30 2 *" never fires: no month 2 has a day 30
}

func ExampleRule_At() {
	r := calendar.Rule{Every: calendar.Month, Of: calendar.Previous}
	p, err := r.At(time.Date(2026, 11, 5, 2, 30, 0, 0, time.UTC), time.UTC)
	fmt.Println(p.Label, p.Start, p.End, err)
	// Output: 2026-10 2026-10-01 2026-11-01 <nil>
}

func ExampleRule_Parse() {
	r := calendar.Rule{Every: calendar.Week}
	p, err := r.Parse("2026-W53", time.UTC)
	fmt.Println(p.Start, p.End, err)
	_, err = r.Parse("2026-10", time.UTC)
	fmt.Println(err)
	// Output:
	// 2026-12-28 2027-01-04 <nil>
	// read the period "2026-10": a week is written 2026-W44 (ISO weeks, Monday to Sunday)
}

func ExampleLoadZone() {
	_, err := calendar.LoadZone("Asia/Beijing")
	fmt.Println(err)
	// Output: there is no time zone Asia/Beijing; did you mean Asia/Shanghai
}
