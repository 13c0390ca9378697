package load

import (
	"time"

	"madeira/jobs/step"
)

// TypeWithSlices is Type with slices of another length on SQLite.
func TypeWithSlices(d time.Duration) step.Type {
	t := Type()
	t.Runner = runner{slice: d}
	return t
}
