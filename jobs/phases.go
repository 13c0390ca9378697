package jobs

import (
	"slices"
	"strings"
)

// phases returns the lists of steps of a job file in the order in which they begin.
// The next begins when the one before is over.
func phases() []string { return []string{"steps", "on_failure", "finally"} }

// mainPhase is where a run begins; steps of later phases see how it went.
const mainPhase = 0

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
