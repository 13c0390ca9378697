package calendar

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// A Period is a stretch of whole local days, half-open.
type Period struct {
	Label   string    `json:"label"`    // 2026-10-31, 2026-W44, 2026-10, 2026-Q4 or 2026
	Start   string    `json:"start"`    // first local date, YYYY-MM-DD
	End     string    `json:"end"`      // local date after the last one, YYYY-MM-DD
	StartAt time.Time `json:"start_at"` // first instant of Start in the job's zone
	EndAt   time.Time `json:"end_at"`   // first instant of End in the job's zone
}

// A Rule says which period belongs to an instant.
type Rule struct {
	Every Unit // length
	Of    Of   // which one, seen from the instant; "" is Previous
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

// At returns the period that belongs to an instant, in days of the zone. The
// error names a unit or a choice that there is not, or a year outside 1 to 9998.
func (r Rule) At(instant time.Time, loc *time.Location) (Period, error) {
	wall := wallOf(instant, loc)
	start, err := r.startOf(wall)
	if err != nil {
		return Period{}, err
	}
	switch r.Of {
	case Current:
	case Previous, "":
		start = r.shift(start, -1)
	default:
		return Period{}, fmt.Errorf("find the period: it is of %q; there is %s and %s", r.Of, Previous, Current)
	}
	return r.from(start, loc)
}

// Parse returns the period with a label, in days of the zone. The label has to
// fit the unit; the error says how it is written.
func (r Rule) Parse(label string, loc *time.Location) (Period, error) {
	start, ok, err := r.parse(label)
	if err != nil {
		return Period{}, err
	}
	if !ok {
		return Period{}, fmt.Errorf("read the period %q: a %s is written %s", label, r.Every, r.form())
	}
	return r.from(start, loc)
}

// from returns the period that begins at a wall of midnight.
func (r Rule) from(start time.Time, loc *time.Location) (Period, error) {
	end := r.shift(start, 1)
	if start.Year() < 1 || end.Year() > 9999 {
		return Period{}, fmt.Errorf("find the period: the year %d is outside 1 to 9998", start.Year())
	}
	return Period{
		Label:   r.label(start),
		Start:   start.Format(time.DateOnly),
		End:     end.Format(time.DateOnly),
		StartAt: firstAt(start, loc),
		EndAt:   firstAt(end, loc),
	}, nil
}

// startOf returns the midnight at which the unit around a wall begins.
func (r Rule) startOf(wall time.Time) (time.Time, error) {
	y, m, d := wall.Date()
	switch r.Every {
	case Day:
	case Week:
		d -= (int(wall.Weekday()) + 6) % 7
	case Month:
		d = 1
	case Quarter:
		m, d = m-(m-1)%3, 1
	case Year:
		m, d = time.January, 1
	default:
		return time.Time{}, r.unknown()
	}
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC), nil
}

func (r Rule) unknown() error {
	return fmt.Errorf("find the period: it is every %q; there is %s, %s, %s, %s and %s", r.Every, Day, Week, Month, Quarter, Year)
}

// shift moves the start of a unit by n units.
func (r Rule) shift(start time.Time, n int) time.Time {
	switch r.Every {
	case Day:
		return start.AddDate(0, 0, n)
	case Week:
		return start.AddDate(0, 0, 7*n)
	case Month:
		return start.AddDate(0, n, 0)
	case Quarter:
		return start.AddDate(0, 3*n, 0)
	}
	return start.AddDate(n, 0, 0)
}

func (r Rule) label(start time.Time) string {
	switch r.Every {
	case Day:
		return start.Format(time.DateOnly)
	case Week:
		y, w := start.ISOWeek()
		return fmt.Sprintf("%04d-W%02d", y, w)
	case Month:
		return start.Format("2006-01")
	case Quarter:
		return fmt.Sprintf("%04d-Q%d", start.Year(), (start.Month()-1)/3+1)
	}
	return start.Format("2006")
}

// form shows how a label of the unit is written.
func (r Rule) form() string {
	return map[Unit]string{
		Day: "2026-10-31", Week: "2026-W44 (ISO weeks, Monday to Sunday)", Month: "2026-10", Quarter: "2026-Q4", Year: "2026",
	}[r.Every]
}

var (
	weekLabel    = regexp.MustCompile(`^(\d{4})-W(\d{2})$`)
	quarterLabel = regexp.MustCompile(`^(\d{4})-Q([1-4])$`)
)

// parse returns the midnight at which the unit of that label begins, and whether
// there is one.
func (r Rule) parse(label string) (start time.Time, ok bool, err error) {
	switch r.Every {
	case Day, Month, Year:
		layout := map[Unit]string{Day: time.DateOnly, Month: "2006-01", Year: "2006"}[r.Every]
		start, bad := time.Parse(layout, label)
		return start, bad == nil, nil
	case Week:
		start, ok = parseWeek(label)
		return start, ok, nil
	case Quarter:
		match := quarterLabel.FindStringSubmatch(label)
		if match == nil {
			return time.Time{}, false, nil
		}
		return time.Date(atoi(match[1]), time.Month(3*atoi(match[2])-2), 1, 0, 0, 0, 0, time.UTC), true, nil
	}
	return time.Time{}, false, r.unknown()
}

// parseWeek returns the Monday of an ISO week. The fourth of January always lies
// in week 1; a week 53 exists only where it does not belong to the next year.
func parseWeek(label string) (time.Time, bool) {
	match := weekLabel.FindStringSubmatch(label)
	if match == nil {
		return time.Time{}, false
	}
	year, week := atoi(match[1]), atoi(match[2])
	fourth := time.Date(year, time.January, 4, 0, 0, 0, 0, time.UTC)
	monday := fourth.AddDate(0, 0, 7*(week-1)-(int(fourth.Weekday())+6)%7)
	y, w := monday.ISOWeek()
	return monday, y == year && w == week
}

// atoi reads digits that a pattern has let through.
func atoi(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}
