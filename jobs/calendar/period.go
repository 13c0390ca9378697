package calendar

import "time"

// A Period is a stretch of whole local days, half-open.
type Period struct {
	Label   string    // 2026-10-31, 2026-W44, 2026-10, 2026-Q4 or 2026
	Start   string    // first local date, YYYY-MM-DD
	End     string    // local date after the last one, YYYY-MM-DD
	StartAt time.Time // first instant of Start in the job's zone
	EndAt   time.Time // first instant of End in the job's zone
}

// A Rule says which period belongs to an instant.
type Rule struct {
	Every Unit // length
	Of    Of   // which one, seen from the instant
}

// A Unit is the length of a period.
type Unit string

// The units. Weeks are ISO weeks, Monday to Sunday.
const (
	Day     Unit = "day"
	Week    Unit = "week"
	Month   Unit = "month"
	Quarter Unit = "quarter"
	Year    Unit = "year"
)

// Of picks a period relative to an instant.
type Of string

// Which period.
const (
	Previous Of = "previous" // the last one that is over
	Current  Of = "current"  // the one the instant lies in
)
