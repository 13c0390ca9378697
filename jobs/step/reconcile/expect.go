package reconcile

import (
	"fmt"
	"strings"

	"madeira/jobs/step"
)

// accept compares the breaks with what the job expects. It returns a sentence for
// a warning, or a permanent error when a category that must not has too many.
func (l *ledger) accept(expect map[string]acceptable) (string, error) {
	all := expect["all"]
	var warned, failed []string
	for c, n := range l.cases {
		limit, ok := expect[category(c).String()]
		if !ok {
			limit = all
		}
		if n <= limit.Max {
			continue
		}
		text := fmt.Sprintf("%s %d (at most %d)", category(c), n, limit.Max)
		if limit.Else == "fail" {
			failed = append(failed, text)
		} else {
			warned = append(warned, text)
		}
	}
	if len(failed) > 0 {
		return "", step.PermanentCode("recon.expect", fmt.Errorf("reconcile: more breaks than the job accepts: %s; settle them, or raise expect", strings.Join(append(failed, warned...), ", ")))
	}
	if len(warned) > 0 {
		return "more breaks than expected: " + strings.Join(warned, ", "), nil
	}
	return "", nil
}
