package parse

import (
	"bytes"
	"strings"
	"time"
)

const daySeconds = 24 * 60 * 60

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
	for i := range l.elements {
		var ok bool
		if text, ok = r.take(&l.elements[i], text); !ok {
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
	valid := r.year >= 1 && r.month >= 1 && r.month <= 12 && r.day >= 1 && r.day <= daysIn(r.year, r.month) && r.hour < 24 && r.minute < 60 && r.second < 60
	return r, len(text) == 0 && valid
}

// take reads one element from the start of the text.
func (r *reading) take(e *element, text []byte) ([]byte, bool) {
	switch e.take {
	case literal:
		if len(text) < len(e.text) || string(text[:len(e.text)]) != e.text {
			return text, false
		}
		return text[len(e.text):], true
	case year2006:
		return number(text, 4, 4, &r.year)
	case year06:
		rest, ok := number(text, 2, 2, &r.year)
		if r.year += 2000; r.year >= 2069 {
			r.year -= 100
		}
		return rest, ok
	case month01:
		return number(text, 2, 2, &r.month)
	case month1:
		return number(text, 1, 2, &r.month)
	case day02:
		return number(text, 2, 2, &r.day)
	case day2:
		return number(text, 1, 2, &r.day)
	case dayBlank2:
		return number(bytes.TrimPrefix(text, []byte(" ")), 1, 2, &r.day)
	case hour15:
		return number(text, 1, 2, &r.hour)
	case minute04:
		return number(text, 2, 2, &r.minute)
	case minute4:
		return number(text, 1, 2, &r.minute)
	case second05:
		return number(text, 2, 2, &r.second)
	case second5:
		return number(text, 1, 2, &r.second)
	}
	return r.takeRare(e.take, text)
}

func (r *reading) takeRare(kind elementKind, text []byte) ([]byte, bool) {
	switch kind {
	case hour03, hour3:
		r.half = true
		return number(text, 1+int(hour3-kind), 2, &r.hour)
	case fraction, fractionIfAny:
		return r.fraction(text, kind == fractionIfAny)
	case halfDay:
		if len(text) < 2 || text[1]|0x20 != 'm' || text[0]|0x20 != 'a' && text[0]|0x20 != 'p' {
			return text, false
		}
		r.afternoon = text[0]|0x20 == 'p'
		return text[2:], true
	case monthName, monthShort:
		for m := time.January; m <= time.December; m++ {
			if rest, ok := word(text, m.String(), kind == monthShort); ok {
				r.month = int(m)
				return rest, true
			}
		}
		return text, false
	case dayName, dayShort:
		for d := time.Sunday; d <= time.Saturday; d++ {
			if rest, ok := word(text, d.String(), kind == dayShort); ok {
				return rest, true
			}
		}
		return text, false
	}
	return r.takeZone(kind, text)
}

// takeZone reads +08:00, +0800 or, where the layout begins with Z, Z.
func (r *reading) takeZone(kind elementKind, text []byte) ([]byte, bool) {
	r.zoned = true
	if (kind == zoneZColon || kind == zoneZPlain) && len(text) > 0 && text[0] == 'Z' {
		return text[1:], true
	}
	if len(text) < 5 || text[0] != '+' && text[0] != '-' {
		return text, false
	}
	var hours, minutes int
	rest, ok := number(text[1:], 2, 2, &hours)
	if ok && (kind == zoneColon || kind == zoneZColon) {
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
	era := y / 400 // the year before year 1 is not negative either
	of := y - era*400
	return int64(era*146097+of*365+of/4-of/100+(153*(m-3)+2)/5+r.day-1) - 719468
}

// date returns the days since 1970-01-01.
func (l *layout) date(text []byte) (int64, fault) {
	if days, _, ok := l.quick(text); ok {
		return days, fine
	}
	r, ok := l.read(text)
	if !ok {
		return 0, faultDate
	}
	return r.days(), fine
}

// instant returns the microseconds since 1970 UTC.
func (l *layout) instant(text []byte) (int64, fault) {
	if days, seconds, ok := l.quick(text); ok {
		return l.local(days, days*daySeconds+seconds, 0)
	}
	r, ok := l.read(text)
	if !ok {
		return 0, faultDate
	}
	day := r.days()
	wall := day*daySeconds + int64(r.hour*3600+r.minute*60+r.second)
	if r.zoned {
		return (wall-r.offset)*1e6 + r.micros, fine
	}
	return l.local(day, wall, r.micros)
}

// local returns the instant at which clocks in the zone show wall, in seconds
// since 1970 as if the zone were UTC.
func (l *layout) local(day, wall, micros int64) (int64, fault) {
	if !l.uniform || l.day != day {
		before, after := l.offsetAt(day*daySeconds-daySeconds), l.offsetAt(day*daySeconds+2*daySeconds)
		if l.uniform = before == after; !l.uniform {
			at, ok := l.around(wall, before, after)
			if !ok {
				return 0, faultGap
			}
			return at*1e6 + micros, fine
		}
		l.day, l.offset = day, before
	}
	return (wall-l.offset)*1e6 + micros, fine
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
