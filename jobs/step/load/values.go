package load

import (
	"fmt"
	"strconv"
	"time"

	"madeira/jobs/dataset"
)

// equal reports whether what the database holds is the value of row i: numbers
// by value, null only to null.
func equal(c dataset.Column, stored []byte, v *dataset.Vector, i int) bool {
	if stored == nil || v.Null(i) {
		return stored == nil && v.Null(i)
	}
	switch c.Kind {
	case dataset.Text, dataset.Currency:
		return string(stored) == string(v.Text(i))
	case dataset.Money, dataset.Decimal:
		f, err := dataset.ParseFixed(stored)
		return err == nil && f.Cmp(dataset.Fixed{Mant: v.Ints[i], Scale: c.Scale}) == 0
	case dataset.Boolean:
		n, ok := parseBoolean(stored)
		return ok && n == v.Ints[i]
	case dataset.Date:
		n, err := dataset.ParseDate(stored)
		return err == nil && n == v.Ints[i]
	case dataset.Timestamp:
		n, err := parseTimestamp(string(stored))
		return err == nil && n == v.Ints[i]
	}
	n, err := strconv.ParseInt(string(stored), 10, 64)
	return err == nil && n == v.Ints[i]
}

func parseBoolean(text []byte) (int64, bool) {
	switch string(text) {
	case "1", "t", "true":
		return 1, true
	case "0", "f", "false":
		return 0, true
	}
	return 0, false
}

// parseTimestamp reads the form in which timestamps are loaded, and that of
// PostgreSQL in a session whose zone is UTC.
func parseTimestamp(text string) (int64, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05Z07", "2006-01-02 15:04:05Z07:00"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UnixMicro(), nil
		}
	}
	return 0, fmt.Errorf("%q is no timestamp", text)
}
