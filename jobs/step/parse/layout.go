package parse

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

// An element is one part of a layout.
type element struct {
	take elementKind
	text string // of a literal
}

// An elementKind says what an element reads. Those that are plain numbers are
// named by what Go's layouts write for them.
type elementKind uint8

const (
	literal elementKind = iota
	fraction
	fractionIfAny
	monthName
	monthShort
	dayName
	dayShort
	halfDay
	zoneColon  // -07:00
	zonePlain  // -0700
	zoneZColon // Z07:00
	zoneZPlain // Z0700
	year2006
	year06
	month01
	month1
	day02
	day2
	dayBlank2
	hour15
	hour03
	hour3
	minute04
	minute4
	second05
	second5
)

// layoutElements are the parts of a layout in the language of package time, each
// before those that begin like it.
var layoutElements = []struct {
	text string
	kind elementKind
}{
	{"January", monthName}, {"Jan", monthShort}, {"Monday", dayName}, {"Mon", dayShort},
	{"2006", year2006}, {"Z07:00", zoneZColon}, {"Z0700", zoneZPlain}, {"-07:00", zoneColon}, {"-0700", zonePlain},
	{"PM", halfDay}, {"pm", halfDay}, {"_2", dayBlank2}, {"01", month01}, {"02", day02}, {"03", hour03},
	{"04", minute04}, {"05", second05}, {"06", year06}, {"15", hour15}, {"1", month1}, {"2", day2}, {"3", hour3},
	{"4", minute4}, {"5", second5},
}

// A layout reads dates and times of one form. It is used by one goroutine.
type layout struct {
	elements []element
	zoned    bool // the text names its offset
	zone     *time.Location
	day      int64 // whose offset is known, in days since 1970; the seconds of it are in offset
	offset   int64
	uniform  bool // the offset does not change around day

	// The form that nearly all files use, year, month and day with one character
	// between them and perhaps the time behind, is read by position. The last
	// date is remembered: rows come in its order.
	form     string // such as 0000-00-00 00:00:00; "": another form
	date8    uint64 // bytes 0 to 7 of the last date
	date2    uint16 // its bytes 8 and 9
	lastDays int64  // what they mean
}

func newLayout(format string, zone *time.Location) (*layout, error) {
	l := &layout{zone: zone}
	text := ""
	add := func(kind elementKind, length int) {
		if text != "" {
			l.elements, text = append(l.elements, element{literal, text}), ""
		}
		if length > 0 {
			l.elements = append(l.elements, element{take: kind})
		}
		format = format[length:]
	}
next:
	for format != "" {
		if n := fractionLength(format); n > 0 {
			kind := fraction
			if format[1] == '9' {
				kind = fractionIfAny
			}
			add(kind, n)
			continue
		}
		if strings.HasPrefix(format, "MST") {
			return nil, errors.New("MST: letters do not say which zone is meant; declare timezone and leave them out")
		}
		for _, e := range layoutElements {
			if strings.HasPrefix(format, e.text) {
				l.zoned = l.zoned || e.kind >= zoneColon && e.kind <= zoneZPlain
				add(e.kind, len(e.text))
				continue next
			}
		}
		text, format = text+format[:1], format[1:]
	}
	add(literal, 0)
	l.form = l.fixedForm()
	return l, nil
}

// fixedForm returns the form of a layout that is read by position, or "".
func (l *layout) fixedForm() string {
	order := []elementKind{year2006, literal, month01, literal, day02, literal, hour15, literal, minute04, literal, second05}
	if n := len(l.elements); n != 5 && n != len(order) {
		return ""
	}
	form := ""
	for i, e := range l.elements {
		switch {
		case e.take != order[i], e.take == literal && len(e.text) != 1:
			return ""
		case e.take == literal:
			form += e.text
		case i == 0:
			form += "0000"
		default:
			form += "00"
		}
	}
	return form
}

// quick reads a text of the fixed form: the days since 1970 and the seconds of
// the day. False means that the long way has to decide.
func (l *layout) quick(text []byte) (days, seconds int64, ok bool) {
	if len(text) != len(l.form) || l.form == "" {
		return 0, 0, false
	}
	if len(text) > 10 {
		h, m, s := pair(text, 11), pair(text, 14), pair(text, 17)
		if text[10] != l.form[10] || text[13] != l.form[13] || text[16] != l.form[16] || h > 23 || m > 59 || s > 59 {
			return 0, 0, false
		}
		seconds = int64(h*3600 + m*60 + s)
	}
	date8, date2 := binary.LittleEndian.Uint64(text), binary.LittleEndian.Uint16(text[8:])
	if date8 == l.date8 && date2 == l.date2 {
		return l.lastDays, seconds, true
	}
	high, low, month, day := pair(text, 0), pair(text, 2), pair(text, 5), pair(text, 8)
	r := reading{year: int(high*100 + low), month: int(month), day: int(day)}
	if text[4] != l.form[4] || text[7] != l.form[7] || high > 99 || low > 99 || r.year < 1 || month < 1 || month > 12 || day < 1 || r.day > daysIn(r.year, r.month) {
		return 0, 0, false
	}
	l.date8, l.date2, l.lastDays = date8, date2, r.days()
	return l.lastDays, seconds, true
}

// pair returns the number that two digits make, or more than 99.
func pair(text []byte, at int) uint {
	a, b := uint(text[at])-'0', uint(text[at+1])-'0'
	if a > 9 || b > 9 {
		return 100
	}
	return a*10 + b
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

// momentLayout returns the layout of a date or timestamp column.
func momentLayout(set *columnSetting) (*layout, error) {
	zone, err := time.LoadLocation(set.Timezone)
	if err != nil {
		return nil, fmt.Errorf("timezone: %w", err)
	}
	if set.Format != "" && !tellsDate(set.Format) {
		return nil, fmt.Errorf("format %q does not tell day, month and year; write 2 January 2006, 15:04:05 as the file would%s", set.Format, meant(set.Format))
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

// tellsDate reports whether times of different days are written differently.
func tellsDate(format string) bool {
	day := time.Date(2023, time.November, 17, 0, 0, 0, 0, time.UTC)
	for _, other := range []time.Time{day.AddDate(0, 0, 1), day.AddDate(0, 1, 0), day.AddDate(1, 0, 0)} {
		if other.Format(format) == day.Format(format) {
			return false
		}
	}
	return true
}

// meant suggests a format for one that is written as in another language; "" when it
// is none.
func meant(format string) string {
	for _, words := range [][]string{
		{"%Y", "2006", "%y", "06", "%m", "01", "%d", "02", "%H", "15", "%M", "04", "%S", "05", "%b", "Jan"},
		{"yyyy", "2006", "YYYY", "2006", "yy", "06", "YY", "06", "MMM", "Jan", "MM", "01", "dd", "02", "DD", "02", "HH", "15", "mm", "04", "ss", "05"},
	} {
		if said := strings.NewReplacer(words...).Replace(format); tellsDate(said) {
			return fmt.Sprintf("; did you mean %q?", said)
		}
	}
	return ""
}
