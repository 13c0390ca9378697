package calendar

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A model of cron expressions that shares nothing with the package: it reads fields
// its own way, asks of each day on its own whether it fits, and walks through real
// time minute by minute.
type model struct {
	minutes, hours, months map[int]bool
	dom, dow               string // as they are written
	anyHour                bool
}

func newModel(spec string) model {
	f := strings.Fields(spec)
	return model{
		minutes: modelNumbers(f[0], 0, 59), hours: modelNumbers(f[1], 0, 23), months: modelNumbers(f[3], 1, 12),
		dom: f[2], dow: f[4], anyHour: f[1][0] == '*',
	}
}

// modelNumbers reads a list of numbers, ranges and steps.
func modelNumbers(field string, low, high int) map[int]bool {
	set := map[int]bool{}
	for _, element := range strings.Split(field, ",") {
		body, step, stepped := strings.Cut(element, "/")
		from, to := low, high
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
			set[v] = true
		}
	}
	return set
}

// day reports whether a date, at midnight UTC, fits.
func (m model) day(date time.Time) bool {
	if !m.months[int(date.Month())] {
		return false
	}
	dom := slices.ContainsFunc(strings.Split(m.dom, ","), func(e string) bool { return modelDayOfMonth(e, date) })
	dow := slices.ContainsFunc(strings.Split(m.dow, ","), func(e string) bool { return modelDayOfWeek(e, date) })
	if m.dom == "*" || m.dow == "*" {
		return dom && dow
	}
	return dom || dow
}

func modelDayOfMonth(element string, date time.Time) bool {
	before := 0 // days of this month behind the date
	for d := date.AddDate(0, 0, 1); d.Month() == date.Month(); d = d.AddDate(0, 0, 1) {
		before++
	}
	switch {
	case element == "L":
		return before == 0
	case element == "LW":
		weekday := date.Weekday() != time.Saturday && date.Weekday() != time.Sunday
		return weekday && (before == 0 || before == 1 && date.Weekday() == time.Friday || before == 2 && date.Weekday() == time.Friday)
	case strings.HasPrefix(element, "L-"):
		return strconv.Itoa(before) == element[2:]
	}
	return modelNumbers(element, 1, 31)[date.Day()]
}

func modelDayOfWeek(element string, date time.Time) bool {
	names := []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
	for i, name := range names {
		element = strings.ReplaceAll(element, name, strconv.Itoa(i))
	}
	if day, nth, ok := strings.Cut(element, "#"); ok {
		return modelDayOfWeek(day, date) && strconv.Itoa((date.Day()+6)/7) == nth
	}
	if day, ok := strings.CutSuffix(element, "L"); ok {
		return modelDayOfWeek(day, date) && date.AddDate(0, 0, 7).Month() != date.Month()
	}
	set := modelNumbers(element, 0, 6)
	return set[int(date.Weekday())] || date.Weekday() == time.Sunday && set[7]
}

// A walk is what the clock of a zone shows at every minute of the years, in minutes
// since 1970.
type walk struct {
	loc   *time.Location
	start int64 // minutes since 1970 UTC
	shown []int32
}

var (
	walkStart = time.Date(2023, 12, 30, 0, 0, 0, 0, time.UTC)
	walkEnd   = time.Date(2031, 1, 2, 0, 0, 0, 0, time.UTC)
)

func newWalk(loc *time.Location) walk {
	w := walk{loc: loc, start: walkStart.Unix() / 60}
	for at := walkStart; at.Before(walkEnd); at = at.Add(time.Minute) {
		_, offset := at.In(loc).Zone()
		w.shown = append(w.shown, int32(at.Unix()/60)+int32(offset/60))
	}
	return w
}

// due returns every due minute of the walk: a time is due when the clock first
// shows it or has passed it; where the hours are any, whenever the clock shows it.
// Which days fit, by days since 1970, is handed in.
func (w walk) due(m model, day func(int32) bool) []int64 {
	times := make([]bool, 24*60)
	for i := range times {
		times[i] = m.minutes[i%60] && m.hours[i/60]
	}
	fits := func(wall int32) bool { return times[wall%(24*60)] && day(wall/(24*60)) }
	var list []int64
	latest := w.shown[0]
	for i, wall := range w.shown[1:] {
		due := m.anyHour && fits(wall)
		for ; !m.anyHour && latest < wall; latest++ {
			due = fits(latest+1) || due
		}
		if due {
			list = append(list, w.start+int64(i)+1)
		}
	}
	return list
}

