package parse

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"
)

const daySeconds = 24 * 60 * 60

// layoutElements are the parts of a layout in the language of package time, each
// before those that begin like it.
var layoutElements = []string{
	"January", "Jan", "Monday", "Mon", "MST", "2006", "Z07:00", "Z0700", "-07:00", "-0700",
	"PM", "pm", "_2", "01", "02", "03", "04", "05", "06", "15", "1", "2", "3", "4", "5",
}

// A layout reads dates and times of one form. It is used by one goroutine.
type layout struct {
	elements []string // of layoutElements, ".0", ".9" (a fraction, which may be missing), or "'" and literal text
	zoned    bool     // the text names its offset
	zone     *time.Location
	day      int64 // whose offset is known, in days since 1970; the seconds of it are in offset
	offset   int64
	uniform  bool // the offset does not change around day
}

func newLayout(format string, zone *time.Location) (*layout, error) {
	l := &layout{zone: zone}
	literal := ""
	flush := func() {
		if literal != "" {
			l.elements, literal = append(l.elements, "'"+literal), ""
		}
	}
next:
	for format != "" {
		if n := fractionLength(format); n > 0 {
			flush()
			l.elements = append(l.elements, "."+format[1:2])
			format = format[n:]
			continue
		}
		for _, element := range layoutElements {
			if rest, ok := strings.CutPrefix(format, element); ok {
				if element == "MST" {
					return nil, errors.New("MST: letters do not say which zone is meant; declare timezone and leave them out")
				}
				flush()
				l.elements = append(l.elements, element)
				l.zoned = l.zoned || strings.Contains(element, "07")
				format = rest
				continue next
			}
		}
		literal, format = literal+format[:1], format[1:]
	}
	flush()
	return l, nil
}

// fractionLength returns the length of .000 or .999 at the start of the format,
// or 0: ".01" is a point and a month.
func fractionLength(format string) int {
	if len(format) < 2 || format[0] != '.' && format[0] != ',' || format[1] != '0' && format[1] != '9' {
		return 0
	}
	n := 1
	for n < len(format) && format[n] == format[1] {
		n++
	}
	if n < len(format) && isDigit(format[n]) {
		return 0
	}
	return n
}

// A reading is what a text says, before it is checked.
type reading struct {
	year, month, day       int
	hour, minute, second   int
	micros, offset         int64
	afternoon, half, zoned bool
}

// read reads the text by the layout; false when it does not fit.
func (l *layout) read(text []byte) (reading, bool) {
	r := reading{year: 1970, month: 1, day: 1}
	for _, element := range l.elements {
		var ok bool
		if text, ok = r.take(element, text); !ok {
			return r, false
		}
	}
	if r.half {
		if r.hour < 1 || r.hour > 12 {
			return r, false
		}
		if r.hour %= 12; r.afternoon {
			r.hour += 12
		}
	}
	valid := r.month >= 1 && r.month <= 12 && r.day >= 1 && r.day <= daysIn(r.year, r.month) && r.hour < 24 && r.minute < 60 && r.second < 60
	return r, len(text) == 0 && valid
}

// take reads one element from the start of the text.
func (r *reading) take(element string, text []byte) ([]byte, bool) {
	switch element {
	case "2006":
		return number(text, 4, 4, &r.year)
	case "06":
		rest, ok := number(text, 2, 2, &r.year)
		if r.year += 2000; r.year >= 2069 {
			r.year -= 100
		}
		return rest, ok
	case "01":
		return number(text, 2, 2, &r.month)
	case "1":
		return number(text, 1, 2, &r.month)
	case "02":
		return number(text, 2, 2, &r.day)
	case "2":
		return number(text, 1, 2, &r.day)
	case "_2":
		return number(bytes.TrimPrefix(text, []byte(" ")), 1, 2, &r.day)
	case "15":
		return number(text, 1, 2, &r.hour)
	case "03":
		r.half = true
		return number(text, 2, 2, &r.hour)
	case "3":
		r.half = true
		return number(text, 1, 2, &r.hour)
	case "04":
		return number(text, 2, 2, &r.minute)
	case "4":
		return number(text, 1, 2, &r.minute)
	case "05":
		return number(text, 2, 2, &r.second)
	case "5":
		return number(text, 1, 2, &r.second)
	}
	return r.takeRare(element, text)
}

func (r *reading) takeRare(element string, text []byte) ([]byte, bool) {
	switch element[0] {
	case '\'':
		if len(text) < len(element)-1 || string(text[:len(element)-1]) != element[1:] {
			return text, false
		}
		return text[len(element)-1:], true
	case '.':
		return r.fraction(text, element == ".9")
	case 'P', 'p':
		if len(text) < 2 || text[1]|0x20 != 'm' || text[0]|0x20 != 'a' && text[0]|0x20 != 'p' {
			return text, false
		}
		r.afternoon = text[0]|0x20 == 'p'
		return text[2:], true
	case 'J':
		for m := time.January; m <= time.December; m++ {
			if rest, ok := word(text, m.String(), element == "Jan"); ok {
				r.month = int(m)
				return rest, true
			}
		}
		return text, false
	case 'M':
		for d := time.Sunday; d <= time.Saturday; d++ {
			if rest, ok := word(text, d.String(), element == "Mon"); ok {
				return rest, true
			}
		}
		return text, false
	}
	return r.takeZone(element, text)
}

