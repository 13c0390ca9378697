package jobs

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

var errDuration = errors.New("is not a duration; write a number with a unit, such as 500ms, 30s, 15m, 2h or 3d")

// ParseDuration reads durations as people write them in files: whole numbers
// with a unit, ms, s, m, h or d (24 hours), such as 30s or 1h30m. There are no
// signs and no fractions. The error completes a sentence that begins with the
// text.
func ParseDuration(text string) (time.Duration, error) {
	if text == "" {
		return 0, errDuration
	}
	var total time.Duration
	for rest := text; rest != ""; {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.ParseInt(rest[:digits], 10, 64)
		if err != nil && digits > 0 {
			return 0, errors.New("is too long")
		}
		unit, width := durationUnit(rest[digits:])
		if err != nil || width == 0 {
			return 0, errDuration
		}
		if n > int64(math.MaxInt64-total)/int64(unit) {
			return 0, errors.New("is too long")
		}
		total += time.Duration(n) * unit
		rest = rest[digits+width:]
	}
	return total, nil
}

// durationUnit returns the unit that a text begins with and how long its name is.
func durationUnit(s string) (time.Duration, int) {
	switch {
	case strings.HasPrefix(s, "ms"):
		return time.Millisecond, 2
	case strings.HasPrefix(s, "s"):
		return time.Second, 1
	case strings.HasPrefix(s, "m"):
		return time.Minute, 1
	case strings.HasPrefix(s, "h"):
		return time.Hour, 1
	case strings.HasPrefix(s, "d"):
		return 24 * time.Hour, 1
	}
	return 0, 0
}

// checkDuration says what is wrong with a duration that has to lie between two
// others, or "".
func checkDuration(v any, shortest, longest string) string {
	bounds := fmt.Sprintf("from %s to %s is allowed", shortest, longest)
	text, ok := v.(string)
	if !ok {
		if n := shown(v); n != "" && typeOf(v) == "a number" {
			example := n + "s"
			if checkDuration(example, shortest, longest) != "" {
				example = shortest
			}
			return fmt.Sprintf("%s has no unit; write %q or the like: %s", n, example, bounds)
		}
		return fmt.Sprintf("must be a duration such as %q: %s", shortest, bounds)
	}
	d, err := ParseDuration(text)
	if err != nil {
		return fmt.Sprintf("%q %v: %s", shorten(text), err, bounds)
	}
	low, lowErr := ParseDuration(shortest)
	high, highErr := ParseDuration(longest)
	if lowErr != nil || highErr != nil {
		return fmt.Sprintf("the schema allows from %q to %q, which are no durations", shortest, longest)
	}
	if d < low || d > high {
		return fmt.Sprintf("%q is out of range: %s", text, bounds)
	}
	return ""
}