// remembered returns a function that asks another once for each day of the walk.
func remembered(ask func(time.Time) bool) func(int32) bool {
	known := map[int32]bool{}
	first := int32(walkStart.Unix()/86400) - 2
	for d := first; d < int32(walkEnd.Unix()/86400)+2; d++ {
		known[d] = ask(time.Unix(int64(d)*86400, 0).UTC())
	}
	list := make([]bool, len(known))
	for d, fits := range known {
		list[d-first] = fits
	}
	return func(d int32) bool { return list[d-first] }
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

func pick(r *rand.Rand, list ...string) string { return list[r.IntN(len(list))] }

// randomList returns one to three elements.
func randomList(r *rand.Rand, element func() string) string {
	list := []string{element()}
	for r.IntN(3) == 0 && len(list) < 3 {
		list = append(list, element())
	}
	return strings.Join(list, ",")
}

func randomDayOfMonth(r *rand.Rand) string {
	if r.IntN(3) == 0 {
		return "*"
	}
	return randomList(r, func() string {
		return pick(r, strconv.Itoa(1+r.IntN(31)), "L", "LW", fmt.Sprintf("L-%d", 1+r.IntN(30)), "1-7", "28-31", "*/2", "5-25/9", "15")
	})
}

func randomDayOfWeek(r *rand.Rand) string {
	if r.IntN(2) == 0 {
		return "*"
	}
	return randomList(r, func() string {
		day := pick(r, "0", "1", "2", "3", "4", "5", "6", "7", "fri", "sun", "mon")
		return pick(r, day, fmt.Sprintf("%s#%d", day, 1+r.IntN(5)), day+"L", "1-5", "5-7", "mon-fri", "0-7/3", "2-7/2", "*/3")
	})
}

func randomSpec(r *rand.Rand) string {
	minute := pick(r, "*", "*/30", "*/7", "0", strconv.Itoa(r.IntN(60)), fmt.Sprintf("%d-59/5", r.IntN(60)), "0,15,59")
	hour := pick(r, "*", "*/2", "*/5", strconv.Itoa(r.IntN(4)), "0", "23", strconv.Itoa(r.IntN(24)), "1-3", "0-23", "1,2", "22,23")
	month := pick(r, "*", "*", "*", "3,4,9,10,11", "2", "1-12/3", strconv.Itoa(1+r.IntN(12)))
	return strings.Join([]string{minute, hour, randomDayOfMonth(r), month, randomDayOfWeek(r)}, " ")
}

// modelZones have changes of an hour and of half an hour, at midnight, at other
// times, and none.
var modelZones = []string{"America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Beirut", "America/Santiago", "Africa/Cairo", "Asia/Shanghai", "UTC"}

// The expressions and instants of each zone: 8 zones × 45 × 400 are 144,000 cases.
const (
	modelSpecs    = 45
	modelInstants = 400
)

// Together with the tests by hand this is F37, F38 and F41 for every expression that
// there may be: gaps and overlaps of all changes from 2024 to 2030, rare days, L and #.
func TestFault_F37_F38_F41_EveryDueTimeIsThatOfAModelThatWalksMinuteByMinute(t *testing.T) {
	t.Parallel()
	for i, name := range modelZones {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(11, uint64(i)))
			loc := zone(t, name)
			w := newWalk(loc)
			for range modelSpecs {
				spec := randomSpec(r)
				s, err := NewTimetable(spec, loc)
				m := newModel(spec)
				if err != nil {
					if due := w.due(m, remembered(m.day)); len(due) > 0 {
						t.Fatalf("%q is refused (%v), and is due at %s", spec, err, time.Unix(due[0]*60, 0).UTC())
					}
					continue
				}
				checkAgainst(t, s, spec, w.due(m, remembered(m.day)), randomInstants(r, loc, modelInstants))
			}
		})
	}
}

// randomInstants returns instants from 2024 to 2030, three of four near a change of
// the clock, and every change is among them.
func randomInstants(r *rand.Rand, loc *time.Location, n int) []time.Time {
	changes := transitions(loc)
	list := slices.Clone(changes)
	for len(list) < n {
		at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(r.Int64N(7*365*24*3600)) * time.Second)
		if len(changes) > 0 && r.IntN(4) > 0 {
			at = changes[r.IntN(len(changes))].Add(time.Duration(r.Int64N(6*3600)-3*3600) * time.Second)
		}
		list = append(list, at)
	}
	return list
}

// checkAgainst compares Next with the due minutes of a model.
func checkAgainst(t *testing.T, s Timetable, about string, want []int64, instants []time.Time) {
	t.Helper()
	for _, at := range instants {
		got, err := s.Next(at)
		i, _ := slices.BinarySearch(want, at.Unix()/60+1)
		var missing *YearError
		if errors.As(err, &missing) && missing.Year > walkEnd.Year() && i == len(want) {
			continue
		}
		if err != nil {
			t.Fatalf("%s after %s: %v", about, at, err)
		}
		switch {
		case i < len(want) && got.At.Unix() != want[i]*60:
			t.Fatalf("%s in %s after %s: got %s, want %s", about, s.loc, at.In(s.loc), got.At.In(s.loc), time.Unix(want[i]*60, 0).In(s.loc))
		case i == len(want) && !got.IsZero() && got.At.Before(walkEnd):
			t.Fatalf("%s in %s after %s: got %s, want none before %s", about, s.loc, at.In(s.loc), got.At.In(s.loc), walkEnd)
		}
	}
}
