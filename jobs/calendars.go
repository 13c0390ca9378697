package jobs

import (
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"madeira/jobs/calendar"
	"madeira/schemas"
)

// calendarFolder is where calendars are, beside a job file or madeira.yaml.
const calendarFolder = "calendars"

// A shelf holds the calendars of one Check. The zero value is empty. It may be used
// from many goroutines at once.
type shelf struct {
	mu    sync.Mutex
	files map[string]*calendarFile // by file, shipped ones by shippedAs; nil: there is none
}

// A calendarFile is a calendar that was read, with what is wrong with it.
type calendarFile struct {
	cal      *calendar.Calendar // nil when there are problems
	doc      *Document          // nil when it could not be read
	problems []Problem
	reading  bool // it is being read: whoever includes it now goes round in a circle
}

// shippedAs is what the files of calendars that Madeira ships are called in problems.
func shippedAs(name string) string { return "madeira:calendars/" + name + ".yaml" }

// FindCalendar returns the calendar that a job file of a folder means by a name: of
// calendars/NAME.yaml in that folder, else below env.Root, else the one of that name
// that Madeira ships. It is nil when there is none or it has problems; no problem
// says that there is none.
func FindCalendar(name, dir string, env Env) (*calendar.Calendar, []Problem) {
	var s shelf
	s.mu.Lock()
	defer s.mu.Unlock()
	f, _ := s.find(name, path.Join(dir, calendarFolder), env)
	if f == nil {
		return nil, nil
	}
	return f.cal, f.problems
}

// CheckCalendars reads calendar files and returns those without a problem, in the
// order given, and all problems by file, line and column. One that has data for less
// than 60 days after env.Today has a warning.
func CheckCalendars(files []string, env Env) ([]*calendar.Calendar, []Problem) {
	var s shelf
	s.mu.Lock()
	defer s.mu.Unlock()
	var good []*calendar.Calendar
	var problems []Problem
	for _, file := range files {
		f := s.read(file, env)
		if f == nil {
			_, unreadable := readFile(env.FS, file)
			unreadable.File, unreadable.Severity = file, SeverityError
			problems = append(problems, *unreadable)
			continue
		}
		problems = append(problems, f.problems...)
		if f.cal != nil {
			good = append(good, f.cal)
			if year, soon := endsSoon(f.cal, env.Today); soon {
				problems = append(problems, f.ends(year))
			}
		}
	}
	slices.SortStableFunc(problems, func(a, b Problem) int { return strings.Compare(a.File, b.File) })
	return good, slices.Compact(problems)
}

// calendar returns the calendar that a job file means by a name, nil when there is
// none, and the files that were looked for.
func (s *shelf) calendar(name, job string, env Env) (f *calendarFile, tried []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(name, path.Join(path.Dir(job), calendarFolder), env)
}

// find looks into a folder of calendars, then into that of madeira.yaml, then among
// the shipped ones.
func (s *shelf) find(name, folder string, env Env) (f *calendarFile, tried []string) {
	tried = []string{path.Join(folder, name+".yaml")}
	if shared := path.Join(env.Root, calendarFolder); env.Root != "" && shared != folder {
		tried = append(tried, path.Join(shared, name+".yaml"))
	}
	for _, file := range tried {
		if f := s.read(file, env); f != nil {
			return f, tried
		}
	}
	text, ok := calendar.Shipped(name)
	if !ok {
		return nil, tried
	}
	file := shippedAs(name)
	if _, known := s.files[file]; !known {
		s.keep(file, s.decode(file, name, text, env))
	}
	return s.files[file], tried
}

// read reads a file once; nil when there is none.
func (s *shelf) read(file string, env Env) *calendarFile {
	if f, known := s.files[file]; known {
		return f
	}
	if !there(env.FS, file) {
		return s.keep(file, nil)
	}
	text, unreadable := readFile(env.FS, file)
	if unreadable != nil {
		return s.keep(file, &calendarFile{problems: inFile(file, []Problem{*unreadable})})
	}
	return s.decode(file, strings.TrimSuffix(path.Base(file), path.Ext(file)), text, env)
}

func (s *shelf) keep(file string, f *calendarFile) *calendarFile {
	if s.files == nil {
		s.files = map[string]*calendarFile{}
	}
	s.files[file] = f
	return f
}

// decode finds out what a calendar file says. It is to be called name.
func (s *shelf) decode(file, name string, text []byte, env Env) *calendarFile {
	doc, problems := Decode(file, text, schemas.Calendar())
	f := s.keep(file, &calendarFile{doc: doc, problems: problems, reading: true})
	defer func() { f.reading = false }()
	if doc == nil {
		return f
	}
	r := calendarReader{doc: doc, shelf: s, env: env, problems: problems}
	data := r.read(name)
	f.problems = sortProblems(r.problems)
	if !slices.ContainsFunc(f.problems, Problem.IsError) {
		if file != shippedAs(name) {
			data.File = file
		}
		f.cal = calendar.New(data)
	}
	return f
}

// ends warns that there is no data after a year.
func (f *calendarFile) ends(year int) Problem {
	p := f.doc.keyProblem("/years", "calendar.ends", "the calendar has no data after %d; add %d as soon as it is published: what is due from then on is an error", year, year+1)
	p.Severity = SeverityWarning
	return p
}

// soon is how long before its data ends a calendar has a warning.
const soon = 60 * 24 * time.Hour

