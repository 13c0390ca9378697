package calendar

import (
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// A clock holds times of day, in minutes since midnight.
type clock struct {
	hours   uint32 // each hour with each minute
	minutes uint64
	times   []int // sorted; instead of hours and minutes
}

// next returns the first time of day from a minute on, or -1.
func (c clock) next(from int) int {
	if c.times != nil {
		if i, _ := slices.BinarySearch(c.times, from); i < len(c.times) {
			return c.times[i]
		}
		return -1
	}
	if from >= 24*60 {
		return -1
	}
	hour, minute := from/60, from%60
	if c.hours>>hour&1 == 1 {
		if rest := c.minutes >> minute; rest != 0 {
			return from + bits.TrailingZeros64(rest)
		}
	}
	later := c.hours >> (hour + 1)
	if later == 0 {
		return -1
	}
	return (hour+1+bits.TrailingZeros32(later))*60 + bits.TrailingZeros64(c.minutes)
}

// parseTimes reads times of day such as 10:30, and returns them in order.
func parseTimes(at []string) (clock, error) {
	times := make([]int, len(at))
	for i, text := range at {
		t, err := time.Parse("15:04", text)
		if err != nil || len(text) != len("15:04") {
			return clock{}, &SpecError{Code: CodeAt, Field: "at", Message: fmt.Sprintf("the time %q cannot be read; write hours and minutes, such as \"09:30\", from \"00:00\" to \"23:59\"", text)}
		}
		times[i] = t.Hour()*60 + t.Minute()
	}
	slices.Sort(times)
	times = slices.Compact(times)
	if len(times) == 0 {
		return clock{}, &SpecError{Code: CodeAt, Field: "at", Message: "a time of day is needed, such as \"09:30\""}
	}
	return clock{times: times}, nil
}
