package calendar

import "time"

// A wall clock is written as a time in UTC that has the fields which the clock
// shows. Walls can be added to and compared without any zone getting in the way.

// wallOf returns what the clock of a zone shows at an instant.
func wallOf(t time.Time, loc *time.Location) time.Time {
	_, offset := t.In(loc).Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// maxOffset is more than any zone was ever ahead of UTC.
const maxOffset = 17 * time.Hour

// firstAt returns the first instant at which the clock of a zone shows wall or
// later: in a gap the end of the gap, in an overlap the first pass.
func firstAt(wall time.Time, loc *time.Location) time.Time {
	from := wall.Add(-maxOffset)
	for {
		offset, end := segment(from, loc)
		at := wall.Add(-offset)
		if at.Before(from) {
			at = from
		}
		if end.IsZero() || at.Before(end) {
			return at.In(loc)
		}
		from = end
	}
}

// Local returns the instant at which the clock of a zone shows wall, which is a
// time in UTC with the fields that the clock shows: of a time that comes twice
// the first pass. It is false for a time that clocks were put forward over; the
// instant is then the end of the gap.
func Local(wall time.Time, loc *time.Location) (at time.Time, ok bool) {
	at = firstAt(wall, loc)
	return at, wallOf(at, loc).Equal(wall)
}

// segment returns the offset from UTC that holds at an instant, and the instant
// at which it changes; zero when it does not.
func segment(t time.Time, loc *time.Location) (offset time.Duration, end time.Time) {
	local := t.In(loc)
	_, seconds := local.Zone()
	_, end = local.ZoneBounds()
	if !end.IsZero() {
		end = end.UTC()
	}
	return time.Duration(seconds) * time.Second, end
}

// twice reports whether the clock of a zone shows a wall, which it shows at an
// instant, at another instant, too.
func twice(wall, at time.Time, loc *time.Location) bool {
	start, end := at.In(loc).ZoneBounds()
	if !end.IsZero() && end.Sub(at) < maxOffset {
		if other, _ := segment(end, loc); !wall.Add(-other).Before(end) {
			return true
		}
	}
	if !start.IsZero() && at.Sub(start) < maxOffset {
		if other, _ := segment(start.Add(-time.Nanosecond), loc); wall.Add(-other).Before(start) {
			return true
		}
	}
	return false
}
