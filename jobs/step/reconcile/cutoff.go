package reconcile

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"madeira/jobs/calendar"
	"madeira/jobs/dataset"
)

// A cutoff is the end of the period in the units of one date column. The zero
// value of a side without one is never: nothing lies after it.
type cutoff struct {
	end  int64 // first day or microsecond after the period
	late int64 // first one after the grace
}

// never is the cut-off that nothing lies after.
var never = cutoff{end: math.MaxInt64, late: math.MaxInt64}

// A place says where a date lies.
type place uint8

const (
	inside place = iota
	grace        // after the cut-off
	late         // after the grace
)

func (c cutoff) place(v int64) place {
	switch {
	case v < c.end:
		return inside
	case v < c.late:
		return grace
	}
	return late
}

// cutoffs holds the end of the period and of the grace in both units.
type cutoffs struct {
	days, micros cutoff
	instant      bool           // at is an instant
	zone         *time.Location // turns each unit into the other; nil when none was named
}

// newCutoffs reads the settings.
func newCutoffs(set *cutoffSettings) (cutoffs, error) {
	days, err := graceDays(set.Grace)
	if err != nil {
		return cutoffs{}, err
	}
	var c cutoffs
	if set.Timezone != "" {
		if c.zone, err = calendar.LoadZone(set.Timezone); err != nil {
			return cutoffs{}, fmt.Errorf("reconcile: cutoff.timezone: %w", err)
		}
	}
	if date, err := dataset.ParseDate([]byte(set.At)); err == nil {
		c.days = cutoff{end: date, late: date + days}
		return c, c.startOfDays()
	}
	at, err := time.Parse(time.RFC3339Nano, set.At)
	if err != nil {
		return cutoffs{}, fmt.Errorf("reconcile: cutoff.at is %q; write a date such as 2026-11-01 or an instant such as 2026-11-01T00:00:00+08:00", set.At)
	}
	if c.zone != nil {
		at = at.In(c.zone)
	}
	c.instant = true
	c.micros = cutoff{end: at.UnixMicro(), late: at.AddDate(0, 0, int(days)).UnixMicro()}
	first := dataset.DateOf(at)
	if h, m, s := at.Clock(); h != 0 || m != 0 || s != 0 || at.Nanosecond() != 0 {
		first++ // the day that the cut-off splits has begun before it
	}
	c.days = cutoff{end: first, late: first + days}
	return c, nil
}

// startOfDays fills in the instants at which the two dates begin.
func (c *cutoffs) startOfDays() error {
	zone := c.zone
	if zone == nil {
		zone = time.UTC // the instants are not used then
	}
	day := calendar.Rule{Every: calendar.Day, Of: calendar.Current}
	for _, part := range []struct {
		day    int64
		micros *int64
	}{{c.days.end, &c.micros.end}, {c.days.late, &c.micros.late}} {
		p, err := day.Parse(dataset.FormatDate(part.day), zone)
		if err != nil {
			return fmt.Errorf("reconcile: cutoff: %w", err)
		}
		*part.micros = p.StartAt.UnixMicro()
	}
	return nil
}

func graceDays(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	digits, ok := strings.CutSuffix(text, "d")
	n, err := strconv.ParseUint(digits, 10, 16)
	if !ok || err != nil {
		return 0, fmt.Errorf("reconcile: cutoff.grace is %q; write calendar days such as 3d", text)
	}
	return int64(n), nil
}

// of returns the cut-off in the unit of a column.
func (c cutoffs) of(kind dataset.Kind) (cutoff, error) {
	if kind == dataset.Date {
		if c.instant && c.zone == nil {
			return never, errors.New("it holds dates and cutoff.at is an instant: add cutoff.timezone, the zone the dates are in")
		}
		return c.days, nil
	}
	if !c.instant && c.zone == nil {
		return never, errors.New("it holds instants and cutoff.at is a date: add cutoff.timezone, the zone the date is in")
	}
	return c.micros, nil
}
