package calendar

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A model of the schedule that shares nothing with it: it reads fields its own
// way and walks through real time minute by minute.
type model struct {
	fields  [5]map[int]bool
	starred [5]bool
	loc     *time.Location
}

func newModel(spec string, loc *time.Location) model {
	m := model{loc: loc}
	low, high := [5]int{0, 0, 1, 1, 0}, [5]int{59, 23, 31, 12, 6}
	for i, f := range strings.Fields(spec) {
		m.starred[i] = f == "*"
		m.fields[i] = map[int]bool{}
		for _, element := range strings.Split(f, ",") {
			body, step, stepped := strings.Cut(element, "/")
			from, to := low[i], high[i]
			if body != "*" {
				a, b, ranged := strings.Cut(body, "-")
				from, _ = strconv.Atoi(a)
				to = from
				if ranged {
					to, _ = strconv.Atoi(b)
				}
			}
			by := 1
			if stepped {
				by, _ = strconv.Atoi(step)
			}
			for v := from; v <= to; v += by {
				m.fields[i][v] = true
			}
		}
	}
	return m
}

// fits reports whether a time of day on a date fits the fields.
func (m model) fits(wall time.Time) bool {
	dom, dow := m.fields[2][wall.Day()], m.fields[4][int(wall.Weekday())]
	day := dom && dow
	if !m.starred[2] && !m.starred[4] {
		day = dom || dow
	}
	return day && m.fields[0][wall.Minute()] && m.fields[1][wall.Hour()] && m.fields[3][int(wall.Month())]
}

// next walks from a day before t, keeping the latest time that the clock has
// shown: a time is due when the clock first shows it or has passed it.
func (m model) next(t time.Time, anyHour bool, horizon time.Duration) time.Time {
	at := t.UTC().Truncate(time.Minute).Add(-24 * time.Hour)
	shown := m.read(at)
	for end := t.Add(horizon); at.Before(end); {
		at = at.Add(time.Minute)
		wall := m.read(at)
		due := anyHour && m.fits(wall)
		for ; !anyHour && shown.Before(wall); shown = shown.Add(time.Minute) {
			due = due || m.fits(shown.Add(time.Minute))
		}
		if due && at.After(t) {
			return at
		}
	}
	return time.Time{}
}

// read returns the fields of the zone's clock as a time in UTC.
func (m model) read(at time.Time) time.Time {
	l := at.In(m.loc)
	return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), 0, 0, time.UTC)
}

// transitions returns the changes of a zone's clock from 2024 to 2030.
func transitions(loc *time.Location) []time.Time {
	var list []time.Time
	at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	for {
		_, end := at.In(loc).ZoneBounds()
		if end.IsZero() || end.Year() > 2030 {
			return list
		}
		list = append(list, end)
		at = end
	}
}

func randomSpec(r *rand.Rand) string {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	minute := pick("*", "*/30", "*/7", "0", strconv.Itoa(r.IntN(60)), fmt.Sprintf("%d-59/5", r.IntN(60)), "0,15,59")
	hour := pick("*", "*/2", "*/5", strconv.Itoa(r.IntN(4)), "0", "23", strconv.Itoa(r.IntN(24)), "1-3", "0-23", "1,2", "22,23")
	dom := pick("*", "*", "*", strconv.Itoa(1+r.IntN(28)), "1-7", "28-31", "*/2")
	month := pick("*", "*", "*", "3,4,9,10,11", strconv.Itoa(1+r.IntN(12)))
	dow := pick("*", "*", "*", "0", "1-5", "6")
	return strings.Join([]string{minute, hour, dom, month, dow}, " ")
}

func TestSchedule_AgreesWithAModelThatWalksMinuteByMinute(t *testing.T) {
	t.Parallel()
	const horizon = 20 * 24 * time.Hour
	zones := []string{"America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Beirut", "America/Santiago", "Africa/Cairo", "Asia/Shanghai", "UTC"}
	for i, name := range zones {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, uint64(i)))
			loc := zone(t, name)
			changes := transitions(loc)
			for range 75 {
				spec := randomSpec(r)
				s, err := NewSchedule(spec, loc)
				if err != nil {
					continue // the 30th of February among random fields
				}
				at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(r.Int64N(7*365*24*3600)) * time.Second)
				if len(changes) > 0 && r.IntN(4) > 0 {
					at = changes[r.IntN(len(changes))].Add(time.Duration(r.Int64N(5*3600)-3*3600) * time.Second)
				}
				checkAgainstModel(t, s, spec, at, horizon)
			}
		})
	}
}

func checkAgainstModel(t *testing.T, s Schedule, spec string, at time.Time, horizon time.Duration) {
	t.Helper()
	want := newModel(spec, s.loc).next(at, strings.HasPrefix(strings.Fields(spec)[1], "*"), horizon)
	got := s.Next(at)
	if want.IsZero() {
		if !got.IsZero() && !got.After(at.Add(horizon)) {
			t.Errorf("%q in %s after %s: got %s, and the model finds none in %s", spec, s.loc, at, got, horizon)
		}
		return
	}
	if !got.Equal(want) {
		t.Errorf("%q in %s after %s: got %s, want %s", spec, s.loc, at.In(s.loc), got.In(s.loc), want.In(s.loc))
	}
}