// takeZone reads +08:00, +0800 or, where the layout begins with Z, Z.
func (r *reading) takeZone(element string, text []byte) ([]byte, bool) {
	r.zoned = true
	if element[0] == 'Z' && len(text) > 0 && text[0] == 'Z' {
		return text[1:], true
	}
	if len(text) < 5 || text[0] != '+' && text[0] != '-' {
		return text, false
	}
	var hours, minutes int
	rest, ok := number(text[1:], 2, 2, &hours)
	if ok && strings.HasSuffix(element, ":00") {
		rest, ok = bytes.CutPrefix(rest, []byte(":"))
	}
	if ok {
		rest, ok = number(rest, 2, 2, &minutes)
	}
	r.offset = int64(hours*3600 + minutes*60)
	if text[0] == '-' {
		r.offset = -r.offset
	}
	return rest, ok && hours < 15 && minutes < 60
}

// fraction reads decimals of a second; what is below a microsecond is dropped.
func (r *reading) fraction(text []byte, optional bool) ([]byte, bool) {
	if len(text) < 2 || text[0] != '.' && text[0] != ',' || text[1] < '0' || text[1] > '9' {
		return text, optional
	}
	text = text[1:]
	for unit := int64(100_000); len(text) > 0 && text[0] >= '0' && text[0] <= '9'; unit /= 10 {
		r.micros += int64(text[0]-'0') * unit
		text = text[1:]
	}
	return text, true
}

// number reads least to most digits.
func number(text []byte, least, most int, n *int) ([]byte, bool) {
	i, value := 0, 0
	for i < len(text) && i < most && text[i] >= '0' && text[i] <= '9' {
		value = value*10 + int(text[i]-'0')
		i++
	}
	*n = value
	return text[i:], i >= least
}

// word reads an English name, or its first three letters, in any case.
func word(text []byte, name string, short bool) ([]byte, bool) {
	if short {
		name = name[:3]
	}
	if len(text) < len(name) || !strings.EqualFold(string(text[:len(name)]), name) {
		return text, false
	}
	return text[len(name):], true
}

func daysIn(year, month int) int {
	switch {
	case month == 2 && year%4 == 0 && (year%100 != 0 || year%400 == 0):
		return 29
	case month == 2:
		return 28
	case month == 4, month == 6, month == 9, month == 11:
		return 30
	}
	return 31
}

// days returns the days since 1970-01-01, by counting years from March on.
func (r *reading) days() int64 {
	y, m := r.year, r.month
	if m <= 2 {
		y, m = y-1, m+12
	}
	era := y / 400 // years are never negative: the layout has four digits
	of := y - era*400
	return int64(era*146097+of*365+of/4-of/100+(153*(m-3)+2)/5+r.day-1) - 719468
}

// date returns the days since 1970-01-01.
func (l *layout) date(text []byte) (int64, fault) {
	r, ok := l.read(text)
	if !ok {
		return 0, faultDate
	}
	return r.days(), fine
}

// instant returns the microseconds since 1970 UTC.
func (l *layout) instant(text []byte) (int64, fault) {
	r, ok := l.read(text)
	if !ok {
		return 0, faultDate
	}
	day := r.days()
	wall := day*daySeconds + int64(r.hour*3600+r.minute*60+r.second)
	if r.zoned {
		return (wall-r.offset)*1e6 + r.micros, fine
	}
	if !l.uniform || l.day != day {
		before, after := l.offsetAt(day*daySeconds-daySeconds), l.offsetAt(day*daySeconds+2*daySeconds)
		if l.uniform = before == after; !l.uniform {
			at, ok := l.around(wall, before, after)
			if !ok {
				return 0, faultGap
			}
			return at*1e6 + r.micros, fine
		}
		l.day, l.offset = day, before
	}
	return (wall-l.offset)*1e6 + r.micros, fine
}

// around returns the first instant at which clocks show wall when the offset
// changes nearby. A time that was skipped has none.
func (l *layout) around(wall, before, after int64) (int64, bool) {
	first, ok := int64(0), false
	for _, offset := range []int64{before, after} {
		if at := wall - offset; l.offsetAt(at) == offset && (!ok || at < first) {
			first, ok = at, true
		}
	}
	return first, ok
}

func (l *layout) offsetAt(unix int64) int64 {
	_, offset := time.Unix(unix, 0).In(l.zone).Zone()
	return int64(offset)
}

// momentLayout returns the layout of a date or timestamp column.
func momentLayout(set *columnSetting) (*layout, error) {
	zone, err := time.LoadLocation(set.Timezone)
	if err != nil {
		return nil, fmt.Errorf("timezone: %w", err)
	}
	l, err := newLayout(set.Format, zone)
	if err != nil {
		return nil, fmt.Errorf("format %q: %w", set.Format, err)
	}
	if set.Type == "timestamp" && !l.zoned && set.Timezone == "" {
		return nil, errors.New("timezone is missing: neither it nor the format says which clock the file means")
	}
	return l, nil
}
