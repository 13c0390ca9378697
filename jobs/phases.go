package jobs

import (
	"slices"
	"strings"
)

// phases returns the lists of steps of a job file in the order in which they begin.
// The next begins when the one before is over.
func phases() []string { return []string{"steps", "on_failure", "finally"} }

// Indices of phases: where a run begins, whose steps do not see how it went, and
// what runs only when something failed.
const (
	mainPhase = iota
	failurePhase
)

// settingOf returns the key of a step that a pointer leads to, such as "with" for
// /finally/0/with; "" for everything else.
func settingOf(pointer string) string {
	parts := strings.Split(pointer, "/")
	if len(parts) != 4 || !slices.Contains(phases(), parts[1]) {
		return ""
	}
	return parts[3]
}

// inStep reports whether a pointer leads into a step.
func inStep(pointer string) bool {
	for _, phase := range phases() {
		if strings.HasPrefix(pointer, "/"+phase+"/") {
			return true
		}
	}
	return false
}
