package dataset

import (
	"fmt"
	"strconv"
	"time"
)

// Days are counted in eras of 400 years, which all have the same length; within
// an era years begin with March, so that the leap day is the last one.
const (
	daysPerEra   = 146097
	daysTo1970   = 719468 // from 0000-03-01
	microsPerSec = 1_000_000
	microsPerDay = 24 * 60 * 60 * microsPerSec
)

// ParseDate reads a date in the form 2026-10-31, from year 0001 to 9999, and
// returns the days since 1970-01-01. The error wraps ErrSyntax; a day that does
// not exist is one too.
func ParseDate(text []byte) (int64, error) {
	if len(text) != len("2006-01-02") || text[4] != '-' || text[7] != '-' {
		return 0, fmt.Errorf("read date %s as YYYY-MM-DD: %w", quote(text), ErrSyntax)
	}
	year, month, day := number(text[:4]), number(text[5:7]), number(text[8:])
	if year < 1 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) {
		return 0, fmt.Errorf("read date %s as YYYY-MM-DD: %w", quote(text), ErrSyntax)
	}
	return days(year, month, day), nil
}

// DateOf returns the day that t falls on in its own zone, in days since 1970-01-01.
func DateOf(t time.Time) int64 {
	year, month, day := t.Date()
	return days(int64(year), int64(month), int64(day))
}

// FormatDate returns the date that is so many days after 1970-01-01, in the form 2026-10-31.
func FormatDate(days int64) string {
	var buf [32]byte
	return string(AppendDate(buf[:0], days))
}

// AppendDate appends what FormatDate returns.
func AppendDate(dst []byte, days int64) []byte {
	year, month, day := civil(days)
	if year < 0 {
		dst, year = append(dst, '-'), -year
	}
	dst = appendPadded(dst, year, 4)
	dst = append(dst, '-')
	dst = appendPadded(dst, month, 2)
	dst = append(dst, '-')
	return appendPadded(dst, day, 2)
}

// FormatTimestamp returns the instant that is so many microseconds after
// 1970-01-01 UTC in the form of RFC 3339, in UTC: "2026-10-31T23:59:59Z". A
// fraction is shown with as many digits as it needs.
func FormatTimestamp(micros int64) string {
	var buf [48]byte
	return string(AppendTimestamp(buf[:0], micros))
}

// AppendTimestamp appends what FormatTimestamp returns.
func AppendTimestamp(dst []byte, micros int64) []byte {
	day, rest := micros/microsPerDay, micros%microsPerDay
	if rest < 0 {
		day, rest = day-1, rest+microsPerDay
	}
	dst = AppendDate(dst, day)
	sec, frac := rest/microsPerSec, rest%microsPerSec
	dst = append(dst, 'T')
	dst = appendPadded(dst, sec/3600, 2)
	dst = append(dst, ':')
	dst = appendPadded(dst, sec/60%60, 2)
	dst = append(dst, ':')
	dst = appendPadded(dst, sec%60, 2)
	if frac != 0 {
		dst = append(dst, '.')
		dst = appendPadded(dst, frac, 6)
		for dst[len(dst)-1] == '0' {
			dst = dst[:len(dst)-1]
		}
	}
	return append(dst, 'Z')
}

// days returns the days from 1970-01-01 to a date of the Gregorian calendar.
func days(year, month, day int64) int64 {
	if month < 3 {
		year--
		month += 12
	}
	era := floorDiv(year, 400)
	inEra := year - era*400
	return era*daysPerEra + inEra*365 + inEra/4 - inEra/100 + (153*(month-3)+2)/5 + day - 1 - daysTo1970
}

// civil is the inverse of days.
func civil(days int64) (year, month, day int64) {
	era := floorDiv(days, daysPerEra)
	rest := days - era*daysPerEra + daysTo1970
	era, rest = era+rest/daysPerEra, rest%daysPerEra
	inEra := (rest - rest/1460 + rest/36524 - rest/146096) / 365
	rest -= inEra*365 + inEra/4 - inEra/100
	month = (5*rest + 2) / 153
	day = rest - (153*month+2)/5 + 1
	year, month = era*400+inEra, month+3
	if month > 12 {
		year, month = year+1, month-12
	}
	return year, month, day
}

// daysIn returns the length of a month.
func daysIn(year, month int64) int64 {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// floorDiv divides towards negative infinity; b is positive.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// number reads ASCII digits, or returns -1.
func number(digits []byte) int64 {
	n := int64(0)
	for _, c := range digits {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int64(c-'0')
	}
	return n
}

// appendPadded appends a number that is not negative with at least width digits.
func appendPadded(dst []byte, n int64, width int) []byte {
	for ; width > 1; width-- {
		if n < pow10[width-1] {
			dst = append(dst, '0')
		}
	}
	return strconv.AppendInt(dst, n, 10)
}