// endsSoon reports whether the data of a calendar ends within 60 days, and with
// which year. One that has none of the year itself says so where it is used.
func endsSoon(c *calendar.Calendar, today time.Time) (year int, ends bool) {
	year, limited := c.LastYear(today.Year())
	end := time.Date(year+1, time.January, 1, 0, 0, 0, 0, today.Location())
	return year, limited && year >= today.Year() && end.Sub(today) <= soon
}

// A calendarReader turns a calendar file into data.
type calendarReader struct {
	doc      *Document
	shelf    *shelf
	env      Env
	problems []Problem
}

func (r *calendarReader) add(p Problem) { r.problems = append(r.problems, p) }

func (r *calendarReader) read(name string) calendar.Data {
	root, _ := r.doc.Value.(map[string]any)
	d := calendar.Data{Name: text(root, "name"), Source: text(root, "source")}
	if d.Name != name && d.Name != "" {
		r.add(r.doc.Problem("/name", "calendar.name", "the calendar is called %q and its file %q; give both the same name", shorten(d.Name), name+".yaml"))
	}
	for i := range list(root, "include") {
		if other := r.included(i, name); other != nil {
			d.Include = append(d.Include, other)
		}
	}
	d.Weekend = weekend(root)
	years, ok := root["years"].(map[string]any)
	if !ok {
		return d
	}
	d.Years = map[int]calendar.YearData{}
	for _, key := range slices.Sorted(maps.Keys(years)) {
		first, ok := calendar.ParseDate(key + "-01-01")
		if !ok {
			continue // the schema has said so
		}
		pointer := child("/years", key)
		y := calendar.YearData{Holidays: r.dates(pointer, "holidays", first.Year), ExtraWorkdays: r.dates(pointer, "extra_workdays", first.Year)}
		r.contradictions(pointer, d.Weekend, y)
		d.Years[first.Year] = y
	}
	return d
}

// weekend returns the days of the week that are off.
func weekend(root map[string]any) []time.Weekday {
	if _, said := root["weekend"]; !said && root["include"] == nil {
		return []time.Weekday{time.Saturday, time.Sunday}
	}
	var days []time.Weekday
	for _, v := range list(root, "weekend") {
		name, _ := v.(string)
		for d := time.Sunday; d <= time.Saturday; d++ {
			if strings.EqualFold(d.String(), name) {
				days = append(days, d)
			}
		}
	}
	return days
}

// included returns a calendar that this one includes, nil when there is a problem.
func (r *calendarReader) included(i int, name string) *calendar.Calendar {
	root, _ := r.doc.Value.(map[string]any)
	other, _ := list(root, "include")[i].(string)
	if !plainName.MatchString(other) {
		return nil // the schema has said so
	}
	at := element("/include", i)
	f, tried := r.shelf.find(other, path.Dir(r.doc.File), r.env)
	switch {
	case f == nil:
		r.add(unknownCalendar(r.doc, at, other, tried, r.env))
	case f.reading && other == name:
		r.add(r.doc.Problem(at, "calendar.cycle", "the calendar %q includes itself; to add days to one that Madeira ships, give this file another name", other))
	case f.reading:
		r.add(r.doc.Problem(at, "calendar.cycle", "the calendar %q includes this one in turn; remove one of both", other))
	case f.cal == nil:
		r.problems = append(r.problems, f.problems...)
		r.add(r.doc.Problem(at, "calendar.invalid", "the calendar %q has problems", other))
	default:
		return f.cal
	}
	return nil
}

// unknownCalendar says that there is no calendar of a name.
func unknownCalendar(doc *Document, at, name string, tried []string, env Env) Problem {
	p := doc.Problem(at, "calendar.unknown", "there is no calendar %q: no %s, and Madeira ships %s", shorten(name), listedOr(tried), listedAnd(calendar.ShippedNames()))
	p.Value = shorten(name)
	known := calendar.ShippedNames()
	for _, file := range tried {
		known = append(known, namesIn(env.FS, path.Dir(file))...)
	}
	return suggest(p, nearest(name, known))
}

// dates returns the named dates of a year.
func (r *calendarReader) dates(year, key string, number int) map[calendar.Date]string {
	all, _ := r.doc.at(child(year, key)).(map[string]any)
	dates := make(map[calendar.Date]string, len(all))
	for _, written := range slices.Sorted(maps.Keys(all)) {
		at := child(child(year, key), written)
		date, ok := calendar.ParseDate(written)
		switch {
		case !ok:
			r.add(r.doc.keyProblem(at, "calendar.date", "%q is no date; write it such as %d-10-01", shorten(written), number))
		case date.Year != number:
			r.add(r.doc.keyProblem(at, "calendar.date", "%s stands under %d; put it under %d", written, number, date.Year))
		default:
			dates[date] = text(all, written)
		}
	}
	return dates
}

// contradictions reports dates that are both off and worked, and workdays that
// change nothing.
func (r *calendarReader) contradictions(year string, weekend []time.Weekday, y calendar.YearData) {
	for date := range y.ExtraWorkdays {
		at := child(child(year, "extra_workdays"), date.String())
		if _, off := y.Holidays[date]; off {
			r.add(r.doc.keyProblem(at, "calendar.contradiction", "%s is a holiday, too; remove one of both", date))
			continue
		}
		if !slices.Contains(weekend, date.Weekday()) {
			r.add(r.doc.keyProblem(at, "calendar.no_effect", "%s is a %s, which is not in the weekend of this calendar; remove it, or check the date (what an included calendar says cannot be undone: copy that one and change the copy)", date, date.Weekday()))
		}
	}
}
