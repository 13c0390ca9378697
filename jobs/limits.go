package jobs

import (
	"encoding/json"
	"strconv"
	"strings"
)

// A Concurrency bounds how many steps, or runs, under a key go on at once, of all
// jobs.
type Concurrency struct {
	Key   string // with its expressions, checked
	Limit int
}

// A RateLimit bounds how many steps under a key begin in a time, of all jobs.
type RateLimit struct {
	Key       string  // with its expressions, checked
	PerSecond float64 // how many on average
	Burst     int     // how many at once after a pause
}

// limits reads what a step has to pass before it begins, and how urgent it is.
// Expressions have their frozen form by then.
func (c *checker) limits(s *stepInfo) {
	if n, ok := s.values["priority"].(json.Number); ok {
		priority := int(integerOf(n))
		s.Priority = &priority
	}
	s.Concurrency = concurrency(s.values)
	if m, ok := s.values["rate_limit"].(map[string]any); ok {
		s.RateLimit = &RateLimit{Key: text(m, "key"), PerSecond: perSecond(text(m, "rate")), Burst: 1}
		if n, ok := m["burst"].(json.Number); ok {
			s.RateLimit.Burst = int(integerOf(n))
		}
	}
}

// concurrency reads the limit of a job or a step, nil when there is none.
func concurrency(of map[string]any) *Concurrency {
	m, ok := of["concurrency"].(map[string]any)
	if !ok {
		return nil
	}
	limit, _ := m["limit"].(json.Number)
	return &Concurrency{Key: text(m, "key"), Limit: int(integerOf(limit))}
}

// perSecond reads a rate such as 10/s, which the schema has found to be one.
func perSecond(rate string) float64 {
	number, unit, _ := strings.Cut(rate, "/")
	n, err := strconv.Atoi(number)
	if err != nil {
		return 0
	}
	return float64(n) / map[string]float64{"s": 1, "m": 60, "h": 3600}[unit]
}

// speaksWith notes the connection that a step names. The state database is none:
// where it is down, nothing runs. Nor is a folder: a file that is not there yet says
// nothing about the others in it.
func (c *checker) speaksWith(step int, name string) {
	if step < 0 || name == stateConnection || c.env.Connections[name] == "folder" {
		return
	}
	if s := &c.steps[step]; s.Connection == "" {
		s.Connection = name
	}
}
