package task_test

import (
	"encoding/json"
	"fmt"
	"time"

	"madeira/engine/task"
)

func ExampleCorrection() {
	c := task.Correction{
		Version: 2, Actor: "ann", At: time.Date(2026, 11, 3, 9, 0, 0, 0, time.UTC), Reason: "mailed by the bank",
		Settings: map[string]map[string]json.RawMessage{"lines": {
			"file":    json.RawMessage(`{"file":"sha256:5255bdebabce2a9f","name":"corrected.csv","size_bytes":30}`),
			"rejects": json.RawMessage(`{"max":1}`),
		}},
		Inputs: map[string]json.RawMessage{"tolerance": json.RawMessage(`"0.05"`)},
	}
	fmt.Println(c)
	// Of it, only what the job does not say itself by now.
	fmt.Println(c.Without(map[string]json.RawMessage{"lines": json.RawMessage(`{"rejects": {"max": 1}}`)}, json.RawMessage(`{"tolerance": "0.05"}`)))
	// Output:
	// version 2, by ann at 2026-11-03 09:00:00 UTC (mailed by the bank): lines.file = corrected.csv (sha256:5255bdebabce), lines.rejects = {"max":1}, input tolerance = 0.05
	// version 2, by ann at 2026-11-03 09:00:00 UTC (mailed by the bank): lines.file = corrected.csv (sha256:5255bdebabce)
}
