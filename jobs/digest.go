package jobs

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
)

// digest identifies what a run of the job does, presets and the jobs it calls
// included. When it is due, how urgent it is, how patient it is and what people call
// it makes no other result, and a key that is done stays done.
func (c *checker) digest() string {
	meaning := maps.Clone(c.root)
	for _, key := range []string{"description", "labels", "schedule", "calendar", "overlap", "concurrency", "priority", "timeout", "defaults"} {
		delete(meaning, key)
	}
	for _, phase := range phases() {
		if steps, ok := meaning[phase].([]any); ok {
			meaning[phase] = unhurried(steps)
		}
	}
	called := map[string]any{}
	for _, call := range c.src.calls {
		if call.to != nil && call.to.job != nil {
			called[call.name] = call.to.job.Digest
		}
	}
	if len(called) > 0 {
		meaning["calls"] = called
	}
	var w jsonWriter
	w.Grow(len(c.src.text))
	w.write("", meaning)
	sum := sha256.Sum256(w.Bytes())
	return "sha256:" + hex.EncodeToString(sum[:])
}

// unhurried returns the steps of a job without what only says when and how often
// they are tried.
func unhurried(steps []any) []any {
	out := make([]any, len(steps))
	for i, v := range steps {
		m, ok := v.(map[string]any)
		if !ok {
			out[i] = v
			continue
		}
		m = maps.Clone(m)
		for _, key := range []string{"priority", "concurrency", "rate_limit", "max_parallel", "timeout", "retry"} {
			delete(m, key)
		}
		out[i] = m
	}
	return out
}
