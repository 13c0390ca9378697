package calendar

import "time"

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
type Timetable struct {
	cron Schedule
}

// NewTimetable reads a cron expression as NewSchedule does.
func NewTimetable(spec string, loc *time.Location) (Timetable, error) {
	s, err := NewSchedule(spec, loc)
	return Timetable{s}, err
}

// Next returns the first due time after t; its zero value means that there is none.
func (t Timetable) Next(after time.Time) (Due, error) {
	return Due{At: t.cron.Next(after)}, nil
}
