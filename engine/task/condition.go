package task

import (
	"fmt"
	"strings"
	"unicode"
)

// conditionMark begins the detail of a task that its own condition ruled out, which
// is written like the key of the job file that it comes from.
const conditionMark = "if: "

// maxCondition is how many characters of a condition the detail of a task holds: a
// line or two in a table, of which job and step say where the rest is.
const maxCondition = 300

// ConditionText is the detail of a task that a condition ruled out: its text in one
// line, of a long one its beginning and how long it is.
func ConditionText(condition string) string {
	line := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.TrimSpace(condition))
	if text := []rune(line); len(text) > maxCondition {
		return conditionMark + string(text[:maxCondition]) + fmt.Sprintf(" … (%d of %d characters)", maxCondition, len(text))
	}
	return conditionMark + line
}

// IsConditionText reports whether the detail of a task says which condition ruled
// it out. One that nobody asked for has another reason.
func IsConditionText(detail string) bool { return strings.HasPrefix(detail, conditionMark) }
